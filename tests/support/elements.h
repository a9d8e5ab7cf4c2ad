/* Single elements of a tensor of any type, written apart from the kernels that are tested with them. */
#pragma once

#include <string.h>

#include "engine/base/dtype.h"

static inline float bf16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t float_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + (bits >> 16 & 1) + 0x7fff) >> 16);
}

/* The compiler's own type and conversions; clang 14 has them only as instructions. */
#if defined __clang__ && __clang_major__ < 15
typedef __fp16 half_float;
#define CONVERTS_HALVES __attribute__((target("f16c")))
#else
typedef _Float16 half_float;
#define CONVERTS_HALVES
#endif

CONVERTS_HALVES static inline float element_at(enum dtype dtype, const void *x, int64_t i)
{
    if (dtype == DTYPE_F16) return (float)((const half_float *)x)[i];
    return dtype == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

CONVERTS_HALVES static inline void element_put(enum dtype dtype, void *x, int64_t i, float value)
{
    if (dtype == DTYPE_F16) ((half_float *)x)[i] = (half_float)value;
    else if (dtype == DTYPE_BF16) ((uint16_t *)x)[i] = float_to_bf16(value);
    else ((float *)x)[i] = value;
}
