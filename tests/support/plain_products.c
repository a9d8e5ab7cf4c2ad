/* Matrix products of the CPU without oneDNN, behind kernels/cpu/product.h: what GPU kernels are compared with on a machine that has a
 * GPU and not our other libraries (tools/gpu.sh). Sums in fp32 along k, in order; 16-bit operands are widened first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/product.h"

struct products { int threads; };

/* rows x columns of fp32, row by row, of a matrix that lies so or transposed, its rows as they lie `stride` elements apart. */
static float *widened(enum dtype dtype, const void *x, int64_t rows, int64_t columns, bool transposed, int64_t stride)
{
    const int64_t n = rows * columns, lines = transposed ? columns : rows, length = transposed ? rows : columns;
    float *wide = malloc((size_t)n * 4), *turned;
    if (!wide) abort();
    for (int64_t l = 0; l < lines; l++) {
        const struct cast_args cast = {DTYPE_F32, dtype, false, wide + l * length, (const char *)x + l * stride * dtype_bytes(dtype)};
        isa_best()->cast(&cast, 0, length, 0);
    }
    if (!transposed) return wide;
    turned = malloc((size_t)n * 4);
    if (!turned) abort();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) turned[r * columns + c] = wide[c * rows + r];
    free(wide);
    return turned;
}

static void add_widened(enum dtype dtype, float *row, const void *x, int64_t at, int64_t n)
{
    float *some = widened(dtype, (const char *)x + at * dtype_bytes(dtype), 1, n, false, n);
    for (int64_t i = 0; i < n; i++) row[i] += some[i];
    free(some);
}

__attribute__((target_clones("avx512f", "avx2", "default"))) static void one_row(const struct product *p, const struct product_data *data, const float *a, const float *b, int64_t m)
{
    float *row = calloc((size_t)p->N, 4);
    if (!row) abort();
    for (int64_t k = 0; k < p->K; k++) {
        const float left = a[m * p->K + k];
#pragma omp simd
        for (int64_t n = 0; n < p->N; n++) row[n] += left * b[k * p->N + n];
    }
    if (p->bias) add_widened(p->dtype, row, data->bias, 0, p->N);
    if (p->residual) add_widened(p->dtype, row, data->residual, m * p->N, p->N);
    if (p->accumulate) add_widened(p->dtype, row, data->c, m * product_c_row(p), p->N);
    const struct cast_args cast = {p->dtype, DTYPE_F32, false, (char *)data->c + m * product_c_row(p) * dtype_bytes(p->dtype), row};
    isa_best()->cast(&cast, 0, p->N, 0);
    free(row);
}

int products_run(struct products *products, const struct product *product, const struct product_data *data,
                 struct error *err)
{
    (void)products, (void)err;
    float *a = widened(product->dtype, data->a, product->M, product->K, product->transpose_a, product_a_row(product));
    float *b = widened(product->dtype, data->b, product->K, product->N, product->transpose_b,
                        product->transpose_b ? product->K : product->N);
#pragma omp parallel for
    for (int64_t m = 0; m < product->M; m++) one_row(product, data, a, b, m);
    free(a), free(b);
    return STATUS_OK;
}

int products_create(struct products **out, int threads, bool native, struct error *err)
{
    (void)native;
    *out = calloc(1, sizeof **out);
    if (!*out) return error_set(err, STATUS_RUN, "no memory for the matrix products");
    (*out)->threads = threads;
    return STATUS_OK;
}

void products_free(struct products *products)
{
    free(products);
}

bool products_native(const struct products *products, enum dtype dtype)
{
    (void)products;
    return dtype == DTYPE_F32;
}

void kernels_product_library(char *text, size_t room)
{
    snprintf(text, room, "plain products");
}
