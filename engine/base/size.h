/* Checked products of sizes, which are never negative. True: *out is the result. False: the result does not
 * fit into int64_t. */
#ifndef ENGINE_BASE_SIZE_H
#define ENGINE_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool size_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
