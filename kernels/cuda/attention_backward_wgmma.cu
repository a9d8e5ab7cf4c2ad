/* Attention backward by Hopper's warpgroups: the two kernels of attention_backward.cu, one by keys for dk and dv, one by queries
 * for dq, with products that go on beside the threads. A warpgroup has 64 rows of its own, which the tensor cores read where they
 * lie in shared memory, so that registers are left for sums. The walk is in tiles of 64 rows; a warpgroup's diagonal is one of
 * them.
 *
 * By keys, per score: four products, 512 operations, 1/8 of a cycle of a multiprocessor; one power of two, 1/16 of a cycle. By
 * queries: three products, 3/32, and as many powers. Shared memory gives 128 bytes a cycle; a product of 64 x 64 x 16 takes 32
 * cycles and reads 4 KiB where both sides lie there, 2 KiB where one is in registers: 96 bytes a cycle by keys, 107 by queries. So
 * both are bound by the tensor cores, as long as several warpgroups are at work. */
#include "kernels/cuda/attention_wgmma.cuh"

/* How a kernel goes about it: so many warpgroups a block, so many blocks AT_ONCE, which bounds registers. All warpgroups of a block
 * share a tile of the walk: alone, each would take some 20 bytes a cycle from the second cache, which has little more for a
 * multiprocessor. */
template <int D, int GROUPS_, int AT_ONCE_> struct grouped_backward {
    enum { GROUPS = GROUPS_, AT_ONCE = AT_ONCE_, THREADS = GROUPS * GROUP, OWN = GROUPS * GROUP_ROWS, WALK = 64 };
    using walk_tile = swizzled_tile<D, WALK>;
    using own_tile = swizzled_tile<D, OWN>;
    enum { PAIR = 2 * walk_tile::ELEMS, BYTES = (2 * own_tile::ELEMS + 2 * PAIR) * 2 }; /* own two; walk's two, twice */
};
template <int D> struct grouped_keys : grouped_backward<D, D <= 64 ? 3 : 2, 1> {
};
template <int D> struct grouped_queries : grouped_backward<D, D <= 64 ? 2 : 3, D <= 64 ? 2 : 1> {
};

/* s: scores, which are there; dp, which is on its way: of the warpgroup's rows of two own tiles, by two of the walk. */
template <class Own, class Tile, class E>
__device__ __forceinline__ void products_begin(fragment_c (&s)[Tile::ROWS / 8], fragment_c (&dp)[Tile::ROWS / 8],
                                               const E *own, int row, const E *tile)
{
    group_begin(s, dp);
    group_rows<Own, Tile>(s, own, row, tile);
    group_commit();
    group_rows<Own, Tile>(dp, own + Own::ELEMS, row, tile + Tile::ELEMS);
    group_commit();
    group_wait<1>(s);
}

/* ---- dk and dv: rows are keys, columns are queries ------------------------------------------------------------------------- */

/* dk and dv += what a tile of queries gives. p is made beside dp's product. */
template <class E, int D, bool MASKED>
__device__ __forceinline__ void keys_step(fragment_c (&dk)[D / 8], fragment_c (&dv)[D / 8], const E *own, int row,
                                          const E *tile_q, const query_rows<64> &rows, int key, int query, float scale)
{
    using walk_tile = typename grouped_keys<D>::walk_tile;
    using own_tile = typename grouped_keys<D>::own_tile;
    const E *tile_dout = tile_q + walk_tile::ELEMS;
    fragment_c s[walk_tile::ROWS / 8], dp[walk_tile::ROWS / 8];
    fragment_a p[walk_tile::ROWS / 16], ds[walk_tile::ROWS / 16];
    products_begin<own_tile, walk_tile>(s, dp, own, row, tile_q);
    probabilities_by_key<MASKED>(s, rows, key, query, scale);
    hidden(s);
    group_wait<0>(dp);
    slopes_by_key(dp, s, rows);
    pack<E>(p, s);
    pack<E>(ds, dp);
    group_begin(dv, dk, p, ds);
    group_columns<walk_tile>(dv, p, tile_dout);
    group_columns<walk_tile>(dk, ds, tile_q);
    group_commit();
    group_wait<0>(dk, dv, p, ds);
}

template <class E, int D>
__device__ __forceinline__ void keys_walk(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                                          const attention_heads &heads)
{
    using of = grouped_keys<D>;
    using walk_tile = typename of::walk_tile;
    using own_tile = typename of::own_tile;
    enum { WALK = of::WALK, PAIR = of::PAIR, THREADS = of::THREADS };
    E *const own = (E *)launched_shared, *const tiles = own + 2 * own_tile::ELEMS; /* k and v; q and dout, twice */
    query_rows<WALK> *const rows = (query_rows<WALK> *)((char *)launched_shared + of::BYTES);
    const int first = (int)blockIdx.x * of::OWN, pair = (int)blockIdx.y, T = heads.T, size = heads.size;
    const int i = (int)threadIdx.x, row = group_number() * GROUP_ROWS, warp = i / WARP * 16;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row(),
            *go = dout + heads.at_out(pair);
    lse += heads.at_lse(pair), delta += heads.at_lse(pair);

    tile_begin<own_tile, THREADS>(own, k, heads.row(), first, T, size);
    tile_begin<own_tile, THREADS>(own + own_tile::ELEMS, v, heads.row(), first, T, size);
    tile_walk<walk_tile, THREADS, E> walk_q(q, heads.row(), first, T, size);
    tile_walk<walk_tile, THREADS, E> walk_dout(go, heads.out_row(), first, T, size);
    walk_q.begin(tiles);
    walk_dout.begin(tiles + walk_tile::ELEMS);
    copies_commit();
    if (i < WALK) rows->lse[i] = lse_of(lse, first + i, T), rows->delta[i] = delta_of(delta, first + i, T);
    tiles_arrived();

    fragment_c dk[D / 8] = {}, dv[D / 8] = {};
    const float scale = heads.scale * LOG2_E;
    for (int query = first, step = 0; query < T; query += WALK, step ^= 1) {
        const E *tile_q = tiles + step * PAIR;
        E *next = tiles + (step ^ 1) * PAIR;
        float next_lse = 0, next_delta = 0;
        if (query + WALK < T) {
            walk_q.go(WALK);
            walk_dout.go(WALK);
            walk_q.begin(next);
            walk_dout.begin(next + walk_tile::ELEMS);
            if (i < WALK)
                next_lse = lse_of(lse, query + WALK + i, T), next_delta = delta_of(delta, query + WALK + i, T);
        }
        copies_commit();
        const int key = first + warp + i % WARP / 4;
        if (query == first + row) keys_step<E, D, true>(dk, dv, own, row, tile_q, rows[step], key, query, scale);
        else if (query > first + row) keys_step<E, D, false>(dk, dv, own, row, tile_q, rows[step], key, query, scale);
        if (i < WALK) rows[step ^ 1].lse[i] = next_lse, rows[step ^ 1].delta[i] = next_delta;
        tiles_arrived();
    }
    E *to = dqkv + heads.at_qkv(pair) + heads.out_row();
    rows_out<own_tile>(to, heads.row(), first + warp, T, size, own, warp, dk, heads.scale, heads.scale);
    rows_out<own_tile>(to + heads.out_row(), heads.row(), first + warp, T, size, own, warp, dv, 1, 1);
}

template <class E, int D>
__global__ void __launch_bounds__(grouped_keys<D>::THREADS, grouped_keys<D>::AT_ONCE)
    attention_backward_keys_groups(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                                   attention_heads heads)
{
    if constexpr (WGMMA_HERE) keys_walk<E, D>(dqkv, dout, lse, delta, qkv, heads);
    else stop_here();
}

/* ---- dq: rows are queries, columns are keys --------------------------------------------------------------------------------- */

/* dq += what a tile of keys gives; p is made beside dp's product. lse, delta: of queries `query` and query + 8. */
template <class E, int D, bool MASKED>
__device__ __forceinline__ void queries_step(fragment_c (&dq)[D / 8], const E *own, int row, const E *tile_k,
                                             const float (&lse)[2], const float (&delta)[2], int query, int key,
                                             float scale)
{
    using walk_tile = typename grouped_queries<D>::walk_tile;
    using own_tile = typename grouped_queries<D>::own_tile;
    fragment_c s[walk_tile::ROWS / 8], dp[walk_tile::ROWS / 8];
    fragment_a ds[walk_tile::ROWS / 16];
    products_begin<own_tile, walk_tile>(s, dp, own, row, tile_k);
    probabilities_by_query<MASKED>(s, lse, query, key, scale);
    hidden(s);
    group_wait<0>(dp);
    slopes_by_query(dp, s, delta);
    pack<E>(ds, dp);
    group_begin(dq, ds);
    group_columns<walk_tile>(dq, ds, tile_k);
    group_commit();
    group_wait<0>(dq, ds);
}

template <class E, int D>
__device__ __forceinline__ void queries_walk(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                                             const attention_heads &heads)
{
    using of = grouped_queries<D>;
    using walk_tile = typename of::walk_tile;
    using own_tile = typename of::own_tile;
    enum { WALK = of::WALK, PAIR = of::PAIR, THREADS = of::THREADS };
    E *const own = (E *)launched_shared, *const tiles = own + 2 * own_tile::ELEMS; /* q and dout; k and v, twice */
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * of::OWN, pair = (int)blockIdx.y, T = heads.T;
    const int row = group_number() * GROUP_ROWS, warp = (int)threadIdx.x / WARP * 16, size = heads.size;
    const int query = first + warp + (int)threadIdx.x % WARP / 4, last = first + of::OWN < T ? first + of::OWN : T;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    lse += heads.at_lse(pair), delta += heads.at_lse(pair);

    tile_begin<own_tile, THREADS>(own, q, heads.row(), first, T, size);
    tile_begin<own_tile, THREADS>(own + own_tile::ELEMS, dout + heads.at_out(pair), heads.out_row(), first, T, size);
    tile_walk<walk_tile, THREADS, E> walk_k(k, heads.row(), 0, T, size), walk_v(v, heads.row(), 0, T, size);
    walk_k.begin(tiles);
    walk_v.begin(tiles + walk_tile::ELEMS);
    copies_commit();
    const float own_lse[2] = {lse_of(lse, query, T), lse_of(lse, query + 8, T)};
    const float own_delta[2] = {delta_of(delta, query, T), delta_of(delta, query + 8, T)};
    tiles_arrived();

    fragment_c dq[D / 8] = {};
    const float scale = heads.scale * LOG2_E;
    for (int key = 0, step = 0; key < last; key += WALK, step ^= 1) {
        const E *tile_k = tiles + step * PAIR;
        E *next = tiles + (step ^ 1) * PAIR;
        if (key + WALK < last) {
            walk_k.go(WALK);
            walk_v.go(WALK);
            walk_k.begin(next);
            walk_v.begin(next + walk_tile::ELEMS);
        }
        copies_commit();
        if (key == first + row) queries_step<E, D, true>(dq, own, row, tile_k, own_lse, own_delta, query, key, scale);
        else if (key < first + row)
            queries_step<E, D, false>(dq, own, row, tile_k, own_lse, own_delta, query, key, scale);
        tiles_arrived();
    }
    rows_out<own_tile>(dqkv + heads.at_qkv(pair), heads.row(), first + warp, T, size, own, warp, dq, heads.scale,
                       heads.scale);
}

template <class E, int D>
__global__ void __launch_bounds__(grouped_queries<D>::THREADS, grouped_queries<D>::AT_ONCE)
    attention_backward_queries_groups(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                                      attention_heads heads)
{
    if constexpr (WGMMA_HERE) queries_walk<E, D>(dqkv, dout, lse, delta, qkv, heads);
    else stop_here();
}

template <class E, int D>
static void send(struct kernels *kernels, void *dqkv, const void *dout, const float *lse, const float *delta,
                 const void *qkv, const struct attention_shape *shape)
{
    const unsigned pairs = (unsigned)(shape->B * shape->NH);
    launch(cuda_of(kernels)->stream, "attention_backward_keys", attention_backward_keys_groups<E, D>,
           dim3(blocks_for(shape->T, grouped_keys<D>::OWN), pairs), grouped_keys<D>::THREADS,
           grouped_keys<D>::BYTES + 2 * sizeof(query_rows<grouped_keys<D>::WALK>), (E *)dqkv, (const E *)dout, lse,
           delta, (const E *)qkv, heads_of(shape));
    launch(cuda_of(kernels)->stream, "attention_backward_queries", attention_backward_queries_groups<E, D>,
           dim3(blocks_for(shape->T, grouped_queries<D>::OWN), pairs), grouped_queries<D>::THREADS,
           grouped_queries<D>::BYTES, (E *)dqkv, (const E *)dout, lse, delta, (const E *)qkv, heads_of(shape));
}

void attention_grouped_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout,
                                const float *lse, const float *delta, const void *qkv,
                                const struct attention_shape *shape)
{
    const bool wide = shape->C / shape->NH > 64;
    if (dtype == DTYPE_BF16) (wide ? send<bf16, 128> : send<bf16, 64>)(kernels, dqkv, dout, lse, delta, qkv, shape);
    else (wide ? send<fp16, 128> : send<fp16, 64>)(kernels, dqkv, dout, lse, delta, qkv, shape);
}
