/* Attention in fp32 arithmetic, for what the tensor cores do not take: fp32, odd sizes of heads, arrays that are not aligned. A warp
 * for each query (or key), 32 of the others at a time, one to a lane. Right, and not fast. */
#include "kernels/cuda/attention.cuh"

enum { PLAIN_WARPS = 4, PLAIN_THREADS = PLAIN_WARPS * WARP };

template <class E> __device__ __forceinline__ float dot(const float *own, const E *row, int size)
{
    float sum = 0;
    for (int i = 0; i < size; i++) sum += own[i] * to_float(row[i]);
    return sum;
}

/* The warp's part of shared memory: some rows of `size` floats. */
__device__ __forceinline__ float *own_rows(int rows, int size)
{
    return (float *)launched_shared + (int)threadIdx.x / WARP * rows * size;
}

template <class E> __device__ __forceinline__ void row_in(float *own, const E *row, int size, float scale)
{
    for (int i = (int)threadIdx.x % WARP; i < size; i += WARP) own[i] = to_float(row[i]) * scale;
}

/* own [size] += sum over the lanes of weight x row of the lane; rows from `count` on are not there. */
template <class E>
__device__ __forceinline__ void rows_add(float *own, float weight, const E *rows, int64_t row, int count, int size)
{
    for (int j = 0; j < count; j++) {
        const float w = __shfl_sync(0xffffffffu, weight, j);
        for (int i = (int)threadIdx.x % WARP; i < size; i += WARP) own[i] += w * to_float(rows[j * row + i]);
    }
}

template <class E>
__global__ void __launch_bounds__(PLAIN_THREADS) plain_forward(E *out, float *lse, const E *qkv, attention_heads heads)
{
    const int query = (int)blockIdx.x * PLAIN_WARPS + (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int pair = (int)blockIdx.y, size = heads.size;
    if (query >= heads.T) return;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    float *own = own_rows(2, size), *sums = own + size, top = -INFINITY, total = 0;
    row_in(own, q + query * heads.row(), size, heads.scale);
    for (int i = lane; i < size; i += WARP) sums[i] = 0;
    __syncwarp();
    for (int key = 0; key <= query; key += WARP) {
        const int count = query + 1 - key < WARP ? query + 1 - key : WARP;
        const float s = lane < count ? dot(own, k + (key + lane) * heads.row(), size) : -INFINITY;
        const float higher = fmaxf(top, warp_highest(s)), p = expf(s - higher), shrink = expf(top - higher);
        total = total * shrink + warp_sum(p);
        top = higher;
        for (int i = lane; i < size; i += WARP) sums[i] *= shrink;
        rows_add(sums, p, v + key * heads.row(), heads.row(), count, size);
    }
    E *to = out + heads.at_out(pair) + query * heads.out_row();
    for (int i = lane; i < size; i += WARP) from_float(to + i, sums[i] / total);
    if (lane == 0) lse[heads.at_lse(pair) + query] = top + logf(total);
}

template <class E>
__global__ void __launch_bounds__(PLAIN_THREADS)
    plain_backward_queries(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                           attention_heads heads)
{
    const int query = (int)blockIdx.x * PLAIN_WARPS + (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int pair = (int)blockIdx.y, size = heads.size;
    if (query >= heads.T) return;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    float *own = own_rows(3, size), *own_dout = own + size, *dq = own_dout + size;
    row_in(own, q + query * heads.row(), size, heads.scale);
    row_in(own_dout, dout + heads.at_out(pair) + query * heads.out_row(), size, 1);
    for (int i = lane; i < size; i += WARP) dq[i] = 0;
    __syncwarp();
    const float row_lse = lse[heads.at_lse(pair) + query], row_delta = delta[heads.at_lse(pair) + query];
    for (int key = 0; key <= query; key += WARP) {
        const int count = query + 1 - key < WARP ? query + 1 - key : WARP;
        float ds = 0;
        if (lane < count) {
            const int64_t at = (key + lane) * heads.row();
            ds = expf(dot(own, k + at, size) - row_lse) * (dot(own_dout, v + at, size) - row_delta);
        }
        rows_add(dq, ds, k + key * heads.row(), heads.row(), count, size);
    }
    E *to = dqkv + heads.at_qkv(pair) + query * heads.row();
    for (int i = lane; i < size; i += WARP) from_float(to + i, dq[i] * heads.scale);
}

template <class E>
__global__ void __launch_bounds__(PLAIN_THREADS)
    plain_backward_keys(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                        attention_heads heads)
{
    const int key = (int)blockIdx.x * PLAIN_WARPS + (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int pair = (int)blockIdx.y, size = heads.size;
    if (key >= heads.T) return;
    const E *q = qkv + heads.at_qkv(pair), *own_row = q + heads.out_row() + key * heads.row(),
            *go = dout + heads.at_out(pair);
    float *k = own_rows(4, size), *v = k + size, *dk = v + size, *dv = dk + size;
    row_in(k, own_row, size, heads.scale);
    row_in(v, own_row + heads.out_row(), size, 1);
    for (int i = lane; i < size; i += WARP) dk[i] = dv[i] = 0;
    __syncwarp();
    for (int first = key; first < heads.T; first += WARP) {
        const int count = heads.T - first < WARP ? heads.T - first : WARP, query = first + lane;
        float p = 0, ds = 0;
        if (lane < count) {
            p = expf(dot(k, q + query * heads.row(), size) - lse[heads.at_lse(pair) + query]);
            ds = p * (dot(v, go + query * heads.out_row(), size) - delta[heads.at_lse(pair) + query]);
        }
        rows_add(dv, p, go + first * heads.out_row(), heads.out_row(), count, size);
        rows_add(dk, ds, q + first * heads.row(), heads.row(), count, size);
    }
    E *to = dqkv + heads.at_qkv(pair) + heads.out_row() + key * heads.row();
    for (int i = lane; i < size; i += WARP) {
        from_float(to + i, dk[i] * heads.scale);
        from_float(to + heads.out_row() + i, dv[i]);
    }
}

static dim3 plain_blocks(const struct attention_shape *shape)
{
    return dim3(blocks_for(shape->T, PLAIN_WARPS), (unsigned)(shape->B * shape->NH));
}

static size_t plain_shared(int rows, const struct attention_shape *shape)
{
    return (size_t)PLAIN_WARPS * rows * (size_t)(shape->C / shape->NH) * 4;
}

void attention_plain_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                             const struct attention_shape *shape)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        launch(cuda_of(kernels)->stream, "attention_forward", plain_forward<E>, plain_blocks(shape), PLAIN_THREADS,
               plain_shared(2, shape), (E *)out, lse, (const E *)qkv, heads_of(shape));
    });
}

void attention_plain_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        launch(cuda_of(kernels)->stream, "attention_backward_queries", plain_backward_queries<E>, plain_blocks(shape),
               PLAIN_THREADS, plain_shared(3, shape), (E *)dqkv, (const E *)dout, lse, delta, (const E *)qkv,
               heads_of(shape));
        launch(cuda_of(kernels)->stream, "attention_backward_keys", plain_backward_keys<E>, plain_blocks(shape),
               PLAIN_THREADS, plain_shared(4, shape), (E *)dqkv, (const E *)dout, lse, delta, (const E *)qkv,
               heads_of(shape));
    });
}
