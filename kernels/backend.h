/* The table of functions behind kernels.h. A struct kernels begins with a pointer to the table of kernels/cpu or of
 * kernels/cuda. kernels.c forwards every call of kernels.h to the table's function of the same name, with the same
 * arguments and results. The three products with a `row` serve two calls each, kernels_linear_* and kernels_logits_*:
 * rows of y or dy lie `row` elements apart, which is `out` except for logits. */
#pragma once

#include "kernels/kernels.h"

struct backend {
    void (*free)(struct kernels *kernels);
    bool (*native_products)(const struct kernels *kernels, enum dtype dtype);
    int (*check)(struct kernels *kernels, struct error *err);
    int (*linear_forward)(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w, const void *bias,
                          const void *residual, int64_t N, int64_t out, int64_t in, int64_t row, struct error *err);
    int (*linear_backward_input)(struct kernels *kernels, enum dtype dtype, void *dx, bool accumulate, const void *dy, const void *w,
                                 int64_t N, int64_t out, int64_t in, int64_t row, struct error *err);
    int (*linear_backward_weight)(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate, const void *dy,
                                  const void *x, int64_t N, int64_t out, int64_t in, int64_t row, struct error *err);
#define KERNEL(type, name, parameters, arguments) type (*name) parameters;
#include "kernels/kernels.def"
#undef KERNEL
};

struct kernels {
    const struct backend *backend;
    int threads;
    const char *isa;
};
