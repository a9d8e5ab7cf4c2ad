/* Attention forward on the tensor cores (Dao et al. 2022, 2023): a block walks over the keys up to its last query in tiles of 64,
 * keeping a running maximum and sum for each query. While a tile is computed with, the next is on its way into the other half of
 * shared memory. Each of four warps has one or two strips of 16 queries: with two, what it reads of a tile serves twice as many
 * products, which shared memory would else hold up; heads of 128 leave registers for one. Blocks with the most keys start first. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_rows.cuh"

enum { KEYS = 64, FORWARD_WARPS = 4, FORWARD_THREADS = FORWARD_WARPS * WARP };

template <int D> struct forward_of {
    enum { STRIPS = D <= 64 ? 2 : 1, ROWS = STRIPS * 16, QUERIES = FORWARD_WARPS * ROWS }; /* ROWS: of a warp */
    using tile = padded_tile<D, KEYS>;
    using query_tile = padded_tile<D, QUERIES>;
    enum { BYTES = (query_tile::ELEMS + 4 * tile::ELEMS) * 2 }; /* queries; keys and values, twice */
};

template <class E, int D>
__global__ void __launch_bounds__(FORWARD_THREADS)
    attention_forward(E *out, float *lse, const E *qkv, attention_heads heads)
{
    using of = forward_of<D>;
    using tile = typename of::tile;
    using query_tile = typename of::query_tile;
    enum { STRIPS = of::STRIPS, TILE = tile::ELEMS };
    E *const tile_q = (E *)launched_shared, *const tiles = tile_q + query_tile::ELEMS; /* keys, values; keys, values */
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * of::QUERIES, pair = (int)blockIdx.y, T = heads.T;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, row = first + warp * of::ROWS;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    const int last = first + of::QUERIES < T ? first + of::QUERIES : T, steps = (last + KEYS - 1) / KEYS;

    tile_begin<query_tile, FORWARD_THREADS>(tile_q, q, heads.row(), first, T, heads.size);
    tile_begin<tile, FORWARD_THREADS>(tiles, k, heads.row(), 0, T, heads.size);
    tile_begin<tile, FORWARD_THREADS>(tiles + TILE, v, heads.row(), 0, T, heads.size);
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    fragment_a a[STRIPS][D / 16];
#pragma unroll
    for (int i = 0; i < STRIPS * D / 16; i++)
        a[i / (D / 16)][i % (D / 16)] =
            load_a(tile_q, tile::STRIDE, warp * of::ROWS + i / (D / 16) * 16, i % (D / 16) * 16);

    fragment_c sum[STRIPS][D / 8] = {};
    softmax_rows rows[STRIPS];
    for (int m = 0; m < STRIPS; m++) rows[m] = {{-INFINITY, -INFINITY}, {0, 0}};
    for (int step = 0; step < steps; step++) {
        const E *tile_k = tiles + step % 2 * 2 * TILE;
        E *next = tiles + (step + 1) % 2 * 2 * TILE;
        if (step + 1 < steps) {
            tile_begin<tile, FORWARD_THREADS>(next, k, heads.row(), (step + 1) * KEYS, T, heads.size);
            tile_begin<tile, FORWARD_THREADS>(next + TILE, v, heads.row(), (step + 1) * KEYS, T, heads.size);
        }
        copies_commit();
        if (step * KEYS < row + of::ROWS) { /* else all keys are later than the warp's queries */
            fragment_c s[STRIPS][KEYS / 8] = {};
            multiply_rows<E, D, KEYS, STRIPS>(s, a, tile_k);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                if (step * KEYS + KEYS - 1 > row + m * 16) mask(s[m], row + m * 16 + lane / 4, step * KEYS);
                float shrink[2];
                softmax(s[m], rows[m], shrink, heads.scale * LOG2_E);
                rescale(sum[m], shrink);
            }
            multiply_columns<E, D, KEYS, STRIPS>(sum, s, tile_k + TILE);
        }
        copies_wait<0>();
        __syncthreads(); /* the next tile is there, and all are done with this one */
    }
#pragma unroll
    for (int m = 0; m < STRIPS; m++) {
        softmax_end(rows[m], lse + heads.at_lse(pair), row + m * 16 + lane / 4, T, heads.scale);
        rows_out<query_tile>(out + heads.at_out(pair), heads.out_row(), row + m * 16, T, heads.size, tile_q,
                             warp * of::ROWS + m * 16, sum[m], 1 / rows[m].sum[0], 1 / rows[m].sum[1]);
    }
}

template <class E, int D>
static void send(struct kernels *kernels, void *out, float *lse, const void *qkv, const struct attention_shape *shape)
{
    launch(cuda_of(kernels)->stream, "attention_forward", attention_forward<E, D>,
           dim3(blocks_for(shape->T, forward_of<D>::QUERIES), (unsigned)(shape->B * shape->NH)), FORWARD_THREADS,
           forward_of<D>::BYTES, (E *)out, lse, (const E *)qkv, heads_of(shape));
}

template <class E>
static void send_size(struct kernels *kernels, void *out, float *lse, const void *qkv,
                      const struct attention_shape *shape)
{
    const int size = shape->C / shape->NH;
    if (size <= 32) send<E, 32>(kernels, out, lse, qkv, shape);
    else if (size <= 64) send<E, 64>(kernels, out, lse, qkv, shape);
    else send<E, 128>(kernels, out, lse, qkv, shape);
}

void attention_tiled_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                             const struct attention_shape *shape)
{
    if (dtype == DTYPE_BF16) send_size<bf16>(kernels, out, lse, qkv, shape);
    else send_size<fp16>(kernels, out, lse, qkv, shape);
}
