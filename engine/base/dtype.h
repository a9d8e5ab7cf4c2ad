/* Element types of tensors. bf16 and fp16 are stored as uint16_t; only the kernels calculate with them. */
#ifndef ENGINE_BASE_DTYPE_H
#define ENGINE_BASE_DTYPE_H

#include <stdint.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64, DTYPE_I32 };

static inline int dtype_bytes(enum dtype dtype)
{
    static const int bytes[] = {4, 2, 2, 8, 4}; /* in the order of the enum: C++, which reads this too, has no designators */
    return bytes[dtype];
}

static inline const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {"fp32", "bf16", "fp16", "fp64", "int32"};
    return names[dtype];
}

#endif
