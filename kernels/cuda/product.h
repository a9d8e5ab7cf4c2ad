/* Matrix products on a GPU, row-major: C [M, N] = op(A) [M, K] op(B) [K, N], and operations fused into them; sums in fp32 (never in
 * TF32). A sum is rounded once; where cuBLASLt adds it to an old value in 16 bits, it may also round it before that addition.
 * Implemented by cuBLASLt (product_cublaslt.cu), or in tests by a plain loop (tests/support/fake_cuda). */
#pragma once

#include "kernels/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The operation on the sum before it is rounded. FORWARD: fc = sum, c = GELU(sum). BACKWARD: c = sum x the slope of
 * GELU at fc. fc is in struct product_data. */
enum product_gelu { GELU_NONE, GELU_FORWARD, GELU_BACKWARD };

struct product {
    enum dtype dtype;
    int64_t M, N, K;
    bool transpose_a, transpose_b; /* a is stored as [K, M], b as [N, K] */
    bool bias;                     /* adds bias [N] to every row */
    bool residual;                 /* adds residual [M, N]; the rows of c must be contiguous then */
    bool accumulate;               /* adds the old c; not together with residual */
    enum product_gelu gelu;        /* not together with residual or accumulate */
    int64_t a_row, c_row;          /* elements between the starts of stored rows of a, of c; 0: contiguous rows */
    uint32_t alignment;            /* of the arrays, for the library; callers leave it 0 */
    int proposal;                  /* which of the library's algorithms, best guess first; benchmarks alone ask for others than 0 */
};

static inline struct product product_of(enum dtype dtype, int64_t M, int64_t N, int64_t K)
{
    const struct product product = {dtype, M, N, K, false, false, false, false, false, GELU_NONE, 0, 0, 0, 0};
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

enum { PRODUCT_PROPOSALS = 8 };

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
/* Whether the library can fuse this product with its gelu; if not, the caller uses separate kernels. */
bool cuda_products_can(struct products *products, const struct product *product, const struct product_data *data);
void cuda_products_library(char *text, size_t room); /* "cuBLASLt 13.1.0" */

#ifdef __cplusplus
}
#endif
