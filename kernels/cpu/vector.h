/* A vector of sixteen floats, whatever the instruction set, so that each kernel is written once and compiled three times.
 * Included only by the isa_*.c files, each of which defines one of VECTOR_AVX512, VECTOR_AVX2, VECTOR_PLAIN.
 *
 *     vec_load_part(x, n)       lanes from n on are 0; n may exceed 16
 *     vec_store_part(y, a, n)   touches only y[0 .. n)
 *     vec_fma(a, b, c)          a*b + c, fused where the processor can; vec_fused(a, b, c): always
 *     vec_round(a)              to the nearest integer, ties to even; |a| below 2^22
 *     vec_max(a, b), vec_min    b if a or b is NaN: pass the operand that may be NaN as b
 *     vec_larger(a, b)          the larger of a, which begins as 0, and |b|, not NaN; vec_largest(a): over the lanes, as a float
 *     vec_first(a, n, rest)     lanes from n on are `rest`
 *     vec_sign(a)               -1, 0 or 1; 0 for NaN
 *     vec_scale2(a, n)          a * 2^n, n integral, in [-126, 127]
 *     vec_sum, vec_highest      over the lanes, always in the same order
 *
 *     vec_load_bytes(x, pair)   2^24 x 32 int8: pair[0] has the even elements, pair[1] the odd ones
 *     vec_load_nibbles(x, pair) 2^28 x 32 int4, the even ones in the high halves of bytes
 *     vec_join(pair)            elements 0-15 and 16-31 instead; vec_split(pair): the opposite
 *     vec_store_bytes(y, a)     as 32 int8: a is 256 x each odd element + the even one before it
 *     vec_store_nibbles(y, a)   as 32 int4: a is 16 x each even element + the odd one after it
 *
 * The end of an array is a vector with fewer lanes: there are no scalar loops, so an element's arithmetic never depends on where in a
 * range it stands. */
#pragma once

#include <stdint.h>

#include "engine/base/dtype.h"

enum { VEC_LANES = 16 };

/* Kernels that must be compiled for one dtype at a time are inlined into a branch on it. */
#define INLINE static inline __attribute__((always_inline))

#if defined VECTOR_AVX512
#include "kernels/cpu/vector_avx512.h"
#elif defined VECTOR_AVX2
#include "kernels/cpu/vector_avx2.h"
#else
#include "kernels/cpu/vector_plain.h"
#endif

/* Lanes of elements [i, i + 16) of x, cut at n lanes. */
INLINE vec load(enum dtype dtype, const void *x, int64_t i, int64_t n)
{
    if (dtype == DTYPE_BF16) return vec_load_bf16_part((const uint16_t *)x + i, n);
    if (dtype == DTYPE_F16) return vec_load_f16_part((const uint16_t *)x + i, n);
    return vec_load_part((const float *)x + i, n);
}

INLINE void store(enum dtype dtype, void *y, int64_t i, vec a, int64_t n)
{
    if (dtype == DTYPE_BF16) vec_store_bf16_part((uint16_t *)y + i, a, n);
    else if (dtype == DTYPE_F16) vec_store_f16_part((uint16_t *)y + i, a, n);
    else vec_store_part((float *)y + i, a, n);
}

/* Loads elements [i, i + 32) of x, cut at n elements: pair[0] gets the even ones, pair[1] the odd ones. */
INLINE void load_pair(enum dtype dtype, const void *x, int64_t i, int64_t n, vec pair[2])
{
#ifdef VECTOR_AVX2
    if (dtype == DTYPE_BF16 && n >= 2 * VEC_LANES) {
        vec_load_bf16_pair((const uint16_t *)x + i, pair);
        return;
    }
#endif
    pair[0] = load(dtype, x, i, n);
    pair[1] = load(dtype, x, i + VEC_LANES, n > VEC_LANES ? n - VEC_LANES : 0);
    vec_split(pair);
}

/* Stores 32 elements, none of which is NaN: pair[0] has the even ones, pair[1] the odd ones. */
INLINE void store_pair(enum dtype dtype, void *y, int64_t i, vec pair[2])
{
#ifdef VECTOR_AVX2
    if (dtype == DTYPE_BF16) {
        vec_store_bf16_pair((uint16_t *)y + i, pair);
        return;
    }
#endif
    vec_join(pair);
    store(dtype, y, i, pair[0], VEC_LANES);
    store(dtype, y, i + VEC_LANES, pair[1], VEC_LANES);
}

INLINE void *at(enum dtype dtype, const void *x, int64_t i)
{
    return (char *)x + i * (dtype == DTYPE_F32 ? 4 : 2);
}

/* Asks for the cache line 4 KiB after x[i]. The processor's own prefetching stops at 4 KiB pages; asking across them
 * reads memory a third faster. Beyond the end of an array it does nothing. */
INLINE void fetch_ahead(enum dtype dtype, const void *x, int64_t i)
{
    __builtin_prefetch((const char *)at(dtype, x, i) + 4096);
}

/* e^x to about 1 ulp: x = n ln 2 + r, then a polynomial in r. Clamped to where the result is a normal float. */
INLINE vec vec_exp(vec x)
{
    x = vec_min(vec_set(88.0f), vec_max(vec_set(-87.0f), x));
    const vec magic = vec_set(12582912.0f); /* 1.5 x 2^23: adding it rounds to an integer */
    vec n = vec_sub(vec_fma(x, vec_set(1.44269504f), magic), magic);
    vec r = vec_fma(n, vec_set(-0.693145751953125f), x);
    r = vec_fma(n, vec_set(-1.42860677e-6f), r);
    vec p = vec_set(1.98412698e-4f);
    p = vec_fma(p, r, vec_set(1.38888889e-3f));
    p = vec_fma(p, r, vec_set(8.33333333e-3f));
    p = vec_fma(p, r, vec_set(4.16666667e-2f));
    p = vec_fma(p, r, vec_set(1.66666667e-1f));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_scale2(p, n);
}
