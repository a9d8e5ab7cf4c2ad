/* The kernels of one rank on a GPU, and the functions that launch them; backend.cu puts those into the table of
 * kernels/backend.h. Each .cu file has kernels and, below them, the functions declared here. */
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/runtime.cuh"

extern "C" {
#include "kernels/backend.h"
}

struct products;

enum { PARTIALS_BYTES = 8 << 20 };

struct cuda {
    struct kernels base;
    struct device_stream *stream;
    struct products *products;
    void *partials; /* GPU memory, PARTIALS_BYTES: sums of parts of an array, from which one sum is made */
    double *sum;    /* that sum, before it is copied to the host */
    bool by_groups; /* attention by warpgroups: the GPU has them, and so has this build */
    bool splits_gelu;
    struct error gelu_refused; /* status 0: it was not */
};

static inline struct cuda *cuda_of(struct kernels *kernels)
{
    return (struct cuda *)kernels;
}

/* The address after `elems` elements of an array. */
static inline void *past(const void *array, enum dtype dtype, int64_t elems)
{
    return (char *)array + elems * dtype_bytes(dtype);
}

#define KERNEL(type, name, parameters, arguments) type cuda_##name parameters;
#include "kernels/kernels.def"
#undef KERNEL

/* columns.cu
 * y[s][c] = partials[k][s][c] added up over k in an order that `chunks` fixes, for s below `sums` (3 at most). */
void cuda_column_totals(struct kernels *kernels, const char *name, enum dtype dtype, void *const *y, bool accumulate,
                        const float *partials, int chunks, int sums, int64_t C);
/* y [C] = the column sums of x [N, C], row n times by[n x row]. */
void cuda_column_products(struct kernels *kernels, enum dtype dtype, void *y, bool accumulate, const void *by,
                          int64_t row, const void *x, int64_t N, int64_t C);

/* rest.cu: products of the output layer for the columns past cuda_whole_columns(), at most 7. Other layers have no such columns. So
 * these functions need no bias and no residual, and they overwrite the gradient of the input. */
int64_t cuda_whole_columns(enum dtype dtype, int64_t columns, int64_t row);
void cuda_rest_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w, int64_t N,
                       int rest, int64_t in, int64_t row);
void cuda_rest_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *w,
                              int64_t N, int rest, int64_t in, int64_t row);
void cuda_rest_backward_weight(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate, const void *dy,
                               const void *x, int64_t N, int rest, int64_t in, int64_t row);

/* sort.cu: order[p] = token << 32 | n, ascending, for tokens below 2^20. scratch: embed_scratch_cuda_bytes(N); order lies in it. */
const uint64_t *sort_tokens(struct device_stream *stream, const int32_t *tokens, int64_t N, void *scratch);
