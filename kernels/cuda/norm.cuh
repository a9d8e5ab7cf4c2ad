/* What both kernels of layer norm's backward (norm.cu, norm_backward.cu) do with an element once its row's sums are known. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/warp.cuh"

/* With g = dy w and h the normalised x: dx = rstd (g - mean of g - h mean of (g h)). */
__device__ __forceinline__ float norm_gradient(float g, float h, float rstd, float mean_g, float mean_gh)
{
    return (g - mean_g - h * mean_gh) * rstd;
}
