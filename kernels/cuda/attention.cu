/* Attention: which kernels do it, and what both kinds need before backward: delta, for each row the sum of dout x out. */
#include "kernels/cuda/attention.cuh"

enum { DELTA_WARPS = 8 };

/* A warp for each row of out [B, T, NH, size]. */
template <class E>
__global__ void attention_delta(float *delta, const E *dout, const E *out, int64_t rows, attention_heads heads)
{
    const int64_t row = (int64_t)blockIdx.x * DELTA_WARPS + threadIdx.x / WARP;
    if (row >= rows) return;
    float sum = 0;
    for (int i = (int)threadIdx.x % WARP; i < heads.size; i += WARP)
        sum += to_float(dout[row * heads.size + i]) * to_float(out[row * heads.size + i]);
    sum = warp_sum(sum);
    const int64_t token = row / heads.NH, h = row % heads.NH, b = token / heads.T, t = token % heads.T;
    if (threadIdx.x % WARP == 0) delta[(b * heads.NH + h) * heads.T + t] = sum;
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
        launch(cuda_of(kernels)->stream, "attention_delta", attention_delta<E>, blocks_for(rows, DELTA_WARPS),
               DELTA_WARPS * WARP, 0, delta, (const E *)dout, (const E *)out, rows, heads_of(shape));
    });
    if (attention_tiled(dtype, shape, aligned(dqkv, dout, qkv)))
        attention_tiled_backward(kernels, dtype, dqkv, dout, lse, delta, qkv, shape);
    else attention_plain_backward(kernels, dtype, dqkv, dout, lse, delta, qkv, shape);
}
