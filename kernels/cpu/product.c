/* Products by oneDNN, one primitive per shape, made on first use and kept. Where a 16-bit type cannot be multiplied natively, the
 * operands are converted block by block into fp32 buffers of fixed size and multiplied there. */
#include "kernels/cpu/product.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/dnnl_matmul.h"
#include "kernels/cpu/isa.h"

enum { OPERAND_A, OPERAND_B, OPERAND_C, OPERAND_BIAS, OPERAND_RESIDUAL, OPERANDS };

struct entry {
    struct product product;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS]; /* handles are set anew for every run; NULL: not used */
    struct entry *next;
};

enum { BUCKETS = 64 };

struct products {
    int threads;
    bool native[DTYPE_F16 + 1]; /* by dtype */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct entry *buckets[BUCKETS];
    struct converting *buffers; /* made on first use */
};

static int failed(dnnl_status_t status, const struct product *product, struct error *err)
{
    return error_set(err, STATUS_RUN, "oneDNN cannot multiply %s [%lld, %lld] x [%lld, %lld] (its status %d)",
                     dtype_name(product->dtype), (long long)product->M, (long long)product->K, (long long)product->K,
                     (long long)product->N, (int)status);
}

static void entry_free(struct entry *entry)
{
    for (int i = 0; i < OPERANDS; i++)
        if (entry->memory[i]) dnnl_memory_destroy(entry->memory[i]);
    if (entry->primitive) dnnl_primitive_destroy(entry->primitive);
    free(entry);
}

static dnnl_status_t descs_create(matrix_desc desc[OPERANDS], const struct product *p)
{
    static const dnnl_data_type_t types[] = {[DTYPE_F32] = dnnl_f32, [DTYPE_BF16] = dnnl_bf16, [DTYPE_F16] = dnnl_f16};
    const dnnl_data_type_t type = types[p->dtype];
    const int64_t M = p->M, N = p->N, K = p->K, a_row = product_a_row(p);
    dnnl_status_t status =
        matrix_desc_create(&desc[OPERAND_A], type, M, K, p->transpose_a ? 1 : a_row, p->transpose_a ? a_row : 1);
    if (!status)
        status = matrix_desc_create(&desc[OPERAND_B], type, K, N, p->transpose_b ? 1 : N, p->transpose_b ? K : 1);
    if (!status) status = matrix_desc_create(&desc[OPERAND_C], type, M, N, product_c_row(p), 1);
    if (!status && p->bias) status = matrix_desc_create(&desc[OPERAND_BIAS], type, 1, N, N, 1);
    if (!status && p->residual) status = matrix_desc_create(&desc[OPERAND_RESIDUAL], type, M, N, N, 1);
    return status;
}

static dnnl_status_t primitive_create(dnnl_primitive_t *out, dnnl_engine_t engine, const struct product *p,
                                      matrix_desc desc[OPERANDS])
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t matmul = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (!status) status = dnnl_post_ops_create(&ops);
    if (!status && p->residual) status = dnnl_post_ops_append_binary(ops, dnnl_binary_add, desc[OPERAND_RESIDUAL]);
    if (!status && p->accumulate) status = append_sum(ops);
    if (!status) status = dnnl_primitive_attr_set_post_ops(attr, ops);
    if (!status)
        status = matmul_desc_create(&matmul, engine, desc[OPERAND_A], desc[OPERAND_B], desc[OPERAND_BIAS],
                                    desc[OPERAND_C], attr);
    if (!status) status = dnnl_primitive_create(out, matmul);
    if (matmul) dnnl_primitive_desc_destroy(matmul);
    if (ops) dnnl_post_ops_destroy(ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return status;
}

static int entry_create(struct entry **out, struct products *products, const struct product *product, struct error *err)
{
    matrix_desc desc[OPERANDS] = {NULL};
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry) return error_set(err, STATUS_RUN, "no memory for a matrix product");
    entry->product = *product;
    dnnl_status_t status = descs_create(desc, product);
    if (!status) status = primitive_create(&entry->primitive, products->engine, product, desc);
    for (int i = 0; i < OPERANDS && !status; i++)
        if (desc[i]) status = dnnl_memory_create(&entry->memory[i], desc[i], products->engine, DNNL_MEMORY_NONE);
    for (int i = 0; i < OPERANDS; i++) matrix_desc_destroy(desc[i]);
    if (status) {
        entry_free(entry);
        return failed(status, product, err);
    }
    *out = entry;
    return STATUS_OK;
}

static bool same(const struct product *a, const struct product *b)
{
    return a->dtype == b->dtype && a->M == b->M && a->N == b->N && a->K == b->K && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->bias == b->bias && a->residual == b->residual &&
           a->accumulate == b->accumulate && product_a_row(a) == product_a_row(b) &&
           product_c_row(a) == product_c_row(b);
}

static int entry_find(struct entry **out, struct products *products, const struct product *product, struct error *err)
{
    struct entry **bucket = &products->buckets[(uint64_t)(product->M * 31 + product->N * 17 + product->K) % BUCKETS];
    for (*out = *bucket; *out; *out = (*out)->next)
        if (same(&(*out)->product, product)) return STATUS_OK;
    int status = entry_create(out, products, product, err);
    if (status) return status;
    (*out)->next = *bucket;
    *bucket = *out;
    return STATUS_OK;
}

static int run_native(struct products *products, const struct product *product, const struct product_data *data,
                      struct error *err)
{
    static const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                        DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1};
    const void *at[OPERANDS] = {data->a, data->b, data->c, data->bias, data->residual};
    dnnl_exec_arg_t arguments[OPERANDS];
    struct entry *entry;
    int count = 0, status = entry_find(&entry, products, product, err);
    if (status) return status;
    for (int i = 0; i < OPERANDS; i++) {
        if (!entry->memory[i]) continue;
        dnnl_memory_set_data_handle(entry->memory[i], (void *)at[i]);
        arguments[count++] = (dnnl_exec_arg_t){names[i], entry->memory[i]};
    }
    dnnl_status_t ran = dnnl_primitive_execute(entry->primitive, products->stream, count, arguments);
    if (!ran) ran = dnnl_stream_wait(products->stream);
    return ran ? failed(ran, product, err) : STATUS_OK;
}

/* ---- 16-bit storage, fp32 products: C is made block by block. For each, the parts of A and B that it needs are widened to fp32 in
 * buffers of fixed size, multiplied with oneDNN's sgemm, and the finished block is rounded once. ---- */

enum { BLOCK = 256, DEPTH = 512 };

struct converting {
    float a[BLOCK * DEPTH], b[BLOCK * DEPTH], c[BLOCK * BLOCK];
};

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
    kernels_share_out(threads, widen_rows, &a, rows, 16);
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

static int run_block(struct converting *buffers, int threads, const struct product *p,
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

static int run_converted(struct converting *buffers, int threads, const struct product *product,
                         const struct product_data *data, struct error *err)
{
    for (int64_t m = 0; m < product->M; m += BLOCK)
        for (int64_t n = 0; n < product->N; n += BLOCK) {
            int status = run_block(buffers, threads, product, data, m, n, err);
            if (status) return status;
        }
    return STATUS_OK;
}

int products_run(struct products *products, const struct product *product, const struct product_data *data,
                 struct error *err)
{
    omp_set_num_threads(products->threads); /* of the calling thread, whose pool oneDNN uses */
    if (products->native[product->dtype]) return run_native(products, product, data, err);
    if (!products->buffers) products->buffers = aligned_alloc(64, sizeof *products->buffers);
    if (!products->buffers) return error_set(err, STATUS_RUN, "no memory to convert matrices");
    return run_converted(products->buffers, products->threads, product, data, err);
}

/* Processors without AVX-512 have no bf16 product in oneDNN 2, which has none of fp16 on any. */
static bool can_multiply(struct products *products, enum dtype dtype)
{
    const struct product probes[] = {
        {.dtype = dtype, .M = 32, .N = 32, .K = 32, .transpose_b = true, .bias = true, .residual = true},
        {.dtype = dtype, .M = 32, .N = 32, .K = 32, .transpose_a = true, .accumulate = true},
    };
    for (int p = 0; p < 2; p++) {
        struct entry *entry;
        if (entry_create(&entry, products, &probes[p], NULL)) return false;
        entry_free(entry);
    }
    return true;
}

int products_create(struct products **out, int threads, bool native, struct error *err)
{
    struct products *products = calloc(1, sizeof *products);
    if (!products) return error_set(err, STATUS_RUN, "no memory for the matrix products");
    products->threads = threads;
    omp_set_num_threads(threads);
    if (dnnl_engine_create(&products->engine, dnnl_cpu, 0) ||
        dnnl_stream_create(&products->stream, products->engine, dnnl_stream_default_flags)) {
        products_free(products);
        return error_set(err, STATUS_RUN, "oneDNN cannot be started");
    }
    products->native[DTYPE_F32] = true;
    products->native[DTYPE_BF16] = native && can_multiply(products, DTYPE_BF16);
    products->native[DTYPE_F16] = native && can_multiply(products, DTYPE_F16);
    *out = products;
    return STATUS_OK;
}

void products_free(struct products *products)
{
    if (!products) return;
    for (int b = 0; b < BUCKETS; b++)
        for (struct entry *entry = products->buckets[b], *next; entry; entry = next) {
            next = entry->next;
            entry_free(entry);
        }
    if (products->stream) dnnl_stream_destroy(products->stream);
    if (products->engine) dnnl_engine_destroy(products->engine);
    free(products->buffers);
    free(products);
}

bool products_native(const struct products *products, enum dtype dtype)
{
    return products->native[dtype];
}

void kernels_product_library(char *text, size_t room)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, room, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}
