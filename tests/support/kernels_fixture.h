/* Numbers for tests of kernels, and how far a result may be from what a plain account in double says. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "kernels/kernels.h"
#include "tests/support/elements.h"

static const char *const isas[] = {"avx512", "avx2", "plain"};
enum { ISAS = 3 };

/* NULL where the processor lacks it. */
static inline struct kernels *kernels_on(const char *isa, int threads)
{
    struct kernels *kernels = NULL;
    struct error err;
    return kernels_create(&kernels, threads, isa, &err) ? NULL : kernels;
}

static inline double normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    double pair[2];
    rng_normal_pair(seed, stream, index, pair);
    return pair[0];
}

/* n normal numbers, stored as dtype; freed by the caller. */
static inline void *numbers(enum dtype dtype, uint64_t stream, int64_t n, float scale)
{
    void *x = malloc((size_t)n * 4 + 64);
    for (int64_t i = 0; i < n; i++) element_put(dtype, x, i, scale * (float)normal(3, stream, (uint64_t)i));
    return x;
}

static inline double relative(enum dtype dtype, const void *x, const double *expected, int64_t n)
{
    double delta = 0, whole = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)element_at(dtype, x, i) - expected[i];
        delta += d * d;
        whole += expected[i] * expected[i];
    }
    return sqrt(delta / (whole + 1e-300));
}

static inline void assert_close(const char *what, double found, double allowed)
{
    if (!(found <= allowed)) fail_msg("%s: relative difference %.3g, allowed %.3g", what, found, allowed);
}

static inline double allowed_for(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 0x1p-8 : dtype == DTYPE_F16 ? 0x1p-11 : 2e-6;
}
