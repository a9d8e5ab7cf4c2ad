/* Attention forward by Hopper's warpgroups: the algorithm of attention_forward.cu, with products that go on beside the threads.
 * Each warpgroup has 64 queries and walks over the keys from its diagonal back to the first, so that only its first tile is masked.
 * While the tensor cores multiply the probabilities of a tile with its values, and before that the next scores, the threads turn
 * scores into probabilities; what one warpgroup waits for, the others of the multiprocessor cover.
 *
 * A step of the walk has the keys of tile n - 1 and the values of tile n. Of what it copies meanwhile, each goes to where the tile
 * before the last was.
 *
 * With heads of 64, per score: 256 operations of the tensor cores, which do 4,096 a cycle of a multiprocessor, and one power of
 * two, of which there are 16 a cycle: 1/16 of a cycle each, so neither may wait for the other. Products read 64 bytes of shared
 * memory a cycle, of 128. */
#include "kernels/cuda/attention_wgmma.cuh"

template <int D> struct grouped_forward {
    enum { GROUPS = 2, KEYS = D <= 64 ? 64 : 128, AT_ONCE = D <= 64 ? 2 : 1 }; /* AT_ONCE: blocks, by registers */
    enum { THREADS = GROUPS * GROUP, QUERIES = GROUPS * GROUP_ROWS };
    using tile = swizzled_tile<D, KEYS>;
    using query_tile = swizzled_tile<D, QUERIES>;
    enum { BYTES = (query_tile::ELEMS + 4 * tile::ELEMS) * 2 }; /* queries; keys, twice; values, twice */
};

/* The warpgroup's first tile of keys, from `key` on, which the diagonal crosses: p of its scores. */
template <class Tile, class E>
__device__ __forceinline__ void forward_first(fragment_a (&p)[Tile::ROWS / 16], softmax_rows &rows,
                                              fragment_a (&a)[Tile::D / 16], const E *tile_k, int query, int key,
                                              float scale)
{
    fragment_c s[Tile::ROWS / 8];
    float shrink[2]; /* of sums that there are none of yet */
    group_begin(s, a);
    group_rows<Tile>(s, a, tile_k);
    group_commit();
    group_wait<0>(s, a);
    mask(s, query, key);
    softmax(s, rows, shrink, scale);
    pack<E>(p, s);
}

/* sum += p times the values of the tile before, and beside it p of the next keys. */
template <class Tile, class E>
__device__ __forceinline__ void forward_step(fragment_c (&sum)[Tile::D / 8], fragment_a (&p)[Tile::ROWS / 16],
                                             softmax_rows &rows, fragment_a (&a)[Tile::D / 16], const E *tile_k,
                                             const E *tile_v, float scale)
{
    fragment_c s[Tile::ROWS / 8];
    float shrink[2];
    group_begin(s, sum, a, p);
    group_rows<Tile>(s, a, tile_k);
    group_commit();
    group_columns<Tile>(sum, p, tile_v);
    group_commit();
    group_wait<1>(s, a);
    softmax(s, rows, shrink, scale);
    hidden(rows.sum[0] < 0 || rows.sum[1] < 0);
    group_wait<0>(sum, p);
    rescale(sum, shrink);
    pack<E>(p, s);
}

template <class Tile, class E>
__device__ __forceinline__ void forward_last(fragment_c (&sum)[Tile::D / 8], fragment_a (&p)[Tile::ROWS / 16],
                                             const E *tile_v)
{
    group_begin(sum, p);
    group_columns<Tile>(sum, p, tile_v);
    group_commit();
    group_wait<0>(sum, p);
}

template <class E, int D>
__device__ __forceinline__ void forward_walk(E *out, float *lse, const E *qkv, const attention_heads &heads)
{
    using of = grouped_forward<D>;
    using tile = typename of::tile;
    using query_tile = typename of::query_tile;
    enum { KEYS = of::KEYS, THREADS = of::THREADS };
    E *const tile_q = (E *)launched_shared, *const tiles_k = tile_q + query_tile::ELEMS,
             *const tiles_v = tiles_k + 2 * tile::ELEMS;
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * of::QUERIES, pair = (int)blockIdx.y, T = heads.T;
    const int row = group_number() * GROUP_ROWS, own = (int)threadIdx.x / WARP * 16; /* the warpgroup's; the warp's */
    const int query = first + own + (int)threadIdx.x % WARP / 4;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    const int last = ((first + of::QUERIES < T ? first + of::QUERIES : T) - 1) / KEYS;
    const int diagonal = (first + row) / KEYS; /* the warpgroup's last tile of keys */

    tile_walk<tile, THREADS, E> keys(k, heads.row(), last * KEYS, T, heads.size);
    tile_walk<tile, THREADS, E> values(v, heads.row(), last * KEYS, T, heads.size);
    tile_begin<query_tile, THREADS>(tile_q, q, heads.row(), first, T, heads.size);
    keys.begin(tiles_k + last % 2 * tile::ELEMS);
    keys.go(-KEYS);
    copies_commit();
    tiles_arrived();
    fragment_a a[D / 16], p[KEYS / 16] = {};
    group_fragments<query_tile>(a, tile_q, row);

    fragment_c sum[D / 8] = {};
    softmax_rows rows = {{-INFINITY, -INFINITY}, {0, 0}};
    const float scale = heads.scale * LOG2_E;
    for (int n = last + 1; n >= 0; n--) {
        const E *tile_k = tiles_k + (n + 1) % 2 * tile::ELEMS, *tile_v = tiles_v + n % 2 * tile::ELEMS;
        if (n > 1) keys.begin(tiles_k + n % 2 * tile::ELEMS);
        if (n > 0) values.begin(tiles_v + (n + 1) % 2 * tile::ELEMS);
        keys.go(-KEYS);
        values.go(-KEYS);
        copies_commit();
        if (n == diagonal + 1) forward_first<tile>(p, rows, a, tile_k, query, diagonal * KEYS, scale);
        else if (n <= diagonal && n > 0) forward_step<tile>(sum, p, rows, a, tile_k, tile_v, scale);
        else if (n == 0) forward_last<tile>(sum, p, tile_v);
        tiles_arrived();
    }
    softmax_end(rows, lse + heads.at_lse(pair), query, T, heads.scale);
    rows_out<query_tile>(out + heads.at_out(pair), heads.out_row(), first + own, T, heads.size, tile_q, own, sum,
                         1 / rows.sum[0], 1 / rows.sum[1]);
}

template <class E, int D>
__global__ void __launch_bounds__(grouped_forward<D>::THREADS, grouped_forward<D>::AT_ONCE)
    attention_forward_groups(E *out, float *lse, const E *qkv, attention_heads heads)
{
    if constexpr (WGMMA_HERE) forward_walk<E, D>(out, lse, qkv, heads);
    else stop_here();
}

template <class E, int D>
static void send(struct kernels *kernels, void *out, float *lse, const void *qkv, const struct attention_shape *shape)
{
    launch(cuda_of(kernels)->stream, "attention_forward", attention_forward_groups<E, D>,
           dim3(blocks_for(shape->T, grouped_forward<D>::QUERIES), (unsigned)(shape->B * shape->NH)),
           grouped_forward<D>::THREADS, grouped_forward<D>::BYTES, (E *)out, lse, (const E *)qkv, heads_of(shape));
}

void attention_grouped_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                               const struct attention_shape *shape)
{
    const bool wide = shape->C / shape->NH > 64;
    if (dtype == DTYPE_BF16) (wide ? send<bf16, 128> : send<bf16, 64>)(kernels, out, lse, qkv, shape);
    else (wide ? send<fp16, 128> : send<fp16, 64>)(kernels, out, lse, qkv, shape);
}
