/* Layer norm, a warp for each row. A row is read two or three times, but from memory once: it is small enough for the first cache. */
#include "kernels/cuda/norm.cuh"

enum { NORM_WARPS = 8, NORM_THREADS = NORM_WARPS * WARP };

#define NORM_EPSILON 1e-5f

template <class T, int W>
__global__ void __launch_bounds__(NORM_THREADS)
    norm_forward(T *y, float *mean, float *rstd, const T *x, const T *w, const T *b, int64_t N, int64_t C)
{
    const int64_t n = (int64_t)blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
    const int64_t begin = (int64_t)(threadIdx.x % WARP) * W;
    if (n >= N) return;
    float v[W], weight[W], bias[W], sum = 0, squares = 0;
    for (int64_t c = begin; c < C; c += WARP * W) {
        load<W>(v, x, n * C + c);
#pragma unroll
        for (int j = 0; j < W; j++) sum += v[j];
    }
    const float m = warp_sum(sum) / (float)C;
    for (int64_t c = begin; c < C; c += WARP * W) {
        load<W>(v, x, n * C + c);
#pragma unroll
        for (int j = 0; j < W; j++) squares += (v[j] - m) * (v[j] - m);
    }
    const float r = 1 / sqrtf(warp_sum(squares) / (float)C + NORM_EPSILON);
    for (int64_t c = begin; c < C; c += WARP * W) {
        load<W>(v, x, n * C + c);
        load<W>(weight, w, c);
        load<W>(bias, b, c);
#pragma unroll
        for (int j = 0; j < W; j++) v[j] = (v[j] - m) * r * weight[j] + bias[j];
        store<W>(y, n * C + c, v);
    }
    if (begin == 0) {
        mean[n] = m;
        rstd[n] = r;
    }
}

/* Elements are written after the warp's sums are complete, so dx may be dy. */
template <class T, int W>
__global__ void __launch_bounds__(NORM_THREADS)
    norm_backward(T *dx, bool add, const T *dy, const T *x, const float *mean, const float *rstd, const T *w, int64_t N,
                  int64_t C)
{
    const int64_t n = (int64_t)blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
    const int64_t begin = (int64_t)(threadIdx.x % WARP) * W;
    if (n >= N) return;
    const float m = mean[n], r = rstd[n];
    float d[W], v[W], weight[W], sum = 0, product = 0;
    for (int64_t c = begin; c < C; c += WARP * W) {
        load<W>(d, dy, n * C + c);
        load<W>(v, x, n * C + c);
        load<W>(weight, w, c);
#pragma unroll
        for (int j = 0; j < W; j++) {
            const float g = d[j] * weight[j];
            sum += g;
            product += g * ((v[j] - m) * r);
        }
    }
    const float mean_g = warp_sum(sum) / (float)C, mean_gh = warp_sum(product) / (float)C;
    norm_row_gradient<W>(dx, add, dy, x, w, n * C, begin, C, m, r, mean_g, mean_gh);
}

void cuda_norm_forward(struct kernels *kernels, enum dtype dtype, void *y, float *mean, float *rstd, const void *x,
                       const void *w, const void *b, int64_t N, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        void (*kernel)(T *, float *, float *, const T *, const T *, const T *, int64_t, int64_t) = norm_forward<T, 1>;
        if (C % 8 == 0 && aligned(y, x, w, b)) kernel = norm_forward<T, 8>;
        launch(cuda_of(kernels)->stream, "norm_forward", kernel, blocks_for(N, NORM_WARPS), NORM_THREADS, 0, (T *)y,
               mean, rstd, (const T *)x, (const T *)w, (const T *)b, N, C);
    });
}

void cuda_norm_backward(struct kernels *kernels, enum dtype dtype, void *dx, bool add, const void *dy, const void *x,
                        const float *mean, const float *rstd, const void *w, int64_t N, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        void (*kernel)(T *, bool, const T *, const T *, const float *, const float *, const T *, int64_t, int64_t) =
            norm_backward<T, 1>;
        if (C % 8 == 0 && aligned(dx, dy, x, w)) kernel = norm_backward<T, 8>;
        launch(cuda_of(kernels)->stream, "norm_backward", kernel, blocks_for(N, NORM_WARPS), NORM_THREADS, 0, (T *)dx,
               add, (const T *)dy, (const T *)x, mean, rstd, (const T *)w, N, C);
    });
}
