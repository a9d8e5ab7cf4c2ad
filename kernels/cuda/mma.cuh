/* The tensor cores, a warp at a time: C [16, 8] += A [16, 16] B [16, 8], with A and B in 16 bits and C in fp32; and how tiles come
 * from memory into shared memory and from there into fragments. Everything that is not plain C++ is in this file, in PTX. A second
 * version, fake_mma.h in tests/support/fake_cuda, follows from what each lane holds (PTX ISA, "Matrix Fragments for mma.m16n8k16"). So
 * code that is built on this file also runs without a GPU.
 *
 * With g = lane / 4 and t = lane % 4, a lane holds these elements, two neighbours in a register:
 *     A: [g][2t], [g + 8][2t], [g][2t + 8], [g + 8][2t + 8]        C: [g][2t], [g][2t + 1], [g + 8][2t], [g + 8][2t + 1]
 *     B: [2t][g], [2t + 8][g]   (neighbours along k)
 * So two C fragments side by side, rounded, are an A fragment. Attention uses this to multiply probabilities with values. */
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/warp.cuh"

#define LOG2_E 1.44269504f /* e^x is 2^(x LOG2_E): see exp2_fast() */

struct fragment_a {
    uint32_t r[4];
};
struct fragment_b {
    uint32_t r[2];
};
struct fragment_c {
    float r[4];
};

/* Two floats as neighbours in a register, the first in the low half. */
template <class T> __device__ __forceinline__ uint32_t packed(float low, float high)
{
    T a, b;
    from_float(&a, low);
    from_float(&b, high);
    return (uint32_t)b.bits << 16 | a.bits;
}

#ifndef FAKE_CUDA
template <> __device__ __forceinline__ uint32_t packed<bf16>(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

template <> __device__ __forceinline__ uint32_t packed<fp16>(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#endif

template <class T> __device__ __forceinline__ fragment_a fragment_of(const fragment_c &left, const fragment_c &right)
{
    return {{packed<T>(left.r[0], left.r[1]), packed<T>(left.r[2], left.r[3]), packed<T>(right.r[0], right.r[1]),
             packed<T>(right.r[2], right.r[3])}};
}

#ifndef FAKE_CUDA

template <class T> __device__ __forceinline__ void mma(fragment_c &c, const fragment_a &a, const fragment_b &b);

#define MMA(type, name)                                                                                                \
    template <> __device__ __forceinline__ void mma<type>(fragment_c & c, const fragment_a &a, const fragment_b &b)    \
    {                                                                                                                  \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name                                            \
                     ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                      \
                     : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])                                          \
                     : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));                  \
    }
MMA(bf16, "bf16")
MMA(fp16, "f16")
#undef MMA

__device__ __forceinline__ uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Loads four 8 x 8 matrices of 16-bit elements. Lanes 8i .. 8i + 7 pass the addresses of the rows of matrix i. Each lane gets
 * [g][2t], [g][2t + 1] of every matrix, or if `transposed` [2t][g], [2t + 1][g]. */
template <bool transposed> __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *row)
{
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(row))
                     : "memory");
}

/* Begins to copy 16 bytes into shared memory. there false: it writes zeros, and `from` may be any address. The bytes have arrived after
 * copies_commit(), copies_wait() and a barrier. */
__device__ __forceinline__ void copy_begin(void *shared, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `groups` of the thread's committed groups of copies have not arrived. */
template <int groups> __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#include <fake_mma.h> /* tests/support/fake_cuda */
#endif

/* ---- fragments of tiles in shared memory, whose rows lie `stride` elements apart --------------------------------------------- */

/* A: rows r .. r + 15, columns k .. k + 15. */
template <class T> __device__ __forceinline__ fragment_a load_a(const T *tile, int stride, int r, int k)
{
    const int lane = (int)threadIdx.x % WARP;
    fragment_a a;
    load_matrices<false>(a.r, tile + (r + lane % 16) * stride + k + lane / 16 * 8);
    return a;
}

/* B of a tile that lies as [n][k]: columns n .. n + 7, depths k .. k + 31, which is two fragments. */
template <class T>
__device__ __forceinline__ void load_b_rows(fragment_b (&b)[2], const T *tile, int stride, int n, int k)
{
    const int lane = (int)threadIdx.x % WARP;
    uint32_t r[4];
    load_matrices<false>(r, tile + (n + lane % 8) * stride + k + lane / 8 * 8);
    b[0] = {{r[0], r[1]}};
    b[1] = {{r[2], r[3]}};
}

/* B of a tile that lies as [k][n]: depths k .. k + 15, columns n .. n + 15, which is two fragments. */
template <class T>
__device__ __forceinline__ void load_b_columns(fragment_b (&b)[2], const T *tile, int stride, int k, int n)
{
    const int lane = (int)threadIdx.x % WARP;
    uint32_t r[4];
    load_matrices<true>(r, tile + (k + lane % 16) * stride + n + lane / 16 * 8);
    b[0] = {{r[0], r[1]}};
    b[1] = {{r[2], r[3]}};
}
