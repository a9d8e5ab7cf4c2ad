/* Every call of kernels.h that takes a struct kernels goes to the processor that it was made for. */
#include <math.h>

#include "kernels/backend.h"

int kernels_threads(const struct kernels *kernels)
{
    return kernels->threads;
}

const char *kernels_isa(const struct kernels *kernels)
{
    return kernels->isa;
}

void kernels_free(struct kernels *kernels)
{
    if (kernels) kernels->backend->free(kernels);
}

void kernels_cast(struct kernels *kernels, enum dtype to, void *y, enum dtype from, const void *x, int64_t n)
{
    kernels->backend->add(kernels, to, y, false, from, x, n);
}

bool kernels_native_products(const struct kernels *kernels, enum dtype dtype)
{
    return kernels->backend->native_products(kernels, dtype);
}

int kernels_check(struct kernels *kernels, struct error *err)
{
    return kernels->backend->check(kernels, err);
}

int kernels_linear_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w,
                           const void *bias, const void *residual, int64_t N, int64_t out, int64_t in,
                           struct error *err)
{
    return kernels->backend->linear_forward(kernels, dtype, y, x, w, bias, residual, N, out, in, out, err);
}

int kernels_linear_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, bool accumulate, const void *dy,
                                  const void *w, int64_t N, int64_t out, int64_t in, struct error *err)
{
    return kernels->backend->linear_backward_input(kernels, dtype, dx, accumulate, dy, w, N, out, in, out, err);
}

int kernels_linear_backward_weight(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate, const void *dy,
                                   const void *x, int64_t N, int64_t out, int64_t in, struct error *err)
{
    return kernels->backend->linear_backward_weight(kernels, dtype, dw, accumulate, dy, x, N, out, in, out, err);
}

void kernels_linear_backward_bias(struct kernels *kernels, enum dtype dtype, void *db, bool accumulate, const void *dy,
                                  int64_t N, int64_t out)
{
    kernels->backend->linear_backward_bias(kernels, dtype, db, accumulate, dy, N, out);
}

int kernels_logits_forward(struct kernels *kernels, enum dtype dtype, void *logits, const void *x, const void *wte,
                           int64_t N, int64_t V, int64_t C, int64_t row, struct error *err)
{
    return kernels->backend->linear_forward(kernels, dtype, logits, x, wte, NULL, NULL, N, V, C, row, err);
}

int kernels_logits_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, const void *dlogits,
                                  const void *wte, int64_t N, int64_t V, int64_t C, int64_t row, struct error *err)
{
    return kernels->backend->linear_backward_input(kernels, dtype, dx, false, dlogits, wte, N, V, C, row, err);
}

int kernels_logits_backward_weight(struct kernels *kernels, enum dtype dtype, void *dwte, bool accumulate,
                                   const void *dlogits, const void *x, int64_t N, int64_t V, int64_t C, int64_t row,
                                   struct error *err)
{
    return kernels->backend->linear_backward_weight(kernels, dtype, dwte, accumulate, dlogits, x, N, V, C, row, err);
}

int kernels_linear_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, void *fc, const void *x,
                                const void *w, const void *bias, int64_t N, int64_t out, int64_t in, struct error *err)
{
    return kernels->backend->linear_gelu_forward(kernels, dtype, y, fc, x, w, bias, N, out, in, err);
}

int kernels_linear_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dfc, const void *dy, const void *w,
                                 const void *fc, int64_t N, int64_t out, int64_t in, struct error *err)
{
    return kernels->backend->linear_gelu_backward(kernels, dtype, dfc, dy, w, fc, N, out, in, err);
}

void kernels_norm_forward(struct kernels *kernels, enum dtype dtype, void *y, float *mean, float *rstd, const void *x,
                          const void *w, const void *b, int64_t N, int64_t C)
{
    kernels->backend->norm_forward(kernels, dtype, y, mean, rstd, x, w, b, N, C);
}

void kernels_norm_backward(struct kernels *kernels, enum dtype dtype, void *dx, bool add, const void *dy, const void *x,
                           const float *mean, const float *rstd, const void *w, int64_t N, int64_t C)
{
    kernels->backend->norm_backward(kernels, dtype, dx, add, dy, x, mean, rstd, w, N, C);
}

void kernels_norm_backward_weights(struct kernels *kernels, enum dtype dtype, void *dw, void *db, bool accumulate,
                                   const void *dy, const void *x, const float *mean, const float *rstd, int64_t N,
                                   int64_t C)
{
    kernels->backend->norm_backward_weights(kernels, dtype, dw, db, accumulate, dy, x, mean, rstd, N, C);
}

void kernels_norm_backward_both(struct kernels *kernels, enum dtype dtype, void *dx, bool add, void *dw, void *db,
                                void *dsum, bool accumulate, const void *dy, const void *x, const float *mean,
                                const float *rstd, const void *w, int64_t N, int64_t C)
{
    if (kernels->backend->norm_backward_both) {
        kernels->backend->norm_backward_both(kernels, dtype, dx, add, dw, db, dsum, accumulate, dy, x, mean, rstd, w, N,
                                             C);
        return;
    }
    kernels_norm_backward_weights(kernels, dtype, dw, db, accumulate, dy, x, mean, rstd, N, C);
    kernels_norm_backward(kernels, dtype, dx, add, dy, x, mean, rstd, w, N, C);
    if (dsum) kernels_linear_backward_bias(kernels, dtype, dsum, accumulate, dx, N, C);
}

void kernels_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, int64_t n)
{
    kernels->backend->gelu_forward(kernels, dtype, y, x, n);
}

void kernels_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *x,
                           int64_t n)
{
    kernels->backend->gelu_backward(kernels, dtype, dx, dy, x, n);
}

void kernels_attention_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                               const struct attention_shape *shape, void *scratch)
{
    kernels->backend->attention_forward(kernels, dtype, out, lse, qkv, shape, scratch);
}

void kernels_attention_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout,
                                const void *out, const float *lse, const void *qkv, const struct attention_shape *shape,
                                void *scratch)
{
    kernels->backend->attention_backward(kernels, dtype, dqkv, dout, out, lse, qkv, shape, scratch);
}

void kernels_embed_forward(struct kernels *kernels, enum dtype dtype, void *x, const void *wte, const void *wpe,
                           const int32_t *tokens, int64_t N, int64_t T, int64_t C)
{
    kernels->backend->embed_forward(kernels, dtype, x, wte, wpe, tokens, N, T, C);
}

void kernels_embed_backward_tokens(struct kernels *kernels, enum dtype dtype, void *dwte, const void *dx,
                                   const int32_t *tokens, int64_t N, int64_t C, void *scratch)
{
    kernels->backend->embed_backward_tokens(kernels, dtype, dwte, dx, tokens, N, C, scratch);
}

void kernels_embed_backward_positions(struct kernels *kernels, enum dtype dtype, void *dwpe, bool accumulate,
                                      const void *dx, int64_t rows, int64_t N, int64_t T, int64_t C)
{
    kernels->backend->embed_backward_positions(kernels, dtype, dwpe, accumulate, dx, rows, N, T, C);
}

void kernels_loss(struct kernels *kernels, enum dtype dtype, float *losses, void *logits, const int32_t *targets,
                  float gradient_scale, int64_t N, int64_t V, int64_t row)
{
    kernels->backend->loss(kernels, dtype, losses, logits, targets, gradient_scale, N, V, row);
}

void kernels_update(struct kernels *kernels, enum optimizer optimizer, const struct update_factors *factors,
                    enum dtype dtype, enum dtype to, const struct update_arrays *arrays, int64_t n)
{
    kernels->backend->update(kernels, optimizer, factors, dtype, to, arrays, n);
}

double kernels_sum_squares(struct kernels *kernels, enum dtype dtype, const void *x, int64_t n)
{
    double sum = NAN;
    kernels_sum_squares_to(kernels, dtype, &sum, x, n); /* not pinned */
    return sum;
}

void kernels_sum_squares_to(struct kernels *kernels, enum dtype dtype, double *sum, const void *x, int64_t n)
{
    kernels->backend->sum_squares_to(kernels, dtype, sum, x, n);
}

void kernels_mean_to(struct kernels *kernels, float *mean, const float *x, int64_t n)
{
    kernels->backend->mean_to(kernels, mean, x, n);
}

void kernels_add(struct kernels *kernels, enum dtype to, void *y, bool accumulate, enum dtype from, const void *x,
                 int64_t n)
{
    kernels->backend->add(kernels, to, y, accumulate, from, x, n);
}
