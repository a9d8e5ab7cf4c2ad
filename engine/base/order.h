/* Comparisons for qsort() and bsearch(): of numbers, or of structs that begin with one. */
#pragma once

#include <stdint.h>

static inline int ascending_u64(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static inline int descending_u64(const void *left, const void *right)
{
    return ascending_u64(right, left);
}

static inline int ascending_double(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}
