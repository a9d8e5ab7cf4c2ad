/* Matrix products on a GPU, row-major: C [M, N] = op(A) [M, K] op(B) [K, N], with what is fused into them; sums in fp32 (never in
 * TF32), rounded once. What multiplies is cuBLASLt (product_cublaslt.cu), or in tests a plain loop (tests/support/fake_cuda). */
#ifndef KERNELS_CUDA_PRODUCT_H
#define KERNELS_CUDA_PRODUCT_H

#include "kernels/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is done to the sum before it is rounded. FORWARD: data.fc becomes the sum itself, c its GELU. BACKWARD: c becomes the sum
 * times GELU's slope at data.fc. */
enum product_gelu { GELU_NONE, GELU_FORWARD, GELU_BACKWARD };

struct product {
    enum dtype dtype;
    int64_t M, N, K;
    bool transpose_a, transpose_b; /* a lies as [K, M], b as [N, K] */
    bool bias;                     /* + bias [N] on every row */
    bool residual;                 /* + residual [M, N]; c is then as dense as that */
    bool accumulate;               /* + what c held; not together with residual */
    enum product_gelu gelu;        /* not together with residual or accumulate */
    int64_t a_row, c_row;          /* elements from a row of a, or of c, as it lies, to the next; 0: its columns */
    uint32_t alignment;            /* of the arrays, as the library needs it; left 0 by callers */
};

static inline struct product product_of(enum dtype dtype, int64_t M, int64_t N, int64_t K)
{
    const struct product product = {dtype, M, N, K, false, false, false, false, false, GELU_NONE, 0, 0, 0};
    return product;
}

static inline int64_t product_a_row(const struct product *p)
{
    return p->a_row ? p->a_row : p->transpose_a ? p->M : p->K;
}

static inline int64_t product_c_row(const struct product *p)
{
    return p->c_row ? p->c_row : p->N;
}

struct product_data {
    void *c;
    const void *a, *b, *bias, *residual;
    void *fc; /* [M, N]; NULL without gelu */
};

struct products; /* the library, its workspace, and the algorithm chosen for each shape so far */

int cuda_products_create(struct products **out, struct device_stream *stream, struct error *err);
void cuda_products_free(struct products *products);
int cuda_products_run(struct products *products, const struct product *product, const struct product_data *data,
                      struct error *err);
/* Whether the library has a way to fuse this; asked for products with gelu, which have a second way. */
bool cuda_products_can(struct products *products, const struct product *product, const struct product_data *data);
void cuda_products_library(char *text, size_t room); /* "cuBLASLt 13.1" */

#ifdef __cplusplus
}
#endif

#endif
