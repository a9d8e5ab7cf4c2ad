/* Products and sums of sizes that are checked: true, and *out is the result; false, and it does not fit into 64 bits. Sizes are
 * never negative here. */
#ifndef ENGINE_BASE_SIZE_H
#define ENGINE_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool size_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool size_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
