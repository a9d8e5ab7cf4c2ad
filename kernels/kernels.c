/* Forwards every call of kernels.h that takes a struct kernels to its backend, the CPU or a GPU. */
#include <math.h>

#include "kernels/backend.h"

#define KERNEL(type, name, parameters, arguments)                                                                      \
    type kernels_##name parameters                                                                                     \
    {                                                                                                                  \
        return kernels->backend->name arguments;                                                                       \
    }
#include "kernels/kernels.def"
#undef KERNEL

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

double kernels_sum_squares(struct kernels *kernels, enum dtype dtype, const void *x, int64_t n)
{
    double sum = NAN;
    kernels_sum_squares_to(kernels, dtype, &sum, x, n); /* not pinned */
    return sum;
}
