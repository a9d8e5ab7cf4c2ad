/* What both ways of layer norm's backward do with a row once its sums are known. */
#ifndef KERNELS_CUDA_NORM_CUH
#define KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/warp.cuh"

/* With g = dy w and h the normalised x: dx = rstd (g - mean of g - h mean of (g h)), by a warp; `row` is its first element, `begin`
 * the lane's first column. Elements are written by the thread that read them, so dx may be dy. */
template <int W, class T>
__device__ __forceinline__ void norm_row_gradient(T *dx, bool add, const T *dy, const T *x, const T *w, int64_t row,
                                                  int64_t begin, int64_t C, float mean, float rstd, float mean_g,
                                                  float mean_gh)
{
    float d[W], v[W], weight[W], kept[W];
    for (int64_t c = begin; c < C; c += WARP * W) {
        load<W>(d, dy, row + c);
        load<W>(v, x, row + c);
        load<W>(weight, w, c);
        if (add) load<W>(kept, dx, row + c);
#pragma unroll
        for (int j = 0; j < W; j++) {
            const float gradient = (d[j] * weight[j] - mean_g - (v[j] - mean) * rstd * mean_gh) * rstd;
            d[j] = add ? kept[j] + gradient : gradient;
        }
        store<W>(dx, row + c, d);
    }
}

#endif
