/* Attention: which kernels do it, and what both kinds need before backward: delta, for each row the sum of dout x out. */
#include "kernels/cuda/attention.cuh"

enum { DELTA_THREADS = 256 };

/* LANES lanes for each row of out [B, T, NH, size], each taking W elements in turn: eights where rows allow it. */
template <class E, int W, int LANES>
__global__ void __launch_bounds__(DELTA_THREADS)
    attention_delta(float *delta, const E *dout, const E *out, int64_t rows, attention_heads heads)
{
    const int64_t row = ((int64_t)blockIdx.x * DELTA_THREADS + threadIdx.x) / LANES;
    float sum = 0, a[W], b[W];
    if (row < rows)
        for (int i = (int)threadIdx.x % LANES * W; i < heads.size; i += LANES * W) {
            load<W>(a, dout, row * heads.size + i);
            load<W>(b, out, row * heads.size + i);
#pragma unroll
            for (int j = 0; j < W; j++) sum += a[j] * b[j];
        }
#pragma unroll
    for (int mask = LANES / 2; mask; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    const int64_t token = row / heads.NH, h = row % heads.NH, sequence = token / heads.T, t = token % heads.T;
    if (row < rows && threadIdx.x % LANES == 0) delta[(sequence * heads.NH + h) * heads.T + t] = sum;
}

void cuda_attention_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                            const struct attention_shape *shape, void *scratch)
{
    (void)scratch;
    if (attention_tiled(dtype, shape, aligned(out, qkv))) attention_tiled_forward(kernels, dtype, out, lse, qkv, shape);
    else attention_plain_forward(kernels, dtype, out, lse, qkv, shape);
}

void cuda_attention_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const void *out,
                             const float *lse, const void *qkv, const struct attention_shape *shape, void *scratch)
{
    float *delta = (float *)scratch;
    const int64_t rows = (int64_t)shape->B * shape->T * shape->NH;
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const bool wide = shape->C / shape->NH % 8 == 0 && aligned(dout, out);
        launch(cuda_of(kernels)->stream, "attention_delta",
               wide ? attention_delta<E, 8, 8> : attention_delta<E, 1, WARP>,
               blocks_for(rows, DELTA_THREADS / (wide ? 8 : WARP)), DELTA_THREADS, 0, delta, (const E *)dout,
               (const E *)out, rows, heads_of(shape));
    });
    if (attention_tiled(dtype, shape, aligned(dqkv, dout, qkv)))
        attention_tiled_backward(kernels, dtype, dqkv, dout, lse, delta, qkv, shape);
    else attention_plain_backward(kernels, dtype, dqkv, dout, lse, delta, qkv, shape);
}
