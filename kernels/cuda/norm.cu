/* Layer norm, a warp for each row. Forward has the row in registers: all of it is on its way before the first number is needed,
 * which is what keeps memory busy. Backward here is for rows that norm_backward.cu does not take; what it reads twice the first
 * cache has. */
#include "kernels/cuda/norm.cuh"

enum { NORM_WARPS = 8, NORM_THREADS = NORM_WARPS * WARP, EIGHTS_MOST = 8 }; /* rows of 2048 */

#define NORM_EPSILON 1e-5f

/* What a lane has of a row: eights 32 x 8 columns apart, all of them loaded before the first is used. */
template <class T, int EIGHTS> struct row_kept {
    enum { W = 8 };
    eight<T> kept[EIGHTS];

    __device__ __forceinline__ row_kept(const T *x, int64_t begin, int64_t C)
    {
#pragma unroll
        for (int k = 0; k < EIGHTS; k++) kept[k] = eight<T>(x + begin + k * WARP * W, begin + k * WARP * W < C);
    }
    template <class F> __device__ __forceinline__ void each(const T *, int64_t begin, int64_t C, F f)
    {
#pragma unroll
        for (int k = 0; k < EIGHTS; k++) {
            float v[W];
            kept[k].to(v);
            if (begin + k * WARP * W < C) f(v, begin + k * WARP * W);
        }
    }
};

/* The same for rows that are too long for that, or off alignment: loaded each time, after the first from the first cache. */
template <class T> struct row_read {
    enum { W = 1 };

    __device__ __forceinline__ row_read(const T *, int64_t, int64_t)
    {
    }
    template <class F> __device__ __forceinline__ void each(const T *x, int64_t begin, int64_t C, F f)
    {
#pragma unroll 4
        for (int64_t c = begin; c < C; c += WARP) {
            float v[W];
            load<W>(v, x, c);
            f(v, c);
        }
    }
};

template <class T, class Row>
__global__ void __launch_bounds__(NORM_THREADS)
    norm_forward(T *y, float *mean, float *rstd, const T *x, const T *w, const T *b, int64_t N, int64_t C)
{
    enum { W = Row::W };
    const int64_t n = (int64_t)blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
    const int64_t begin = (int64_t)(threadIdx.x % WARP) * W;
    if (n >= N) return;
    const T *from = x + n * C;
    T *to = y + n * C;
    Row row(from, begin, C);
    float sum = 0, squares = 0;
    row.each(from, begin, C, [&](const float(&v)[W], int64_t) {
#pragma unroll
        for (int j = 0; j < W; j++) sum += v[j];
    });
    const float m = warp_sum(sum) / (float)C;
    row.each(from, begin, C, [&](const float(&v)[W], int64_t) {
#pragma unroll
        for (int j = 0; j < W; j++) squares += (v[j] - m) * (v[j] - m);
    });
    const float r = 1 / sqrtf(warp_sum(squares) / (float)C + NORM_EPSILON);
    row.each(from, begin, C, [&](const float(&v)[W], int64_t c) {
        float weight[W], bias[W], out[W];
        load<W>(weight, w, c);
        load<W>(bias, b, c);
#pragma unroll
        for (int j = 0; j < W; j++) out[j] = (v[j] - m) * r * weight[j] + bias[j];
        store<W>(to, c, out);
    });
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
    for (int64_t c = begin; c < C; c += WARP * W) {
        float kept[W] = {};
        load<W>(d, dy, n * C + c);
        load<W>(v, x, n * C + c);
        load<W>(weight, w, c);
        if (add) load<W>(kept, dx, n * C + c);
#pragma unroll
        for (int j = 0; j < W; j++)
            d[j] = kept[j] + norm_gradient(d[j] * weight[j], (v[j] - m) * r, r, mean_g, mean_gh);
        store<W>(dx, n * C + c, d);
    }
}

template <class T>
using norm_forward_fn = void(T *, float *, float *, const T *, const T *, const T *, int64_t, int64_t);

/* The kernel whose lanes hold just as many eights as rows of C need. */
template <class T, int EIGHTS = 1> static norm_forward_fn<T> *norm_forward_of(int64_t C)
{
    if constexpr (EIGHTS > EIGHTS_MOST) return norm_forward<T, row_read<T>>;
    else return C <= EIGHTS * WARP * 8 ? norm_forward<T, row_kept<T, EIGHTS>> : norm_forward_of<T, EIGHTS + 1>(C);
}

void cuda_norm_forward(struct kernels *kernels, enum dtype dtype, void *y, float *mean, float *rstd, const void *x,
                       const void *w, const void *b, int64_t N, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const bool wide = C % 8 == 0 && aligned(y, x, w, b);
        launch(cuda_of(kernels)->stream, "norm_forward", wide ? norm_forward_of<T>(C) : norm_forward<T, row_read<T>>,
               blocks_for(N, NORM_WARPS), NORM_THREADS, 0, (T *)y, mean, rstd, (const T *)x, (const T *)w, (const T *)b,
               N, C);
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
