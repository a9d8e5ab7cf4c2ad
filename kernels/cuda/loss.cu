/* Softmax and cross-entropy of a row of logits, which become their own gradient; a block for each row. The row is read twice: once
 * for its highest logit and the sum of exponentials, kept together as they come (Milakov and Gimelshein 2018), and once for the
 * gradient, from its end to its beginning, because what was read last is what the caches still have. Rows need not begin on a
 * border of 16 bytes: what stands before the first border and after the last is done one by one. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/warp.cuh"

/* e^x, by the unit that has powers of two. (__expf looks first whether the result is too small for a normal number, with as many
 * instructions again as all else here has for a logit.) */
__device__ __forceinline__ float exp_fast(float x)
{
    return exp2_fast(x * LOG2_E);
}

struct row_sum {
    float highest, sum;
}; /* sum of e^(x - highest) */

__device__ __forceinline__ void row_sum_add(row_sum &a, float highest, float sum)
{
    const float top = fmaxf(a.highest, highest);
    if (top == -INFINITY) return;
    a.sum = a.sum * exp_fast(a.highest - top) + sum * exp_fast(highest - top);
    a.highest = top;
}

__device__ __forceinline__ row_sum row_sum_warp(row_sum a)
{
#pragma unroll
    for (int mask = WARP / 2; mask; mask /= 2) {
        const float highest = __shfl_xor_sync(0xffffffffu, a.highest, mask),
                    sum = __shfl_xor_sync(0xffffffffu, a.sum, mask);
        row_sum_add(a, highest, sum);
    }
    return a;
}

/* Over the block, in a fixed order; every thread gets the result. */
template <int THREADS> __device__ __forceinline__ row_sum row_sum_block(row_sum a, row_sum *room)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    a = row_sum_warp(a);
    if (lane == 0) room[warp] = a;
    __syncthreads();
    if (warp == 0) {
        a = row_sum_warp(lane < THREADS / WARP ? room[lane] : row_sum{-INFINITY, 0});
        __syncwarp();
        if (lane == 0) room[0] = a;
    }
    __syncthreads();
    return room[0];
}

/* Calls f<8>(i) and f<1>(i) so that each element of [0, V) is met once in the block: from the beginning, or from the end. */
template <int THREADS, bool FROM_END, class T, class F>
__device__ __forceinline__ void row_each(const T *row, int64_t V, F f)
{
    int64_t head = (int64_t)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    if (head > V) head = V;
    const int64_t eights = (V - head) / 8, tail = head + eights * 8;
    if (threadIdx.x < head) f.template run<1>(threadIdx.x);
    for (int64_t g = threadIdx.x; g < eights; g += THREADS)
        f.template run<8>(head + (FROM_END ? eights - 1 - g : g) * 8);
    if (tail + threadIdx.x < V) f.template run<1>(tail + threadIdx.x);
}

template <class T> struct row_reader {
    const T *row;
    row_sum *own;

    template <int W> __device__ __forceinline__ void run(int64_t i) const
    {
        float v[W];
        load<W>(v, row, i);
        float highest = v[0], sum = 0;
#pragma unroll
        for (int j = 1; j < W; j++) highest = fmaxf(highest, v[j]);
        if (highest == -INFINITY) return;
#pragma unroll
        for (int j = 0; j < W; j++) sum += exp_fast(v[j] - highest);
        row_sum_add(*own, highest, sum);
    }
};

template <class T> struct row_writer {
    T *row;
    float top, scale, gradient_scale;
    int64_t target;

    template <int W> __device__ __forceinline__ void run(int64_t i) const
    {
        float v[W];
        load<W>(v, row, i);
#pragma unroll
        for (int j = 0; j < W; j++) v[j] = exp_fast(v[j] - top) * scale;
        if ((uint64_t)(target - i) < W) {
#pragma unroll
            for (int j = 0; j < W; j++) v[j] -= i + j == target ? gradient_scale : 0;
        }
        store<W>(row, i, v);
    }
};

template <class T, int THREADS>
__global__ void __launch_bounds__(THREADS)
    loss_rows(float *losses, T *logits, const int32_t *targets, float gradient_scale, int64_t V, int64_t stride)
{
    __shared__ row_sum room[WARPS_MOST];
    const int64_t n = blockIdx.x, target = targets[n];
    T *row = logits + n * stride;
    const float chosen = to_float(row[target]);
    row_sum own = {-INFINITY, 0};
    row_each<THREADS, false>(row, V, row_reader<T>{row, &own});
    const row_sum all = row_sum_block<THREADS>(own, room); /* a barrier: every thread has read `chosen` */
    if (threadIdx.x == 0) losses[n] = logf(all.sum) + all.highest - chosen;
    row_each<THREADS, true>(row, V, row_writer<T>{row, all.highest, gradient_scale / all.sum, gradient_scale, target});
}

void cuda_loss(struct kernels *kernels, enum dtype dtype, float *losses, void *logits, const int32_t *targets,
               float gradient_scale, int64_t N, int64_t V, int64_t row)
{
    with_type(dtype, [&](auto element) {
        using T = decltype(element);
        const bool many = V > 8192; /* rows that one block's reads in flight should cover soon */
        launch(cuda_of(kernels)->stream, "loss", many ? loss_rows<T, 1024> : loss_rows<T, 256>, (unsigned)N,
               many ? 1024 : 256, 0, losses, (T *)logits, targets, gradient_scale, V, row);
    });
}
