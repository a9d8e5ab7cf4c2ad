/* What the attention kernels share: where a (sequence, head) lies, tiles of it in shared memory, and scores of a tile. */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/mma.cuh"

/* qkv [B, T, 3, NH, size], out [B, T, NH, size], lse [B, NH, T]. */
struct attention_heads {
    int T, NH, size;
    float scale; /* of scores: 1 / sqrt(size) */

    __device__ __host__ int64_t row() const
    {
        return (int64_t)3 * NH * size;
    } /* from a token to the next in qkv */
    __device__ __host__ int64_t out_row() const
    {
        return (int64_t)NH * size;
    }
    __device__ int64_t at_qkv(int pair) const
    {
        return (int64_t)(pair / NH) * T * row() + (int64_t)(pair % NH) * size;
    }
    __device__ int64_t at_out(int pair) const
    {
        return (int64_t)(pair / NH) * T * out_row() + (int64_t)(pair % NH) * size;
    }
    __device__ int64_t at_lse(int pair) const
    {
        return (int64_t)pair * T;
    }
};

static inline attention_heads heads_of(const struct attention_shape *shape)
{
    const int size = shape->C / shape->NH;
    return {shape->T, shape->NH, size, 1 / sqrtf((float)size)};
}

/* The tensor cores take 16-bit types, in rows of whole 16 bytes; what is wider than 128 would not fit the registers. */
static inline bool attention_tiled(enum dtype dtype, const struct attention_shape *shape, bool all_aligned)
{
    const int size = shape->C / shape->NH;
    return dtype != DTYPE_F32 && size % 8 == 0 && size <= 128 && all_aligned;
}

/* attention_plain.cu: any type and size, in fp32 */
void attention_plain_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                             const struct attention_shape *shape);
void attention_plain_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape);

/* attention_forward.cu, attention_backward.cu: tensor cores; delta [B, NH, T] is made already */
void attention_tiled_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                             const struct attention_shape *shape);
void attention_tiled_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape);

/* ---- tiles ------------------------------------------------------------------------------------------------------------------ */

/* Rows of a tile lie D + 8 elements apart: eight rows that a warp reads at once then fall into different banks. */
template <int D> struct tile_of {
    enum { STRIDE = D + 8 };
};

/* Begins to copy rows first .. first + ROWS - 1 (of T) of D columns (of `size`) into shared memory; zeros beyond both. */
template <class E, int D, int ROWS, int THREADS>
__device__ __forceinline__ void tile_begin(E *tile, const E *from, int64_t row, int first, int T, int size)
{
    enum { EIGHTS = D / 8 };
#pragma unroll
    for (int i = (int)threadIdx.x; i < ROWS * EIGHTS; i += THREADS) {
        const int r = i / EIGHTS, c = i % EIGHTS * 8;
        const bool there = first + r < T && c < size;
        copy_begin(tile + r * tile_of<D>::STRIDE + c, there ? from + (first + r) * row + c : from, there);
    }
}

/* Each warp holds STRIPS strips of 16 rows; what it reads of a tile serves all of them.
 * c [16, COLUMNS] += a [16, D] (of which the warp holds the fragments) times the transpose of tile rows 0 .. COLUMNS - 1. */
template <class E, int D, int COLUMNS, int STRIPS>
__device__ __forceinline__ void multiply_rows(fragment_c (&c)[STRIPS][COLUMNS / 8],
                                              const fragment_a (&a)[STRIPS][D / 16], const E *tile)
{
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int k = 0; k < D / 16; k += 2) {
            fragment_b b[2];
            load_b_rows(b, tile, tile_of<D>::STRIDE, n * 8, k * 16);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                mma<E>(c[m][n], a[m][k], b[0]);
                mma<E>(c[m][n], a[m][k + 1], b[1]);
            }
        }
}

/* c [16, D] += p [16, DEPTH], as it came out of a product, times tile rows 0 .. DEPTH - 1. */
template <class E, int D, int DEPTH, int STRIPS>
__device__ __forceinline__ void multiply_columns(fragment_c (&c)[STRIPS][D / 8],
                                                 const fragment_c (&p)[STRIPS][DEPTH / 8], const E *tile)
{
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        fragment_a a[STRIPS];
#pragma unroll
        for (int m = 0; m < STRIPS; m++) a[m] = fragment_of<E>(p[m][2 * k], p[m][2 * k + 1]);
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            fragment_b b[2];
            load_b_columns(b, tile, tile_of<D>::STRIDE, k * 16, n * 8);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                mma<E>(c[m][n], a[m], b[0]);
                mma<E>(c[m][n + 1], a[m], b[1]);
            }
        }
    }
}

/* Rows of 16 that a warp holds go out as rows of memory, by way of its own part of shared memory, so that accesses have 16 bytes. */
template <class E, int D>
__device__ __forceinline__ void rows_out(E *to, int64_t row, int first, int T, int size, E *own,
                                         const fragment_c (&c)[D / 8], float low, float high)
{
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    __syncwarp();
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        *(uint32_t *)(own + g * tile_of<D>::STRIDE + n * 8 + 2 * t) = packed<E>(c[n].r[0] * low, c[n].r[1] * low);
        *(uint32_t *)(own + (g + 8) * tile_of<D>::STRIDE + n * 8 + 2 * t) =
            packed<E>(c[n].r[2] * high, c[n].r[3] * high);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * D / 8; i += WARP) {
        const int r = i / (D / 8), column = i % (D / 8) * 8;
        if (first + r < T && column < size)
            *(uint4 *)(to + (int64_t)(first + r) * row + column) =
                *(const uint4 *)(own + r * tile_of<D>::STRIDE + column);
    }
}

#endif
