/* Matrix products, row-major: C [M, N] = op(A) [M, K] op(B) [K, N], and operations fused into them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"

struct product {
    enum dtype dtype;
    int64_t M, N, K;
    bool transpose_a, transpose_b; /* a is stored as [K, M], b as [N, K] */
    bool bias;                     /* + bias [N] on every row */
    bool residual;                 /* + residual [M, N] */
    bool accumulate;               /* + what c held */
    int64_t a_row, c_row;          /* elements between the starts of stored rows of a, of c; 0: contiguous rows */
};

static inline int64_t product_a_row(const struct product *p)
{
    return p->a_row ? p->a_row : p->transpose_a ? p->M : p->K;
}

static inline int64_t product_c_row(const struct product *p)
{
    return p->c_row ? p->c_row : p->N;
}

struct product_data { void *c; const void *a, *b, *bias, *residual; };

struct products; /* engine, stream and the primitives made so far */

/* native: let oneDNN multiply the 16-bit types that it supports on this processor. */
int products_create(struct products **out, int threads, bool native, struct error *err);
void products_free(struct products *products);
bool products_native(const struct products *products, enum dtype dtype);
int products_run(struct products *products, const struct product *product, const struct product_data *data, struct error *err);
