/* Attention backward on the tensor cores, in two kernels that each make the scores again: one for each tile of keys, which walks over
 * the queries from the diagonal on and keeps dk and dv in registers; one for each tile of queries, which walks over the keys and keeps
 * dq. Scores are computed twice (seven products in place of five), and in return nothing is added by atomics, so bits repeat, and no
 * fp32 copy of dq is needed. With p = e^(score - lse): dv = p^T dout, ds = p (dout v^T - delta), dq = ds k, dk = ds^T q. */
#include "kernels/cuda/attention.cuh"

enum { SIDE = 64, BACKWARD_THREADS = 128 }; /* of a tile, of queries and of keys; four warps, 16 rows each */

template <int D> struct backward_shared {
    enum {
        TILE = SIDE * tile_of<D>::STRIDE,
        BYTES = 4 * TILE * 2 + 2 * SIDE * 4
    }; /* four tiles; lse and delta of the queries */
};

template <class E, int D> __device__ __forceinline__ void fragments_of(fragment_a (&a)[1][D / 16], const E *tile)
{
#pragma unroll
    for (int i = 0; i < D / 16; i++) a[0][i] = load_a(tile, tile_of<D>::STRIDE, (int)threadIdx.x / WARP * 16, i * 16);
}

/* ---- dk and dv: rows are keys, columns are queries ------------------------------------------------------------------------- */

/* From transposed scores s and products dp to p and ds, for this warp's 16 keys and a tile of queries. */
__device__ __forceinline__ void slopes_by_key(fragment_c (&s)[SIDE / 8], fragment_c (&dp)[SIDE / 8], const float *lse,
                                              const float *delta, int key, int first_query, int T, float scale)
{
    const int t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < SIDE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = n * 8 + 2 * t + i % 2, query = first_query + column;
            const bool seen = query < T && key + i / 2 * 8 <= query;
            const float p = seen ? exp2_fast((s[n].r[i] * scale - lse[column]) * 1.44269504f) : 0;
            s[n].r[i] = p;
            dp[n].r[i] = seen ? p * (dp[n].r[i] - delta[column]) : 0;
        }
}

template <class E, int D>
__global__ void __launch_bounds__(BACKWARD_THREADS)
    attention_backward_keys(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                            attention_heads heads)
{
    enum { TILE = backward_shared<D>::TILE };
    E *const tile_k = (E *)launched_shared, *const tile_v = tile_k + TILE, *const tile_q = tile_v + TILE,
             *const tile_dout = tile_q + TILE;
    float *const row_lse = (float *)(tile_dout + TILE), *const row_delta = row_lse + SIDE;
    const int first = (int)blockIdx.x * SIDE, pair = (int)blockIdx.y, T = heads.T, size = heads.size;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, key = first + warp * 16 + lane / 4;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();

    tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_k, k, heads.row(), first, T, size);
    tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_v, v, heads.row(), first, T, size);
    copies_commit();
    fragment_a a_k[1][D / 16], a_v[1][D / 16]; /* one strip to a warp: more would not fit the registers */
    fragment_c dk[1][D / 8] = {}, dv[1][D / 8] = {};
    for (int query = first; query < T; query += SIDE) {
        tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_q, q, heads.row(), query, T, size);
        tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_dout, dout + heads.at_out(pair), heads.out_row(), query, T, size);
        copies_commit();
        if (threadIdx.x < SIDE) {
            const bool there = query + (int)threadIdx.x < T;
            row_lse[threadIdx.x] = there ? lse[heads.at_lse(pair) + query + threadIdx.x] : 0;
            row_delta[threadIdx.x] = there ? delta[heads.at_lse(pair) + query + threadIdx.x] : 0;
        }
        copies_wait<0>();
        __syncthreads();
        if (query == first) {
            fragments_of<E, D>(a_k, tile_k);
            fragments_of<E, D>(a_v, tile_v);
        }
        fragment_c s[1][SIDE / 8] = {}, dp[1][SIDE / 8] = {};
        multiply_rows<E, D, SIDE, 1>(s, a_k, tile_q);
        multiply_rows<E, D, SIDE, 1>(dp, a_v, tile_dout);
        slopes_by_key(s[0], dp[0], row_lse, row_delta, key, query, T, heads.scale);
        multiply_columns<E, D, SIDE, 1>(dv, s, tile_dout);
        multiply_columns<E, D, SIDE, 1>(dk, dp, tile_q);
        __syncthreads(); /* all are done with the tile of queries */
    }
    E *own = tile_k + warp * 16 * tile_of<D>::STRIDE, *to = dqkv + heads.at_qkv(pair) + heads.out_row();
    rows_out<E, D>(to, heads.row(), first + warp * 16, T, size, own, dk[0], heads.scale, heads.scale);
    rows_out<E, D>(to + heads.out_row(), heads.row(), first + warp * 16, T, size, own, dv[0], 1, 1);
}

/* ---- dq: rows are queries, columns are keys --------------------------------------------------------------------------------- */

struct query_rows {
    float lse[2], delta[2];
}; /* of rows g and g + 8 */

__device__ __forceinline__ void slopes_by_query(fragment_c (&s)[SIDE / 8], const fragment_c (&dp)[SIDE / 8],
                                                const query_rows &rows, int query, int first_key, int T, float scale)
{
    const int t = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < SIDE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = first_key + n * 8 + 2 * t + i % 2, row = query + i / 2 * 8;
            const bool seen = row < T && key <= row;
            s[n].r[i] =
                seen ? exp2_fast((s[n].r[i] * scale - rows.lse[i / 2]) * 1.44269504f) * (dp[n].r[i] - rows.delta[i / 2])
                     : 0;
        }
}

template <class E, int D>
__global__ void __launch_bounds__(BACKWARD_THREADS)
    attention_backward_queries(E *dqkv, const E *dout, const float *lse, const float *delta, const E *qkv,
                               attention_heads heads)
{
    enum { TILE = backward_shared<D>::TILE };
    E *const tile_q = (E *)launched_shared, *const tile_dout = tile_q + TILE, *const tile_k = tile_dout + TILE,
             *const tile_v = tile_k + TILE;
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * SIDE, pair = (int)blockIdx.y, T = heads.T, size = heads.size;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, query = first + warp * 16 + lane / 4;
    const E *q = qkv + heads.at_qkv(pair), *k = q + heads.out_row(), *v = k + heads.out_row();
    const int last = first + SIDE < T ? first + SIDE : T;

    tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_q, q, heads.row(), first, T, size);
    tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_dout, dout + heads.at_out(pair), heads.out_row(), first, T, size);
    copies_commit();
    query_rows rows;
    for (int half = 0; half < 2; half++) {
        const int64_t at = heads.at_lse(pair) + query + 8 * half;
        rows.lse[half] = query + 8 * half < T ? lse[at] : 0;
        rows.delta[half] = query + 8 * half < T ? delta[at] : 0;
    }
    fragment_a a_q[1][D / 16], a_dout[1][D / 16];
    fragment_c dq[1][D / 8] = {};
    for (int key = 0; key < last; key += SIDE) {
        tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_k, k, heads.row(), key, T, size);
        tile_begin<E, D, SIDE, BACKWARD_THREADS>(tile_v, v, heads.row(), key, T, size);
        copies_commit();
        copies_wait<0>();
        __syncthreads();
        if (key == 0) {
            fragments_of<E, D>(a_q, tile_q);
            fragments_of<E, D>(a_dout, tile_dout);
        }
        fragment_c s[1][SIDE / 8] = {}, dp[1][SIDE / 8] = {};
        multiply_rows<E, D, SIDE, 1>(s, a_q, tile_k);
        multiply_rows<E, D, SIDE, 1>(dp, a_dout, tile_v);
        slopes_by_query(s[0], dp[0], rows, query, key, T, heads.scale);
        multiply_columns<E, D, SIDE, 1>(dq, s, tile_k);
        __syncthreads();
    }
    rows_out<E, D>(dqkv + heads.at_qkv(pair), heads.row(), first + warp * 16, T, size,
                   tile_q + warp * 16 * tile_of<D>::STRIDE, dq[0], heads.scale, heads.scale);
}

template <class E, int D>
static void send(struct kernels *kernels, void *dqkv, const void *dout, const float *lse, const float *delta,
                 const void *qkv, const struct attention_shape *shape)
{
    const dim3 blocks(blocks_for(shape->T, SIDE), (unsigned)(shape->B * shape->NH));
    launch(cuda_of(kernels)->stream, "attention_backward_keys", attention_backward_keys<E, D>, blocks, BACKWARD_THREADS,
           backward_shared<D>::BYTES, (E *)dqkv, (const E *)dout, lse, delta, (const E *)qkv, heads_of(shape));
    launch(cuda_of(kernels)->stream, "attention_backward_queries", attention_backward_queries<E, D>, blocks,
           BACKWARD_THREADS, backward_shared<D>::BYTES, (E *)dqkv, (const E *)dout, lse, delta, (const E *)qkv,
           heads_of(shape));
}

template <class E>
static void send_size(struct kernels *kernels, void *dqkv, const void *dout, const float *lse, const float *delta,
                      const void *qkv, const struct attention_shape *shape)
{
    const int size = shape->C / shape->NH;
    if (size <= 32) send<E, 32>(kernels, dqkv, dout, lse, delta, qkv, shape);
    else if (size <= 64) send<E, 64>(kernels, dqkv, dout, lse, delta, qkv, shape);
    else send<E, 128>(kernels, dqkv, dout, lse, delta, qkv, shape);
}

void attention_tiled_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const float *lse,
                              const float *delta, const void *qkv, const struct attention_shape *shape)
{
    if (dtype == DTYPE_BF16) send_size<bf16>(kernels, dqkv, dout, lse, delta, qkv, shape);
    else send_size<fp16>(kernels, dqkv, dout, lse, delta, qkv, shape);
}
