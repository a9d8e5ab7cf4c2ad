/* Attention in fp32 arithmetic, where the tensor cores cannot be used: fp32, odd head sizes, arrays that are not aligned. One
 * warp handles a query (or key) with 32 keys (or queries) at a time, one in each lane. Correct, but not fast. */
#include "kernels/cuda/attention.cuh"

enum { WARPS_WANTED = 4, PLAIN_THREADS = WARPS_WANTED * WARP, PLAIN_SHARED = 48 << 10 /* what all GPUs give */ };

template <class E> __device__ __forceinline__ float dot(const float *own, const E *row, int size)
{
    float sum = 0;
    for (int i = 0; i < size; i++) sum += own[i] * to_float(row[i]);
    return sum;
}

/* The query, or key, of the warp. */
__device__ __forceinline__ int own_number()
{
    return (int)(blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP);
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
    const int query = own_number(), lane = (int)threadIdx.x % WARP;
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
    const int query = own_number(), lane = (int)threadIdx.x % WARP;
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
    const int key = own_number(), lane = (int)threadIdx.x % WARP;
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

/* Warps of a block: as many as have room for their rows, and one at least. */
static int plain_warps(int rows, const struct attention_shape *shape)
{
    const int row_bytes = shape->C / shape->NH * 4, most = PLAIN_SHARED / (rows * row_bytes);
    return most < 1 ? 1 : most < WARPS_WANTED ? most : WARPS_WANTED;
}

/* rows: of shared memory that a warp needs. */
template <class... P, class... A>
static void plain_launch(struct kernels *kernels, const char *name, void (*kernel)(P...), int rows,
                         const struct attention_shape *shape, A... arguments)
{
    const int warps = plain_warps(rows, shape);
    const size_t row_bytes = (size_t)(shape->C / shape->NH) * 4;
    launch(cuda_of(kernels)->stream, name, kernel, dim3(blocks_for(shape->T, warps), (unsigned)(shape->B * shape->NH)),
           (unsigned)warps * WARP, (size_t)(warps * rows) * row_bytes, arguments..., heads_of(shape));
}

void attention_plain_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                             const struct attention_shape *shape)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        plain_launch(kernels, "attention_forward", plain_forward<E>, 2, shape, (E *)out, lse, (const E *)qkv);
    });
}

void attention_plain_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape)
{
    with_type(dtype, [&](auto element) {
        using E = decltype(element);
        plain_launch(kernels, "attention_backward_queries", plain_backward_queries<E>, 3, shape, (E *)dqkv,
                     (const E *)dout, lse, delta, (const E *)qkv);
        plain_launch(kernels, "attention_backward_keys", plain_backward_keys<E>, 4, shape, (E *)dqkv, (const E *)dout,
                     lse, delta, (const E *)qkv);
    });
}
