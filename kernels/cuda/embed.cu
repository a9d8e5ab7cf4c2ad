/* The embedding: rows are copied out of the tables, and gradients of rows are summed back into them, in the CPU's order and with its
 * bits. */
#include "kernels/cuda/cuda.cuh"

enum { EMBED_THREADS = 128, ROWS_AT_ONCE = 8 };

template <class T, int W>
__global__ void embed_forward(T *x, const T *wte, const T *wpe, const int32_t *tokens, int64_t N, int64_t T_, int64_t C)
{
    const int64_t i = ((int64_t)blockIdx.x * EMBED_THREADS + threadIdx.x) * W;
    if (i >= N * C) return;
    const int64_t n = i / C, c = i % C;
    float token[W], position[W];
    load<W>(token, wte, tokens[n] * C + c);
    load<W>(position, wpe, n % T_ * C + c);
#pragma unroll
    for (int j = 0; j < W; j++) token[j] += position[j];
    store<W>(x, i, token);
}

void cuda_embed_forward(struct kernels *kernels, enum dtype dtype, void *x, const void *wte, const void *wpe,
                        const int32_t *tokens, int64_t N, int64_t T, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const int wide = C % 8 == 0 && aligned(x, wte, wpe) ? 8 : 1;
        launch(cuda_of(kernels)->stream, "embed_forward", wide == 8 ? embed_forward<E, 8> : embed_forward<E, 1>,
               blocks_for(N * C, EMBED_THREADS * wide), EMBED_THREADS, 0, (E *)x, (const E *)wte, (const E *)wpe,
               tokens, N, T, C);
    });
}

/* Where the run of equal tokens that begins at p ends: by steps that double until one is too far, then by halving. */
__device__ __forceinline__ int64_t run_end(const uint64_t *order, int64_t p, int64_t N, uint64_t token)
{
    int64_t step = 1;
    while (p + step < N && order[p + step] >> 32 == token) step *= 2;
    int64_t inside = p + step / 2, outside = p + step < N ? p + step : N;
    while (outside - inside > 1) {
        const int64_t middle = (inside + outside) / 2;
        if (order[middle] >> 32 == token) inside = middle;
        else outside = middle;
    }
    return outside;
}

/* order: (token << 32 | row of dx), ascending. A block stands at each place; those where a token begins sum its rows, in order,
 * each thread for columns of its own. The end is known before, so that many rows are on their way at once. */
template <class T, int W>
__global__ void __launch_bounds__(EMBED_THREADS)
    embed_backward_tokens(T *dwte, const T *dx, const uint64_t *order, int64_t N, int64_t C)
{
    const int64_t p = blockIdx.x;
    const uint64_t token = order[p] >> 32;
    if (p > 0 && order[p - 1] >> 32 == token) return;
    const int64_t end = run_end(order, p, N, token);
    for (int64_t c = (int64_t)threadIdx.x * W; c < C; c += EMBED_THREADS * W) {
        float sum[W] = {}, row[W], rows[ROWS_AT_ONCE][W];
        int64_t q = p;
        for (; q + ROWS_AT_ONCE <= end; q += ROWS_AT_ONCE) {
#pragma unroll
            for (int r = 0; r < ROWS_AT_ONCE; r++) load<W>(rows[r], dx, (int64_t)(uint32_t)order[q + r] * C + c);
#pragma unroll
            for (int r = 0; r < ROWS_AT_ONCE; r++)
#pragma unroll
                for (int j = 0; j < W; j++) sum[j] += rows[r][j];
        }
        for (; q < end; q++) {
            load<W>(row, dx, (int64_t)(uint32_t)order[q] * C + c);
#pragma unroll
            for (int j = 0; j < W; j++) sum[j] += row[j];
        }
        load<W>(row, dwte, (int64_t)token * C + c);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] = row[j] + sum[j];
        store<W>(dwte, (int64_t)token * C + c, sum);
    }
}

void cuda_embed_backward_tokens(struct kernels *kernels, enum dtype dtype, void *dwte, const void *dx,
                                const int32_t *tokens, int64_t N, int64_t C, void *scratch)
{
    struct device_stream *stream = cuda_of(kernels)->stream;
    const uint64_t *order = sort_tokens(stream, tokens, N, scratch);
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const bool wide = C % 8 == 0 && aligned(dwte, dx);
        launch(stream, "embed_backward_tokens", wide ? embed_backward_tokens<E, 8> : embed_backward_tokens<E, 1>,
               (unsigned)N, EMBED_THREADS, 0, (E *)dwte, (const E *)dx, order, N, C);
    });
}

/* dwpe [rows, C]: row t sums dx over the batch; rows from T on become 0, or are left where accumulate is set. */
template <class T, int W>
__global__ void embed_backward_positions(T *dwpe, bool accumulate, const T *dx, int64_t rows, int64_t N, int64_t T_,
                                         int64_t C)
{
    const int64_t i = ((int64_t)blockIdx.x * EMBED_THREADS + threadIdx.x) * W;
    const int64_t t = i / C;
    if (t >= rows || (t >= T_ && accumulate)) return;
    float sum[W] = {}, row[W];
#pragma unroll 4
    for (int64_t n = t; t < T_ && n < N; n += T_) {
        load<W>(row, dx, n * C + i % C);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] += row[j];
    }
    if (accumulate) {
        load<W>(row, dwpe, i);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] = row[j] + sum[j];
    }
    store<W>(dwpe, i, sum);
}

void cuda_embed_backward_positions(struct kernels *kernels, enum dtype dtype, void *dwpe, bool accumulate,
                                   const void *dx, int64_t rows, int64_t N, int64_t T, int64_t C)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        const int wide = C % 8 == 0 && aligned(dwpe, dx) ? 8 : 1;
        launch(cuda_of(kernels)->stream, "embed_backward_positions",
               wide == 8 ? embed_backward_positions<E, 8> : embed_backward_positions<E, 1>,
               blocks_for(rows * C, EMBED_THREADS * wide), EMBED_THREADS, 0, (E *)dwpe, accumulate, (const E *)dx, rows,
               N, T, C);
    });
}
