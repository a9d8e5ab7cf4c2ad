/* Layer norm backward in one go: dx, and sums for the gradients of w and b, from one reading of dy and x. A block has a run of rows,
 * which its warps take in turn; each warp adds up columns in shared memory of its own, and the block leaves one row of sums for each
 * of the two. How rows are cut depends on the shape alone, so bits repeat. Rows too wide for that take two kernels (norm.cu, columns.cu). */
#include "kernels/cuda/norm.cuh"

enum { BOTH_WARPS = 8, BOTH_THREADS = BOTH_WARPS * WARP, BLOCKS_MOST = 256 };

/* Where column c is kept: lanes that add to columns c, c + W, ... at once do so side by side. */
template <int W> __device__ __forceinline__ int64_t place(int64_t c, int64_t C)
{
    return c % W * (C / W) + c / W;
}

template <class T, int W>
__global__ void __launch_bounds__(BOTH_THREADS)
    norm_backward_both(T *dx, bool add, float *partials, const T *dy, const T *x, const float *mean, const float *rstd,
                       const T *w, int64_t N, int64_t C, int64_t rows)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int64_t begin = (int64_t)lane * W, first = blockIdx.x * rows, end = first + rows < N ? first + rows : N;
    float *const sums = (float *)launched_shared, *const dw = sums + warp * 2 * C, *const db = dw + C;
    for (int64_t c = lane; c < 2 * C; c += WARP) dw[c] = 0;
    __syncwarp();
    for (int64_t n = first + warp; n < end; n += BOTH_WARPS) {
        const float m = mean[n], r = rstd[n];
        float d[W], v[W], weight[W], sum = 0, product = 0;
        for (int64_t c = begin; c < C; c += WARP * W) {
            load<W>(d, dy, n * C + c);
            load<W>(v, x, n * C + c);
            load<W>(weight, w, c);
#pragma unroll
            for (int j = 0; j < W; j++) {
                const float h = (v[j] - m) * r, g = d[j] * weight[j];
                const int64_t at = place<W>(c + j, C);
                sum += g;
                product += g * h;
                dw[at] += d[j] * h;
                db[at] += d[j];
            }
        }
        const float mean_g = warp_sum(sum) / (float)C, mean_gh = warp_sum(product) / (float)C;
        norm_row_gradient<W>(dx, add, dy, x, w, n * C, begin, C, m, r, mean_g, mean_gh);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < 2 * C; i += BOTH_THREADS) {
        const int64_t at = i < C ? place<W>(i, C) : C + place<W>(i - C, C);
        float sum = sums[at];
        for (int k = 1; k < BOTH_WARPS; k++) sum += sums[k * 2 * C + at];
        partials[blockIdx.x * 2 * C + i] = sum;
    }
}

/* Shared memory that a block may have: less before Hopper. */
static int64_t shared_most(const struct device_info *info)
{
    return info->major >= 9 ? 224 << 10 : 96 << 10;
}

/* As many blocks as there is room for sums, with 16 rows at least. */
static int64_t block_rows(int64_t N, int64_t C)
{
    const int64_t room = PARTIALS_BYTES / (2 * C * 4), most = BLOCKS_MOST, blocks = room < most ? room : most;
    const int64_t rows = (N + blocks - 1) / blocks;
    return rows < 2 * BOTH_WARPS ? 2 * BOTH_WARPS : rows;
}

void cuda_norm_backward_both(struct kernels *kernels, enum dtype dtype, void *dx, bool add, void *dw, void *db,
                             bool accumulate, const void *dy, const void *x, const float *mean, const float *rstd,
                             const void *w, int64_t N, int64_t C)
{
    const int64_t shared_bytes = BOTH_WARPS * 2 * C * 4;
    if (shared_bytes > shared_most(&cuda_of(kernels)->stream->device->info)) {
        cuda_norm_backward_weights(kernels, dtype, dw, db, accumulate, dy, x, mean, rstd, N, C);
        cuda_norm_backward(kernels, dtype, dx, add, dy, x, mean, rstd, w, N, C);
        return;
    }
    float *partials = (float *)cuda_of(kernels)->partials;
    void *const weights[] = {dw, db};
    const int64_t rows = block_rows(N, C);
    const unsigned blocks = blocks_for(N, rows);
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const bool wide = C % 8 == 0 && aligned(dx, dy, x, w);
        launch(cuda_of(kernels)->stream, "norm_backward_both",
               wide ? norm_backward_both<T, 8> : norm_backward_both<T, 1>, blocks, BOTH_THREADS, (size_t)shared_bytes,
               (T *)dx, add, partials, (const T *)dy, (const T *)x, mean, rstd, (const T *)w, N, C, rows);
    });
    cuda_column_totals(kernels, "norm_backward_both", dtype, weights, accumulate, partials, (int)blocks, 2, C);
}
