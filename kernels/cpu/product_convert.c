/* 16-bit storage, fp32 products: C is made block by block. For each, the parts of A and B that it needs are widened to
 * fp32 in buffers of fixed size, multiplied with oneDNN's sgemm, and the finished block is rounded once. */
#include "kernels/cpu/product_convert.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#include "kernels/cpu/parallel.h"

enum { BLOCK = 256, DEPTH = 512 };

struct product_buffers {
    float a[BLOCK * DEPTH], b[BLOCK * DEPTH], c[BLOCK * BLOCK];
};

int product_buffers_create(struct product_buffers **out, struct error *err)
{
    *out = aligned_alloc(64, sizeof **out);
    return *out ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to convert matrices");
}

/* Rows [first, first + rows) x columns [0, columns) of a matrix whose rows lie `stride` apart. */
struct widen_args {
    enum dtype dtype;
    float *y;
    const uint16_t *x;
    int64_t columns, stride;
    const struct isa *isa;
};

static void widen_rows(const void *arguments, int64_t first, int64_t end, int thread)
{
    const struct widen_args *a = arguments;
    for (int64_t r = first; r < end; r++) {
        const struct cast_args cast = {DTYPE_F32, a->dtype, false, a->y + r * a->columns, a->x + r * a->stride};
        a->isa->cast(&cast, 0, a->columns, thread);
    }
}

static void widen(int threads, enum dtype dtype, float *y, const void *x, int64_t first_row, int64_t first_column,
                  int64_t rows, int64_t columns, int64_t stride)
{
    const struct widen_args a = {dtype,   y,      (const uint16_t *)x + first_row * stride + first_column,
                                 columns, stride, isa_best()};
    parallel_run(threads, widen_rows, &a, rows, 16);
}

/* row += n elements of x from element `at` on. */
static void add_widened(enum dtype dtype, float *row, const void *x, int64_t at, int64_t n)
{
    float some[BLOCK];
    const struct cast_args cast = {DTYPE_F32, dtype, false, some, (const uint16_t *)x + at};
    isa_best()->cast(&cast, 0, n, 0);
    for (int64_t i = 0; i < n; i++) row[i] += some[i];
}

/* What is added before rounding: bias, residual, what was there. */
static void finish(const struct product *p, const struct product_data *data, float *c, int64_t m, int64_t n,
                   int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = (m + r) * product_c_row(p) + n;
        float *row = c + r * columns;
        if (p->bias) add_widened(p->dtype, row, data->bias, n, columns);
        if (p->residual) add_widened(p->dtype, row, data->residual, (m + r) * p->N + n, columns);
        if (p->accumulate) add_widened(p->dtype, row, data->c, at, columns);
        const struct cast_args cast = {p->dtype, DTYPE_F32, false, (uint16_t *)data->c + at, row};
        isa_best()->cast(&cast, 0, columns, 0);
    }
}

static int run_block(struct product_buffers *buffers, int threads, const struct product *p,
                     const struct product_data *data, int64_t m, int64_t n, struct error *err)
{
    const int64_t rows = p->M - m < BLOCK ? p->M - m : BLOCK, columns = p->N - n < BLOCK ? p->N - n : BLOCK;
    for (int64_t k = 0; k < p->K; k += DEPTH) {
        const int64_t depth = p->K - k < DEPTH ? p->K - k : DEPTH;
        if (p->transpose_a) widen(threads, p->dtype, buffers->a, data->a, k, m, depth, rows, product_a_row(p));
        else widen(threads, p->dtype, buffers->a, data->a, m, k, rows, depth, product_a_row(p));
        if (p->transpose_b) widen(threads, p->dtype, buffers->b, data->b, n, k, columns, depth, p->K);
        else widen(threads, p->dtype, buffers->b, data->b, k, n, depth, columns, p->N);
        dnnl_status_t status = dnnl_sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', rows, columns, depth,
                                          1.0f, buffers->a, p->transpose_a ? rows : depth, buffers->b,
                                          p->transpose_b ? depth : columns, k ? 1.0f : 0.0f, buffers->c, columns);
        if (status) return error_set(err, STATUS_RUN, "oneDNN's sgemm failed (its status %d)", (int)status);
    }
    finish(p, data, buffers->c, m, n, rows, columns);
    return STATUS_OK;
}

int product_run_converted(struct product_buffers *buffers, int threads, const struct product *product,
                          const struct product_data *data, struct error *err)
{
    for (int64_t m = 0; m < product->M; m += BLOCK)
        for (int64_t n = 0; n < product->N; n += BLOCK) {
            int status = run_block(buffers, threads, product, data, m, n, err);
            if (status) return status;
        }
    return STATUS_OK;
}
