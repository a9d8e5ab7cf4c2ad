/* Element types of tensors. bf16 and fp16 are stored as uint16_t; only the kernels calculate with them.
 *
 * The quantized types hold blocks of QUANT_BLOCK elements. A block has one fp32 scale, then an integer of 8 or 4 bits for each element
 * (ZeRO++, section 3.1). The last block of an array may be short. An array can be cut between blocks; each part is again an array. */
#pragma once

#include <stdint.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64, DTYPE_I32, DTYPE_Q8, DTYPE_Q4 };

enum { QUANT_BLOCK = 512, QUANT_SCALE_BYTES = 4 };

static inline int dtype_is_quantized(enum dtype dtype)
{
    return dtype == DTYPE_Q8 || dtype == DTYPE_Q4;
}

/* Bytes of an element; for a quantized type, of a whole block. */
static inline int dtype_bytes(enum dtype dtype)
{
    /* In the order of the enum: C++, which reads this file too, has no designators. */
    static const int bytes[] = {4, 2, 2, 8, 4, QUANT_SCALE_BYTES + QUANT_BLOCK, QUANT_SCALE_BYTES + QUANT_BLOCK / 2};
    return bytes[dtype];
}

/* Bytes of an array of `elems` elements. A short block is padded to a multiple of 4 bytes, so that the next array is aligned to 4. */
static inline int64_t dtype_array_bytes(enum dtype dtype, int64_t elems)
{
    if (!dtype_is_quantized(dtype)) return elems * dtype_bytes(dtype);
    const int64_t rest = elems % QUANT_BLOCK, bits = dtype == DTYPE_Q8 ? 8 : 4;
    return elems / QUANT_BLOCK * dtype_bytes(dtype) + (rest ? QUANT_SCALE_BYTES + (rest * bits + 31) / 32 * 4 : 0);
}

/* Bytes of one element, with its share of the block's scale. */
static inline double dtype_element_bytes(enum dtype dtype)
{
    return (double)dtype_bytes(dtype) / (dtype_is_quantized(dtype) ? QUANT_BLOCK : 1);
}

static inline const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {"fp32", "bf16", "fp16", "fp64", "int32", "int8 blocks", "int4 blocks"};
    return names[dtype];
}
