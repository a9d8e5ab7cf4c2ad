/* Elements of tensors, one, four or eight at a time: stored as float, bf16 or fp16, computed with as float, rounded once to nearest
 * even. */
#pragma once

#include <cuda_runtime.h>

#include <stdint.h>
#include <string.h>

#include <type_traits>

extern "C" {
#include "engine/base/dtype.h"
}

struct bf16 {
    uint16_t bits;
};
struct fp16 {
    uint16_t bits;
};

#ifdef FAKE_CUDA
#include <fake_half.h> /* tests/support/fake_cuda */
#else
__device__ __forceinline__ float to_float(bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

__device__ __forceinline__ float to_float(fp16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ void from_float(bf16 *y, float x)
{
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y->bits) : "f"(x));
}

__device__ __forceinline__ void from_float(fp16 *y, float x)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y->bits) : "f"(x));
}
#endif

__device__ __forceinline__ float to_float(float x)
{
    return x;
}

__device__ __forceinline__ void from_float(float *y, float x)
{
    *y = x;
}

template <class T> __device__ __forceinline__ float rounded(float x)
{
    T stored;
    from_float(&stored, x);
    return to_float(stored);
}

/* Number of elements that a thread takes at a time from arrays of these types: 8, or 4 if one of the types has 4 bytes. So its widest
 * access has 16 bytes, and the accesses of a warp are contiguous. */
template <class... T> constexpr int width_of = ((sizeof(T) == 4) || ...) ? 4 : 8;

/* The type in which W elements are read and written: 16 bytes, or 8 if they have no more. */
template <int W, class T> using pack_of = std::conditional_t<W * sizeof(T) >= 16, uint4, uint2>;

/* Reads W elements from x[i] on. W is 1, or 4 or 8; then x + i is aligned to W elements. */
template <int W, class T> __device__ __forceinline__ void load(float (&values)[W], const T *x, int64_t i)
{
    if constexpr (W == 1) {
        values[0] = to_float(x[i]);
    } else {
        using pack = pack_of<W, T>;
        enum { PACKS = W * sizeof(T) / sizeof(pack) };
        pack packs[PACKS];
        T some[W];
#pragma unroll
        for (int p = 0; p < PACKS; p++) packs[p] = ((const pack *)(x + i))[p];
        memcpy(some, packs, sizeof some);
#pragma unroll
        for (int j = 0; j < W; j++) values[j] = to_float(some[j]);
    }
}

template <int W, class T> __device__ __forceinline__ void store(T *y, int64_t i, const float (&values)[W])
{
    if constexpr (W == 1) {
        from_float(y + i, values[0]);
    } else {
        using pack = pack_of<W, T>;
        enum { PACKS = W * sizeof(T) / sizeof(pack) };
        pack packs[PACKS];
        T some[W];
#pragma unroll
        for (int j = 0; j < W; j++) from_float(some + j, values[j]);
        memcpy(packs, some, sizeof some);
#pragma unroll
        for (int p = 0; p < PACKS; p++) ((pack *)(y + i))[p] = packs[p];
    }
}

/* Eight elements as stored, read from an address aligned to 16 bytes, or zeros. Used to start reading long before the values are used. */
template <class T> struct eight {
    enum { PACKS = 8 * sizeof(T) / 16 };
    uint4 packs[PACKS];

    eight() = default;
    __device__ __forceinline__ eight(const T *x, bool there)
    {
#pragma unroll
        for (int p = 0; p < PACKS; p++) packs[p] = there ? ((const uint4 *)x)[p] : uint4{0, 0, 0, 0};
    }
    __device__ __forceinline__ void to(float (&values)[8]) const
    {
        T some[8];
        memcpy(some, packs, sizeof some);
#pragma unroll
        for (int j = 0; j < 8; j++) values[j] = to_float(some[j]);
    }
};

/* Whether all of these arrays are aligned to 16 bytes, so that elements can be read eight at a time. NULL counts as aligned. */
template <class... P> bool aligned(const P *...arrays)
{
    uintptr_t all = 0;
    const void *const list[] = {arrays...};
    for (const void *array : list) all |= (uintptr_t)array;
    return all % 16 == 0;
}

/* Calls f with an element of the type: with_type(dtype, [&](auto x) { using T = decltype(x); ... }) */
template <class F> void with_type(enum dtype dtype, F f)
{
    if (dtype == DTYPE_BF16) f(bf16());
    else if (dtype == DTYPE_F16) f(fp16());
    else f(float());
}
