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

double kernels_sum_squares(struct kernels *kernels, enum dtype dtype, const void *x, int64_t n)
{
    double sum = NAN;
    kernels_sum_squares_to(kernels, dtype, &sum, x, n); /* not pinned */
    return sum;
}
