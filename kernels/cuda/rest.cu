/* The last few columns of logits, where the vocabulary is not a multiple of eight (GPT-2's 50,257). For its fast ways cuBLAS asks
 * not only that rows lie a multiple of 16 bytes apart but that they are as long: with one column too many all three products of the
 * output layer, a third of a step's arithmetic, may be made by a slow one. So the library multiplies whole eights, and what is
 * left, seven columns at most, is done here, at the cost of reading x, or what becomes of it, once more for each product. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/warp.cuh"

enum { REST_WARPS = 8, REST_THREADS = REST_WARPS * WARP, REST_MOST = 7, REST_FROM = 512 };

/* y [N, rest] = x [N, in] w^T, w [rest, in]; rows of y lie `row` apart. A warp for each row of x. */
template <class T, int W>
__global__ void __launch_bounds__(REST_THREADS)
    rest_forward(T *y, const T *x, const T *w, int64_t N, int rest, int64_t in, int64_t row)
{
    const int64_t n = (int64_t)blockIdx.x * REST_WARPS + threadIdx.x / WARP;
    const int lane = (int)threadIdx.x % WARP;
    if (n >= N) return;
    for (int r = 0; r < rest; r++) {
        float v[W], weight[W], sum = 0;
#pragma unroll 4
        for (int64_t c = (int64_t)lane * W; c < in; c += WARP * W) {
            load<W>(v, x, n * in + c);
            load<W>(weight, w, r * in + c);
#pragma unroll
            for (int j = 0; j < W; j++) sum += v[j] * weight[j];
        }
        sum = warp_sum(sum);
        if (lane == 0) from_float(y + n * row + r, sum);
    }
}

/* dx [N, in] = dy [N, rest] w: what the product of the whole eights is then added to. */
template <class T, int W>
__global__ void __launch_bounds__(REST_THREADS)
    rest_backward_input(T *dx, const T *dy, const T *w, int64_t N, int rest, int64_t in, int64_t row)
{
    const int64_t n = (int64_t)blockIdx.x * REST_WARPS + threadIdx.x / WARP;
    if (n >= N) return;
    float d[REST_MOST];
#pragma unroll
    for (int r = 0; r < REST_MOST; r++) d[r] = r < rest ? to_float(dy[n * row + r]) : 0;
    for (int64_t c = (int64_t)(threadIdx.x % WARP) * W; c < in; c += WARP * W) {
        float sum[W] = {}, weight[W];
#pragma unroll
        for (int r = 0; r < REST_MOST; r++) {
            if (r >= rest) break;
            load<W>(weight, w, r * in + c);
#pragma unroll
            for (int j = 0; j < W; j++) sum[j] += d[r] * weight[j];
        }
        store<W>(dx, n * in + c, sum);
    }
}

/* Few columns are fast enough as they are. In fp32, which is not for tensor cores, nothing is gained, nor where rows are off
 * alignment. */
int64_t cuda_whole_columns(enum dtype dtype, int64_t columns, int64_t row)
{
    return dtype == DTYPE_F32 || row % 8 || columns < REST_FROM ? columns : columns / 8 * 8;
}

void cuda_rest_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w, int64_t N,
                       int rest, int64_t in, int64_t row)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const bool wide = in % 8 == 0 && aligned(x, w);
        launch(cuda_of(kernels)->stream, "rest_forward", wide ? rest_forward<T, 8> : rest_forward<T, 1>,
               blocks_for(N, REST_WARPS), REST_THREADS, 0, (T *)y, (const T *)x, (const T *)w, N, rest, in, row);
    });
}

void cuda_rest_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *w,
                              int64_t N, int rest, int64_t in, int64_t row)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const bool wide = in % 8 == 0 && aligned(dx, w);
        launch(cuda_of(kernels)->stream, "rest_backward_input",
               wide ? rest_backward_input<T, 8> : rest_backward_input<T, 1>, blocks_for(N, REST_WARPS), REST_THREADS, 0,
               (T *)dx, (const T *)dy, (const T *)w, N, rest, in, row);
    });
}

/* dw [rest, in] = dy^T x: sums down columns. */
void cuda_rest_backward_weight(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate, const void *dy,
                               const void *x, int64_t N, int rest, int64_t in, int64_t row)
{
    for (int r = 0; r < rest; r++)
        cuda_column_products(kernels, dtype, past(dw, dtype, r * in), accumulate, past(dy, dtype, r), row, x, N, in);
}
