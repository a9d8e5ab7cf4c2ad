/* Shared by the attention kernels: the addresses of a (sequence, head), its tiles in shared memory, and scores of a tile. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/mma.cuh"

#include <limits.h>

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

/* The tensor cores take 16-bit types, in rows of whole 16 bytes. Heads wider than 128 would not fit the registers. */
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

/* attention_forward.cu, attention_backward.cu: tensor cores by warps; the caller has computed delta [B, NH, T] */
void attention_tiled_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                             const struct attention_shape *shape);
void attention_tiled_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape);

/* attention_forward_wgmma.cu, attention_backward_wgmma.cu: Hopper's, by warpgroups; for heads wider than 32 */
static inline bool attention_grouped(const struct cuda *cuda, const struct attention_shape *shape)
{
    return cuda->by_groups && shape->C / shape->NH > 32;
}
void attention_grouped_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                               const struct attention_shape *shape);
void attention_grouped_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout,
                                const float *lse, const float *delta, const void *qkv,
                                const struct attention_shape *shape);

/* ---- tiles ------------------------------------------------------------------------------------------------------------------ */

/* ROWS x D elements in shared memory. Rows lie D + 8 elements apart: eight rows that a warp reads at once then fall into
 * different banks. */
template <int D_, int ROWS_> struct padded_tile {
    enum { D = D_, ROWS = ROWS_, STRIDE = D + 8, ELEMS = ROWS * STRIDE };
    __device__ static int at(int row, int column)
    {
        return row * STRIDE + column;
    }
};

/* Copies T rows of global memory into tiles of shared memory, one tile at a time, from row `first` on. Rows have `size` columns and
 * begin `row` elements apart. A thread copies a column of 16-byte chunks, ROWS_AT_ONCE rows apart. That is a multiple of eight, so each
 * of its chunks has the same place within its group of eight rows (swizzle.h). */
template <class Tile, int THREADS, class E> struct tile_walk {
    enum { CHUNKS = Tile::D / 8, ROWS_AT_ONCE = THREADS / CHUNKS };
    static_assert(ROWS_AT_ONCE % 8 == 0, "rows of a thread");
    const E *at; /* the thread's first chunk */
    int64_t row;
    int left, place; /* rows from the first chunk to row T; offset of the chunk in a tile, in elements */

    __device__ __forceinline__ tile_walk(const E *from, int64_t row_, int first, int T, int size) : row(row_)
    {
        const int r = (int)threadIdx.x / CHUNKS, c = (int)threadIdx.x % CHUNKS * 8;
        at = from + (first + r) * row + c;
        left = c < size ? T - first - r : INT_MIN / 2;
        place = Tile::at(r, c);
    }

    /* Begins to copy a tile. Elements beyond the rows and columns become zeros. */
    __device__ __forceinline__ void begin(E *tile) const
    {
#pragma unroll
        for (int i = 0; i < Tile::ROWS; i += ROWS_AT_ONCE)
            if (Tile::ROWS % ROWS_AT_ONCE == 0 || (int)threadIdx.x / CHUNKS + i < Tile::ROWS)
                copy_begin(tile + place + Tile::at(i, 0), at + i * row, i < left);
    }

    __device__ __forceinline__ void go(int rows)
    {
        at += rows * row;
        left -= rows;
    }
};

template <class Tile, int THREADS, class E>
__device__ __forceinline__ void tile_begin(E *tile, const E *from, int64_t row, int first, int T, int size)
{
    tile_walk<Tile, THREADS, E>(from, row, first, T, size).begin(tile);
}

/* c [16, COLUMNS] += a [16, D] times the transpose of tile rows 0 .. COLUMNS - 1, for each strip. A warp holds a and c of STRIPS strips
 * of 16 rows as fragments; a fragment that it reads from the tile serves all strips. */
template <class E, int D, int COLUMNS, int STRIPS>
__device__ __forceinline__ void multiply_rows(fragment_c (&c)[STRIPS][COLUMNS / 8],
                                              const fragment_a (&a)[STRIPS][D / 16], const E *tile)
{
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int k = 0; k < D / 16; k += 2) {
            fragment_b b[2];
            load_b_rows(b, tile, padded_tile<D, COLUMNS>::STRIDE, n * 8, k * 16);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                mma<E>(c[m][n], a[m][k], b[0]);
                mma<E>(c[m][n], a[m][k + 1], b[1]);
            }
        }
}

/* c [16, D] += p [16, DEPTH] times tile rows 0 .. DEPTH - 1, for each strip. p is the result of a product. */
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
            load_b_columns(b, tile, padded_tile<D, DEPTH>::STRIDE, k * 16, n * 8);
#pragma unroll
            for (int m = 0; m < STRIPS; m++) {
                mma<E>(c[m][n], a[m], b[0]);
                mma<E>(c[m][n + 1], a[m], b[1]);
            }
        }
    }
}

/* Stores the 16 rows that a warp holds as fragments to global memory, rows g times `low`, rows g + 8 times `high` (mma.cuh). They go
 * through rows own .. own + 15 of a tile in shared memory, which only this warp uses, so that stores have 16 bytes. */
template <class Tile, class E>
__device__ __forceinline__ void rows_out(E *to, int64_t row, int first, int T, int size, E *tile, int own,
                                         const fragment_c (&c)[Tile::D / 8], float low, float high)
{
    const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    __syncwarp();
#pragma unroll
    for (int n = 0; n < Tile::D / 8; n++) {
        *(uint32_t *)(tile + Tile::at(own + g, n * 8 + 2 * t)) = packed<E>(c[n].r[0] * low, c[n].r[1] * low);
        *(uint32_t *)(tile + Tile::at(own + g + 8, n * 8 + 2 * t)) = packed<E>(c[n].r[2] * high, c[n].r[3] * high);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * Tile::D / 8; i += WARP) {
        const int r = i / (Tile::D / 8), column = i % (Tile::D / 8) * 8;
        if (first + r < T && column < size)
            *(uint4 *)(to + (int64_t)(first + r) * row + column) = *(const uint4 *)(tile + Tile::at(own + r, column));
    }
}
