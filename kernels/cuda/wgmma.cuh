/* The tensor cores of Hopper (compute capability 9.0), a warpgroup at a time: C [64, N] += A [64, 16] B [16, N], with A and B in 16
 * bits and C in fp32. B lies in shared memory, A there or in registers, as swizzle.h says; a warp of the four has 16 rows of A and
 * C, in the fragments of mma.cuh. All of the PTX stands here; tests/support/fake_cuda/fake_wgmma.h has the same functions without it.
 *
 * A product runs asynchronously until the threads wait for it:
 *
 *     group_begin(c, a)                       products see what was written to c and a before
 *     group_multiply<E, false>(c, a, b, 1)    any number of them, in order
 *     group_commit()                          the products since the last commit become a batch
 *     group_wait<1>(c, a)                     waits for all batches but the last one
 *
 * In between no thread may access c, a, or B's shared memory. group_wait() takes c and a, because the compiler believes that c is
 * written and a is read when the product is sent; it must not use c, nor reuse a's registers, before the wait. A product sees copies
 * and stores into shared memory after the thread that made them has called shared_written(), and after a barrier. */
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/swizzle.h"

enum { GROUP = 4 * WARP }; /* a warpgroup: four warps, the first of which has a number divisible by four */

/* The number of the thread's warpgroup in its block. The shuffle tells the compiler that it is the same in the whole warp. */
__device__ __forceinline__ int group_number()
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / GROUP, 0);
}

/* Only sm_90a has these instructions, and only nvcc 12.0 or later compiles them. Code for other architectures is compiled without them
 * and must not be launched. The build defines HAVE_WGMMA if it contains code for sm_90a. */
#ifdef HAVE_WGMMA
static constexpr bool WGMMA_BUILT = true;
#else
static constexpr bool WGMMA_BUILT = false;
#endif
#if defined(HAVE_WGMMA) && (defined(FAKE_CUDA) || defined(__CUDA_ARCH_FEAT_SM90_ALL))
static constexpr bool WGMMA_HERE = true;
#else
static constexpr bool WGMMA_HERE = false;
#endif

#ifndef FAKE_CUDA

/* Tells the compiler that these registers change here. So it computes their inputs before this point and what is made of them after
 * it, in the order of the calls of this file. */
template <int N> __device__ __forceinline__ void hold(fragment_c (&c)[N])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(c[n].r[0]), "+f"(c[n].r[1]), "+f"(c[n].r[2]), "+f"(c[n].r[3])::"memory");
}

template <int N> __device__ __forceinline__ void hold(fragment_a (&a)[N])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+r"(a[n].r[0]), "+r"(a[n].r[1]), "+r"(a[n].r[2]), "+r"(a[n].r[3])::"memory");
}

template <class... Fragments> __device__ __forceinline__ void group_begin(Fragments &...fragments)
{
    (hold(fragments), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void group_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `batches` of the committed batches are not done. */
template <int batches, class... Fragments> __device__ __forceinline__ void group_wait(Fragments &...fragments)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(batches) : "memory");
    (hold(fragments), ...);
}

/* Ends the kernel with an error. */
__device__ __forceinline__ void stop_here()
{
    __trap();
}

__device__ __forceinline__ void shared_written()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The instruction, for N columns; the names of operands follow from how many registers C has. */
#define WGMMA(type, n, c, a, b, add, transposed)                                                                       \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " add ", 0;\n"                                                                   \
    "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" c "}, " a ", " b ", p, 1, 1, " transposed      \
    ";\n}"
#define NAMES_32                                                                                                       \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"   \
    "%30,%31"
#define NAMES_64                                                                                                       \
    NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
             "%57,%58,%59,%60,%61,%62,%63"
#define FRAGMENT(n)  "+f"(c[n].r[0]), "+f"(c[n].r[1]), "+f"(c[n].r[2]), "+f"(c[n].r[3])
#define FRAGMENTS(n) FRAGMENT(n), FRAGMENT(n + 1), FRAGMENT(n + 2), FRAGMENT(n + 3)
#define COLUMNS_64   FRAGMENTS(0), FRAGMENTS(4)
#define COLUMNS_128  COLUMNS_64, FRAGMENTS(8), FRAGMENTS(12)
#define REGISTERS_A  "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3])

/* c = a b, or c += a b where `add` is not 0. b has k along its rows, or, if `transposed`, a row for each k. */
#define PRODUCTS(type, name)                                                                                           \
    template <bool transposed>                                                                                         \
    __device__ __forceinline__ void product_of(type, fragment_c (&c)[8], const fragment_a &a, uint64_t b, int add)     \
    {                                                                                                                  \
        asm volatile(WGMMA(name, "64", NAMES_32, "{%32,%33,%34,%35}", "%36", "%37", "%38")                             \
                     : COLUMNS_64                                                                                      \
                     : REGISTERS_A, "l"(b), "r"(add), "n"(transposed ? 1 : 0));                                        \
    }                                                                                                                  \
    template <bool transposed>                                                                                         \
    __device__ __forceinline__ void product_of(type, fragment_c (&c)[16], const fragment_a &a, uint64_t b, int add)    \
    {                                                                                                                  \
        asm volatile(WGMMA(name, "128", NAMES_64, "{%64,%65,%66,%67}", "%68", "%69", "%70")                            \
                     : COLUMNS_128                                                                                     \
                     : REGISTERS_A, "l"(b), "r"(add), "n"(transposed ? 1 : 0));                                        \
    }                                                                                                                  \
    template <bool transposed>                                                                                         \
    __device__ __forceinline__ void product_of(type, fragment_c (&c)[8], uint64_t a, uint64_t b, int add)              \
    {                                                                                                                  \
        asm volatile(WGMMA(name, "64", NAMES_32, "%32", "%33", "%34", "0, %35")                                        \
                     : COLUMNS_64                                                                                      \
                     : "l"(a), "l"(b), "r"(add), "n"(transposed ? 1 : 0));                                             \
    }                                                                                                                  \
    template <bool transposed>                                                                                         \
    __device__ __forceinline__ void product_of(type, fragment_c (&c)[16], uint64_t a, uint64_t b, int add)             \
    {                                                                                                                  \
        asm volatile(WGMMA(name, "128", NAMES_64, "%64", "%65", "%66", "0, %67")                                       \
                     : COLUMNS_128                                                                                     \
                     : "l"(a), "l"(b), "r"(add), "n"(transposed ? 1 : 0));                                             \
    }
PRODUCTS(bf16, "bf16")
PRODUCTS(fp16, "f16")
#undef PRODUCTS
#undef REGISTERS_A
#undef COLUMNS_128
#undef COLUMNS_64
#undef FRAGMENTS
#undef FRAGMENT
#undef NAMES_64
#undef NAMES_32
#undef WGMMA

/* a: a fragment_a, or the descriptor of a tile with k along its rows. */
template <class E, bool transposed, class A, int N>
__device__ __forceinline__ void group_multiply(fragment_c (&c)[N], const A &a, uint64_t b, int add)
{
    product_of<transposed>(E(), c, a, b, add);
}

#else
#include <fake_wgmma.h> /* tests/support/fake_cuda */
#endif

/* Call it between the work that overlaps a product and the wait for that product: otherwise ptxas moves the wait before the work. It
 * cannot move the wait over this branch, which depends on the work's result and is never taken. The whole warp takes the same branch:
 * where lanes might diverge, ptxas sends products one at a time ("serialized"). */
__device__ __forceinline__ void hidden(bool never)
{
    if (__any_sync(0xffffffffu, never)) stop_here();
}

/* The same for work whose results are c, none of which is below zero. It tests their sum, because a NaN is not below zero, either: the
 * NaN must reach the gradients, where the loss scaler looks for it. */
template <int N> __device__ __forceinline__ void hidden(const fragment_c (&c)[N])
{
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i] += c[n].r[i];
    hidden(sum[0] + sum[1] + (sum[2] + sum[3]) < 0);
}
