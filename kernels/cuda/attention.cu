/* Attention: chooses the kernels, and computes delta, the sum of dout x out of each row, which all backward kernels need. */
#include "kernels/cuda/attention.cuh"

enum { DELTA_THREADS = 256, PAIRS_MOST = 65535 };

/* Calls f for as many sequences at a time as a grid has rows for their heads; tokens, rows: what stands before them, of the batch
 * and of lse. */
template <class F> static void in_parts(const struct attention_shape *whole, F f)
{
    const int most = whole->NH < PAIRS_MOST ? PAIRS_MOST / whole->NH : 1;
    struct attention_shape part = *whole;
    for (int first = 0; first < whole->B; first += part.B) {
        part.B = whole->B - first < most ? whole->B - first : most;
        f(&part, (int64_t)first * whole->T, (int64_t)first * whole->T * whole->NH);
    }
}

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
    const bool tiled = attention_tiled(dtype, shape, aligned(out, qkv));
    const auto forward = !tiled                                       ? attention_plain_forward
                         : attention_grouped(cuda_of(kernels), shape) ? attention_grouped_forward
                                                                      : attention_tiled_forward;
    in_parts(shape, [&](const struct attention_shape *part, int64_t tokens, int64_t rows) {
        forward(kernels, dtype, past(out, dtype, tokens * shape->C), lse + rows,
                past(qkv, dtype, tokens * 3 * shape->C), part);
    });
}

static void delta_make(struct kernels *kernels, enum dtype dtype, float *delta, const void *dout, const void *out,
                       const struct attention_shape *shape)
{
    const int64_t rows = (int64_t)shape->B * shape->T * shape->NH;
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const bool wide = shape->C / shape->NH % 8 == 0 && aligned(dout, out);
        launch(cuda_of(kernels)->stream, "attention_delta",
               wide ? attention_delta<E, 8, 8> : attention_delta<E, 1, WARP>,
               blocks_for(rows, DELTA_THREADS / (wide ? 8 : WARP)), DELTA_THREADS, 0, delta, (const E *)dout,
               (const E *)out, rows, heads_of(shape));
    });
}

void cuda_attention_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const void *out,
                             const float *lse, const void *qkv, const struct attention_shape *shape, void *scratch)
{
    float *delta = (float *)scratch;
    const bool tiled = attention_tiled(dtype, shape, aligned(dqkv, dout, qkv));
    const auto backward = !tiled                                       ? attention_plain_backward
                          : attention_grouped(cuda_of(kernels), shape) ? attention_grouped_backward
                                                                       : attention_tiled_backward;
    delta_make(kernels, dtype, delta, dout, out, shape);
    in_parts(shape, [&](const struct attention_shape *part, int64_t tokens, int64_t rows) {
        backward(kernels, dtype, past(dqkv, dtype, tokens * 3 * shape->C), past(dout, dtype, tokens * shape->C),
                 lse + rows, delta + rows, past(qkv, dtype, tokens * 3 * shape->C), part);
    });
}
