/* Attention backward on the tensor cores, in two kernels that each make the scores again: one for each tile of keys, which walks
 * over the queries from the diagonal on and keeps dk and dv in registers; one for each tile of queries, which walks over the keys
 * and keeps dq. Scores are computed twice (seven products in place of five), and in return nothing is added by atomics, so bits
 * repeat, and no fp32 copy of dq is needed. With p = e^(score - lse): dv = p^T dout, ds = p (dout v^T - delta), dq = ds k, dk =
 * ds^T q.
 *
 * While a tile of the walk is computed with, the next is on its way. The block's own rows are read from shared memory once, into
 * registers, and leave their room to the walk. Only tiles that the diagonal crosses are masked: rows beyond the sequence have lse
 * infinite, which makes their p zero, and keys beyond it are not written. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_rows.cuh"

enum { BACKWARD_WARPS = 4, BACKWARD_THREADS = BACKWARD_WARPS * WARP };

/* How a kernel goes about it, with heads of D: each warp has STRIPS strips of 16 rows of its own, and all walk in tiles of WALK
 * rows. What a warp reads of a tile serves all of its strips, but registers are few: they also set how many blocks are at work
 * AT_ONCE. Shared memory is in rows: two tiles of the walk, and behind them the block's own two, whose room two more of the walk
 * get. */
template <int D, int STRIPS_, int WALK_, int AT_ONCE_> struct backward_of {
    enum { STRIPS = STRIPS_, WALK = WALK_, AT_ONCE = AT_ONCE_, OWN = BACKWARD_WARPS * STRIPS * 16 };
    using walk_tile = padded_tile<D, WALK>;
    using own_tile = padded_tile<D, OWN>;
    enum { PAIR = 2 * walk_tile::ELEMS, BYTES = (PAIR + 2 * own_tile::ELEMS) * 2 };
};
template <int D> struct keys_of : backward_of<D, 1, 32, D <= 32 ? 4 : D <= 64 ? 3 : 2> {
};
template <int D> struct queries_of : backward_of<D, D <= 64 ? 2 : 1, D <= 64 ? 32 : 64, 2> {
};

template <class E, int D, int STRIPS>
__device__ __forceinline__ void fragments_of(fragment_a (&a)[STRIPS][D / 16], const E *tile)
{
    const int row = (int)threadIdx.x / WARP * STRIPS * 16;
#pragma unroll
    for (int i = 0; i < STRIPS * D / 16; i++)
        a[i / (D / 16)][i % (D / 16)] = load_a(tile, padded_tile<D, 16>::STRIDE, row + i / (D / 16) * 16, i % (D / 16) * 16);
}

/* ---- dk and dv: rows are keys, columns are queries ------------------------------------------------------------------------- */

template <class E, int D>
__global__ void __launch_bounds__(BACKWARD_THREADS, keys_of<D>::AT_ONCE)
    attention_backward_keys(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                            attention_heads heads)
{
    using of = keys_of<D>;
    using walk_tile = typename of::walk_tile;
    using own_tile = typename of::own_tile;
    enum { WALK = of::WALK, PAIR = of::PAIR, OWN = of::OWN };
    E *const tiles = (E *)launched_shared, *const own = tiles + PAIR; /* q and dout; k and v, then q and dout again */
    query_rows<WALK> *const rows = (query_rows<WALK> *)((char *)launched_shared + of::BYTES);
    const int first = (int)blockIdx.x * OWN, pair = (int)blockIdx.y, T = heads.T, size = heads.size;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, key = first + warp * 16,
              i = (int)threadIdx.x;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row(),
            *go = dout + heads.at_out(pair);
    lse += heads.at_lse(pair), delta += heads.at_lse(pair);

    tile_begin<own_tile, BACKWARD_THREADS>(own, k, heads.row(), first, T, size);
    tile_begin<own_tile, BACKWARD_THREADS>(own + own_tile::ELEMS, v, heads.row(), first, T, size);
    tile_begin<walk_tile, BACKWARD_THREADS>(tiles, q, heads.row(), first, T, size);
    tile_begin<walk_tile, BACKWARD_THREADS>(tiles + walk_tile::ELEMS, go, heads.out_row(), first, T, size);
    copies_commit();
    if (i < WALK) rows->lse[i] = lse_of(lse, first + i, T), rows->delta[i] = delta_of(delta, first + i, T);
    copies_wait<0>();
    __syncthreads();
    fragment_a a_k[1][D / 16], a_v[1][D / 16]; /* one strip to a warp: more would not fit the registers */
    fragments_of<E, D, 1>(a_k, own);
    fragments_of<E, D, 1>(a_v, own + own_tile::ELEMS);
    __syncthreads();

    fragment_c dk[1][D / 8] = {}, dv[1][D / 8] = {};
    for (int query = first, step = 0; query < T; query += WALK, step ^= 1) {
        const E *tile_q = tiles + step * PAIR, *tile_dout = tile_q + walk_tile::ELEMS;
        E *next = tiles + (step ^ 1) * PAIR;
        float next_lse = 0, next_delta = 0;
        if (query + WALK < T) {
            tile_begin<walk_tile, BACKWARD_THREADS>(next, q, heads.row(), query + WALK, T, size);
            tile_begin<walk_tile, BACKWARD_THREADS>(next + walk_tile::ELEMS, go, heads.out_row(), query + WALK, T,
                                                    size);
            if (i < WALK)
                next_lse = lse_of(lse, query + WALK + i, T), next_delta = delta_of(delta, query + WALK + i, T);
        }
        copies_commit();
        if (query + WALK > key) { /* else all queries are earlier than the warp's keys */
            fragment_c s[1][WALK / 8] = {}, dp[1][WALK / 8] = {};
            multiply_rows<E, D, WALK, 1>(s, a_k, tile_q);
            multiply_rows<E, D, WALK, 1>(dp, a_v, tile_dout);
            const query_rows<WALK> &row = rows[step];
            const float scale = heads.scale * LOG2_E;
            if (query < key + 15) probabilities_by_key<true>(s[0], row, key + lane / 4, query, scale);
            else probabilities_by_key<false>(s[0], row, key + lane / 4, query, scale);
            slopes_by_key(dp[0], s[0], row);
            multiply_columns<E, D, WALK, 1>(dv, s, tile_dout);
            multiply_columns<E, D, WALK, 1>(dk, dp, tile_q);
        }
        if (i < WALK) rows[step ^ 1].lse[i] = next_lse, rows[step ^ 1].delta[i] = next_delta;
        copies_wait<0>();
        __syncthreads(); /* the next tile is there, and all are done with this one */
    }
    E *to = dqkv + heads.at_qkv(pair) + heads.out_row();
    rows_out<own_tile>(to, heads.row(), key, T, size, tiles, warp * 16, dk[0], heads.scale, heads.scale);
    rows_out<own_tile>(to + heads.out_row(), heads.row(), key, T, size, tiles, warp * 16, dv[0], 1, 1);
}

/* ---- dq: rows are queries, columns are keys --------------------------------------------------------------------------------- */

template <class E, int D>
__global__ void __launch_bounds__(BACKWARD_THREADS, queries_of<D>::AT_ONCE)
    attention_backward_queries(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                               attention_heads heads)
{
    using of = queries_of<D>;
    using walk_tile = typename of::walk_tile;
    using own_tile = typename of::own_tile;
    enum { STRIPS = of::STRIPS, WALK = of::WALK, PAIR = of::PAIR, OWN = of::OWN };
    E *const tiles = (E *)launched_shared, *const own = tiles + PAIR; /* k and v; q and dout, then k and v again */
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * OWN, pair = (int)blockIdx.y, T = heads.T, size = heads.size;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, query = first + warp * STRIPS * 16;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    const int last = first + OWN < T ? first + OWN : T;
    lse += heads.at_lse(pair), delta += heads.at_lse(pair);

    tile_begin<own_tile, BACKWARD_THREADS>(own, q, heads.row(), first, T, size);
    tile_begin<own_tile, BACKWARD_THREADS>(own + own_tile::ELEMS, dout + heads.at_out(pair), heads.out_row(), first, T,
                                           size);
    tile_begin<walk_tile, BACKWARD_THREADS>(tiles, k, heads.row(), 0, T, size);
    tile_begin<walk_tile, BACKWARD_THREADS>(tiles + walk_tile::ELEMS, v, heads.row(), 0, T, size);
    copies_commit();
    float own_lse[STRIPS][2], own_delta[STRIPS][2];
#pragma unroll
    for (int i = 0; i < STRIPS * 2; i++) {
        own_lse[i / 2][i % 2] = lse_of(lse, query + lane / 4 + i * 8, T);
        own_delta[i / 2][i % 2] = delta_of(delta, query + lane / 4 + i * 8, T);
    }
    copies_wait<0>();
    __syncthreads();
    fragment_a a_q[STRIPS][D / 16], a_dout[STRIPS][D / 16];
    fragments_of<E, D, STRIPS>(a_q, own);
    fragments_of<E, D, STRIPS>(a_dout, own + own_tile::ELEMS);
    __syncthreads();

    fragment_c dq[STRIPS][D / 8] = {};
    for (int key = 0, step = 0; key < last; key += WALK, step ^= 1) {
        const E *tile_k = tiles + step * PAIR, *tile_v = tile_k + walk_tile::ELEMS;
        E *next = tiles + (step ^ 1) * PAIR;
        if (key + WALK < last) {
            tile_begin<walk_tile, BACKWARD_THREADS>(next, k, heads.row(), key + WALK, T, size);
            tile_begin<walk_tile, BACKWARD_THREADS>(next + walk_tile::ELEMS, v, heads.row(), key + WALK, T, size);
        }
        copies_commit();
        if (key < query + STRIPS * 16) { /* else all keys are later than the warp's queries */
            fragment_c s[STRIPS][WALK / 8] = {}, dp[STRIPS][WALK / 8] = {};
            multiply_rows<E, D, WALK, STRIPS>(s, a_q, tile_k);
            multiply_rows<E, D, WALK, STRIPS>(dp, a_dout, tile_v);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                const int strip = query + m * 16, row = strip + lane / 4;
                const float scale = heads.scale * LOG2_E;
                if (key + WALK - 1 > strip) probabilities_by_query<true>(s[m], own_lse[m], row, key, scale);
                else probabilities_by_query<false>(s[m], own_lse[m], row, key, scale);
                slopes_by_query(dp[m], s[m], own_delta[m]);
            }
            multiply_columns<E, D, WALK, STRIPS>(dq, dp, tile_k);
        }
        copies_wait<0>();
        __syncthreads(); /* the next tile is there, and all are done with this one */
    }
#pragma unroll
    for (int m = 0; m < STRIPS; m++)
        rows_out<own_tile>(dqkv + heads.at_qkv(pair), heads.row(), query + m * 16, T, size, tiles, warp * 16, dq[m],
                           heads.scale, heads.scale);
}

template <class E, int D>
static void send(struct kernels *kernels, void *dqkv, const void *dout, const float *lse, const float *delta,
                 const void *qkv, const struct attention_shape *shape)
{
    const unsigned pairs = (unsigned)(shape->B * shape->NH);
    launch(cuda_of(kernels)->stream, "attention_backward_keys", attention_backward_keys<E, D>,
           dim3(blocks_for(shape->T, keys_of<D>::OWN), pairs), BACKWARD_THREADS,
           keys_of<D>::BYTES + 2 * sizeof(query_rows<keys_of<D>::WALK>), (E *)dqkv, (const E *)dout, lse, delta,
           (const E *)qkv, heads_of(shape));
    launch(cuda_of(kernels)->stream, "attention_backward_queries", attention_backward_queries<E, D>,
           dim3(blocks_for(shape->T, queries_of<D>::OWN), pairs), BACKWARD_THREADS, queries_of<D>::BYTES, (E *)dqkv,
           (const E *)dout, lse, delta, (const E *)qkv, heads_of(shape));
}

template <class E>
static void send_size(struct kernels *kernels, void *dqkv, const void *dout, const float *lse, const float *delta,
                      const void *qkv, const struct attention_shape *shape)
{
    const int size = shape->C / shape->NH;
    if (size <= 32) send<E, 32>(kernels, dqkv, dout, lse, delta, qkv, shape);
    else if (size <= 64) send<E, 64>(kernels, dqkv, dout, lse, delta, qkv, shape);
    else send<E, 128>(kernels, dqkv, dout, lse, delta, qkv, shape);
}

void attention_tiled_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape)
{
    if (dtype == DTYPE_BF16) send_size<bf16>(kernels, dqkv, dout, lse, delta, qkv, shape);
    else send_size<fp16>(kernels, dqkv, dout, lse, delta, qkv, shape);
}
