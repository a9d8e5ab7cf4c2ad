/* Sums over the threads of a warp and of a block, and maxima over those of a warp, always in the same order. */
#pragma once

#include <cuda_runtime.h>

enum { WARP = 32, WARPS_MOST = 32 };

template <class T> __device__ __forceinline__ T warp_sum(T x)
{
#pragma unroll
    for (int mask = WARP / 2; mask; mask /= 2) x += __shfl_xor_sync(0xffffffffu, x, mask);
    return x;
}

__device__ __forceinline__ float warp_highest(float x)
{
#pragma unroll
    for (int mask = WARP / 2; mask; mask /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, mask));
    return x;
}

/* The sum over a one-dimensional block of whole warps; every thread gets it. `room`, in shared memory, holds a T for each warp, and
 * may be used again after the next barrier. */
template <class T> __device__ __forceinline__ T block_sum(T x, T *room)
{
    const int warp = (int)threadIdx.x / WARP, warps = (int)blockDim.x / WARP;
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) room[warp] = x;
    __syncthreads();
    T sum = room[0];
    for (int i = 1; i < warps; i++) sum += room[i];
    return sum;
}
