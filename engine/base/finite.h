/* Checks that values are finite and stay finite when they are rounded to the type of the model. */
#ifndef ENGINE_BASE_FINITE_H
#define ENGINE_BASE_FINITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/dtype.h"

/* `dtype`: the type that the fp32 values are rounded to. Compares bits as integers: larger magnitudes have larger bits. */
static inline bool all_finite(const float *values, int64_t count, enum dtype dtype)
{
    /* The lowest value that rounds to inf: in bf16 and fp16 half a step above the largest finite value. */
    const int32_t limit = dtype == DTYPE_BF16 ? 0x7f7f8000 : dtype == DTYPE_F16 ? 0x477ff000 : 0x7f800000;
    int32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most < limit;
}

#endif
