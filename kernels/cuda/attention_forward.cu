/* Attention forward on the tensor cores (Dao et al. 2022, 2023): a block walks over the keys up to its last query in tiles
 * of 64, keeping a running maximum and sum for each query. While a tile is computed with, the next is on its way into the other half
 * of shared memory. Each of four warps has one or two strips of 16 queries: with two, what it reads of a tile serves twice as many
 * products, which shared memory would else hold up; heads of 128 leave registers for one. Blocks with the most keys start first. */
#include "kernels/cuda/attention.cuh"

enum { KEYS = 64, FORWARD_WARPS = 4, FORWARD_THREADS = FORWARD_WARPS * WARP };

template <int D> struct forward_of {
    enum { STRIPS = D <= 64 ? 2 : 1, ROWS = STRIPS * 16, QUERIES = FORWARD_WARPS * ROWS }; /* ROWS: of a warp */
    enum { TILE = KEYS * tile_of<D>::STRIDE, QUERY_TILE = QUERIES * tile_of<D>::STRIDE };
    enum { BYTES = (QUERY_TILE + 4 * TILE) * 2 }; /* queries; keys and values, twice */
};

struct softmax_rows {
    float top[2], sum[2]; /* of rows g and g + 8 of a strip */
};

/* Scores beyond the diagonal, or the sequence, become -inf. */
__device__ __forceinline__ void mask(fragment_c (&s)[KEYS / 8], int query, int key, int T)
{
    const int t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = key + n * 8 + 2 * t + i % 2;
            if (column > query + i / 2 * 8 || column >= T) s[n].r[i] = -INFINITY;
        }
}

/* Scores become probabilities relative to the running maximum; what was summed before is rescaled. */
template <int D>
__device__ __forceinline__ void softmax(fragment_c (&s)[KEYS / 8], fragment_c (&out)[D / 8], softmax_rows &rows,
                                        float scale_log2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = rows.top[half];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) top = fmaxf(top, fmaxf(s[n].r[2 * half], s[n].r[2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const float base = top * scale_log2; /* finite: every row sees the first key */
        const float shrink = exp2_fast(rows.top[half] * scale_log2 - base);
        float sum = 0;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) sum += s[n].r[i] = exp2_fast(s[n].r[i] * scale_log2 - base);
        rows.top[half] = top;
        rows.sum[half] = rows.sum[half] * shrink + sum; /* of this lane's columns; lanes are added at the end */
#pragma unroll
        for (int n = 0; n < D / 8; n++) out[n].r[2 * half] *= shrink, out[n].r[2 * half + 1] *= shrink;
    }
}

__device__ __forceinline__ void softmax_end(softmax_rows &rows, float *lse, int query, int T, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        rows.sum[half] += __shfl_xor_sync(0xffffffffu, rows.sum[half], 1);
        rows.sum[half] += __shfl_xor_sync(0xffffffffu, rows.sum[half], 2);
        if (threadIdx.x % 4 == 0 && query + 8 * half < T)
            lse[query + 8 * half] = rows.top[half] * scale + logf(rows.sum[half]);
    }
}

template <class E, int D>
__global__ void __launch_bounds__(FORWARD_THREADS)
    attention_forward(E *out, float *lse, const E *qkv, attention_heads heads)
{
    using of = forward_of<D>;
    enum { STRIPS = of::STRIPS, TILE = of::TILE, STRIDE = tile_of<D>::STRIDE };
    E *const tile_q = (E *)launched_shared, *const tiles = tile_q + of::QUERY_TILE; /* keys, values; keys, values */
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * of::QUERIES, pair = (int)blockIdx.y, T = heads.T;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, row = first + warp * of::ROWS;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    const int last = first + of::QUERIES < T ? first + of::QUERIES : T, steps = (last + KEYS - 1) / KEYS;

    tile_begin<E, D, of::QUERIES, FORWARD_THREADS>(tile_q, q, heads.row(), first, T, heads.size);
    tile_begin<E, D, KEYS, FORWARD_THREADS>(tiles, k, heads.row(), 0, T, heads.size);
    tile_begin<E, D, KEYS, FORWARD_THREADS>(tiles + TILE, v, heads.row(), 0, T, heads.size);
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    fragment_a a[STRIPS][D / 16];
#pragma unroll
    for (int i = 0; i < STRIPS * D / 16; i++)
        a[i / (D / 16)][i % (D / 16)] = load_a(tile_q, STRIDE, warp * of::ROWS + i / (D / 16) * 16, i % (D / 16) * 16);

    fragment_c sum[STRIPS][D / 8] = {};
    softmax_rows rows[STRIPS];
    for (int m = 0; m < STRIPS; m++) rows[m] = {{-INFINITY, -INFINITY}, {0, 0}};
    for (int step = 0; step < steps; step++) {
        const E *tile_k = tiles + step % 2 * 2 * TILE;
        E *next = tiles + (step + 1) % 2 * 2 * TILE;
        if (step + 1 < steps) {
            tile_begin<E, D, KEYS, FORWARD_THREADS>(next, k, heads.row(), (step + 1) * KEYS, T, heads.size);
            tile_begin<E, D, KEYS, FORWARD_THREADS>(next + TILE, v, heads.row(), (step + 1) * KEYS, T, heads.size);
        }
        copies_commit();
        if (step * KEYS < row + of::ROWS) { /* else all keys are later than the warp's queries */
            fragment_c s[STRIPS][KEYS / 8] = {};
            multiply_rows<E, D, KEYS, STRIPS>(s, a, tile_k);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                if (step * KEYS + KEYS - 1 > row + m * 16) mask(s[m], row + m * 16 + lane / 4, step * KEYS, T);
                softmax<D>(s[m], sum[m], rows[m], heads.scale * 1.44269504f);
            }
            multiply_columns<E, D, KEYS, STRIPS>(sum, s, tile_k + TILE);
        }
        copies_wait<0>();
        __syncthreads(); /* the next tile is there, and all are done with this one */
    }
#pragma unroll
    for (int m = 0; m < STRIPS; m++) {
        softmax_end(rows[m], lse + heads.at_lse(pair), row + m * 16 + lane / 4, T, heads.scale);
        rows_out<E, D>(out + heads.at_out(pair), heads.out_row(), row + m * 16, T, heads.size,
                       tile_q + (warp * of::ROWS + m * 16) * STRIDE, sum[m], 1 / rows[m].sum[0], 1 / rows[m].sum[1]);
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
