/* What is behind kernels.h: a struct kernels begins with the table of the processor that does the work. kernels/cpu and
 * kernels/cuda each fill one; kernels.c forwards every call of kernels.h to the function of the same name here, whose
 * arguments and results are those that kernels.h describes. Products with a `row` here serve two calls there: rows of y, or dy, lie
 * so many elements apart, which are `out` but for logits. */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

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
    void (*linear_backward_bias)(struct kernels *kernels, enum dtype dtype, void *db, bool accumulate, const void *dy,
                                 int64_t N, int64_t out);
    int (*linear_gelu_forward)(struct kernels *kernels, enum dtype dtype, void *y, void *fc, const void *x, const void *w,
                               const void *bias, int64_t N, int64_t out, int64_t in, struct error *err);
    int (*linear_gelu_backward)(struct kernels *kernels, enum dtype dtype, void *dfc, const void *dy, const void *w,
                                const void *fc, int64_t N, int64_t out, int64_t in, struct error *err);
    void (*norm_forward)(struct kernels *kernels, enum dtype dtype, void *y, float *mean, float *rstd, const void *x,
                         const void *w, const void *b, int64_t N, int64_t C);
    void (*norm_backward)(struct kernels *kernels, enum dtype dtype, void *dx, bool add, const void *dy, const void *x,
                          const float *mean, const float *rstd, const void *w, int64_t N, int64_t C);
    void (*norm_backward_weights)(struct kernels *kernels, enum dtype dtype, void *dw, void *db, bool accumulate,
                                  const void *dy, const void *x, const float *mean, const float *rstd, int64_t N, int64_t C);
    void (*norm_backward_both)(struct kernels *kernels, enum dtype dtype, void *dx, bool add, void *dw, void *db, void *dsum,
                               bool accumulate, const void *dy, const void *x, const float *mean, const float *rstd, const void *w,
                               int64_t N, int64_t C); /* NULL: the two above and linear_backward_bias, in turn */
    void (*gelu_forward)(struct kernels *kernels, enum dtype dtype, void *y, const void *x, int64_t n);
    void (*gelu_backward)(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *x, int64_t n);
    void (*attention_forward)(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                              const struct attention_shape *shape, void *scratch);
    void (*attention_backward)(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const void *out,
                               const float *lse, const void *qkv, const struct attention_shape *shape, void *scratch);
    void (*embed_forward)(struct kernels *kernels, enum dtype dtype, void *x, const void *wte, const void *wpe,
                          const int32_t *tokens, int64_t N, int64_t T, int64_t C);
    void (*embed_backward_tokens)(struct kernels *kernels, enum dtype dtype, void *dwte, const void *dx,
                                  const int32_t *tokens, int64_t N, int64_t C, void *scratch);
    void (*embed_backward_positions)(struct kernels *kernels, enum dtype dtype, void *dwpe, bool accumulate,
                                     const void *dx, int64_t rows, int64_t N, int64_t T, int64_t C);
    void (*loss)(struct kernels *kernels, enum dtype dtype, float *losses, void *logits, const int32_t *targets,
                 float gradient_scale, int64_t N, int64_t V, int64_t row);
    void (*update)(struct kernels *kernels, enum optimizer optimizer, const struct update_factors *factors,
                   enum dtype dtype, enum dtype to, const struct update_arrays *arrays, int64_t n);
    void (*sum_squares_to)(struct kernels *kernels, enum dtype dtype, double *sum, const void *x, int64_t n);
    void (*mean_to)(struct kernels *kernels, float *mean, const float *x, int64_t n);
    void (*add)(struct kernels *kernels, enum dtype to, void *y, bool accumulate, enum dtype from, const void *x, int64_t n);
};

struct kernels {
    const struct backend *backend;
    int threads;
    const char *isa;
};

#endif
