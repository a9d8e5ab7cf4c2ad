/* Attention's work on scores between its two products. A warp, also one of a warpgroup, holds a strip of 16 rows of scores as fragments
 * of mma.cuh: with g = lane / 4 and t = lane % 4, a lane has columns 2t and 2t + 1 of each eight columns, of rows g and g + 8. */
#pragma once

#include "kernels/cuda/mma.cuh"

/* ---- forward: rows are queries ----------------------------------------------------------------------------------------------- */

struct softmax_rows {
    float top[2], sum[2]; /* of rows g and g + 8 */
};

/* Scores beyond the diagonal become -inf. Keys beyond the sequence are beyond the diagonal of each of its queries, too. */
template <int N> __device__ __forceinline__ void mask(fragment_c (&s)[N], int query, int key)
{
    const int beyond = query - key - 2 * ((int)threadIdx.x % 4); /* one register; all else of the comparison is constant */
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (n * 8 + i % 2 - i / 2 * 8 > beyond) s[n].r[i] = -INFINITY;
}

/* Scores become probabilities relative to the running maximum. shrink: the factor for sums that
 * were made with the previous maximum. */
template <int N>
__device__ __forceinline__ void softmax(fragment_c (&s)[N], softmax_rows &rows, float (&shrink)[2], float scale_log2)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = rows.top[half];
#pragma unroll
        for (int n = 0; n < N; n++) top = fmaxf(top, fmaxf(s[n].r[2 * half], s[n].r[2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const float base = top * scale_log2; /* finite: every row sees a key of the first tile */
        float sum = 0;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++)
                sum += s[n].r[i] = exp2_fast(fmaf(s[n].r[i], scale_log2, -base));
        shrink[half] = exp2_fast(rows.top[half] * scale_log2 - base);
        rows.top[half] = top;
        rows.sum[half] = rows.sum[half] * shrink[half] + sum; /* of this lane's columns; lanes are added at the end */
    }
}

template <int N> __device__ __forceinline__ void rescale(fragment_c (&out)[N], const float (&shrink)[2])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) out[n].r[i] *= shrink[i / 2];
}

__device__ __forceinline__ void softmax_end(softmax_rows &rows, float *lse, int query, int T, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        rows.sum[half] += __shfl_xor_sync(0xffffffffu, rows.sum[half], 1);
        rows.sum[half] += __shfl_xor_sync(0xffffffffu, rows.sum[half], 2);
        if (threadIdx.x % 4 == 0 && query + 8 * half < T)
            lse[query + 8 * half] = rows.top[half] * scale + logf(rows.sum[half]);
    }
}

/* ---- backward: the probabilities p and the gradients of scores are made from matrix products, lse and delta ------------------ */

/* Queries beyond the sequence have p = 0. */
__device__ __forceinline__ float lse_of(const float *lse, int query, int T)
{
    return query < T ? lse[query] * LOG2_E : INFINITY; /* probability() raises 2, not e */
}

__device__ __forceinline__ float delta_of(const float *delta, int query, int T)
{
    return query < T ? delta[query] : 0;
}

__device__ __forceinline__ float probability(float score, float scale, float lse)
{
    return exp2_fast(fmaf(score, scale, -lse));
}

/* lse and delta of N consecutive queries, in shared memory. */
template <int N> struct query_rows {
    float lse[N], delta[N];
};
struct alignas(8) two_queries {
    float x[2];
};

/* ---- rows are keys, columns are queries -------------------------------------------------------------------------------------- */

/* From scores to p. */
template <bool MASKED, int N>
__device__ __forceinline__ void probabilities_by_key(fragment_c (&s)[N], const query_rows<8 * N> &rows, int key,
                                                     int first_query, float scale)
{
    const int t = (int)threadIdx.x % 4, from = key - first_query - 2 * t;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const two_queries lse = *(const two_queries *)(rows.lse + n * 8 + 2 * t);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool seen = !MASKED || n * 8 + i % 2 - i / 2 * 8 >= from;
            s[n].r[i] = seen ? probability(s[n].r[i], scale, lse.x[i % 2]) : 0;
        }
    }
}

/* From dp to ds. */
template <int N>
__device__ __forceinline__ void slopes_by_key(fragment_c (&dp)[N], const fragment_c (&p)[N],
                                              const query_rows<8 * N> &rows)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        const two_queries delta = *(const two_queries *)(rows.delta + n * 8 + 2 * ((int)threadIdx.x % 4));
#pragma unroll
        for (int i = 0; i < 4; i++) dp[n].r[i] = p[n].r[i] * (dp[n].r[i] - delta.x[i % 2]);
    }
}

/* ---- rows are queries, columns are keys -------------------------------------------------------------------------------------- */

template <bool MASKED, int N>
__device__ __forceinline__ void probabilities_by_query(fragment_c (&s)[N], const float (&lse)[2], int query,
                                                       int first_key, float scale)
{
    const int to = query - first_key - 2 * ((int)threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool seen = !MASKED || n * 8 + i % 2 - i / 2 * 8 <= to;
            s[n].r[i] = seen ? probability(s[n].r[i], scale, lse[i / 2]) : 0;
        }
}

template <int N>
__device__ __forceinline__ void slopes_by_query(fragment_c (&dp)[N], const fragment_c (&p)[N], const float (&delta)[2])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) dp[n].r[i] = p[n].r[i] * (dp[n].r[i] - delta[i / 2]);
}
