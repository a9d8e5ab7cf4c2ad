/* The kernels on the CPU: each gathers its arguments and gives a range of work to every thread. What is split
 * (elements, rows, columns, heads) is chosen so that no sum crosses a border: bits do not depend on the threads. */
#include "kernels/backend.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/scratch.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/product.h"

enum { SUM_BLOCKS_AT_ONCE = 1024 };

struct cpu {
    struct kernels base;
    const struct isa *isa;
    struct products *products;
    double sums[SUM_BLOCKS_AT_ONCE]; /* of kernels_sum_squares */
};

static struct cpu *cpu_of(struct kernels *kernels)
{
    return (struct cpu *)kernels;
}

/* Work that is worth waking a thread for, in elements; cuts are at whole cache lines of the smallest type. */
enum { GRAIN_ELEMS = 4096, GRAIN_COLUMNS = 64 };

const char *kernels_widest_isa(void)
{
    return isa_best()->name;
}

static bool cpu_native_products(const struct kernels *kernels, enum dtype dtype)
{
    return products_native(((const struct cpu *)kernels)->products, dtype);
}

static int cpu_linear_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w,
                              const void *bias, const void *residual, int64_t N, int64_t out, int64_t in, int64_t row,
                              struct error *err)
{
    const bool adds = residual && residual == y; /* else the product might be written over it before it is added */
    const struct product product = {.dtype = dtype,
                                    .M = N,
                                    .N = out,
                                    .K = in,
                                    .transpose_b = true,
                                    .bias = bias,
                                    .residual = residual && !adds,
                                    .accumulate = adds,
                                    .c_row = row};
    const struct product_data data = {.c = y, .a = x, .b = w, .bias = bias, .residual = residual};
    return products_run(cpu_of(kernels)->products, &product, &data, err);
}

static int cpu_linear_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, bool accumulate,
                                     const void *dy, const void *w, int64_t N, int64_t out, int64_t in, int64_t row,
                                     struct error *err)
{
    const struct product product = {.dtype = dtype, .M = N, .N = in, .K = out, .accumulate = accumulate, .a_row = row};
    const struct product_data data = {.c = dx, .a = dy, .b = w};
    return products_run(cpu_of(kernels)->products, &product, &data, err);
}

static int cpu_linear_backward_weight(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate,
                                      const void *dy, const void *x, int64_t N, int64_t out, int64_t in, int64_t row,
                                      struct error *err)
{
    const struct product product = {
        .dtype = dtype, .M = out, .N = in, .K = N, .transpose_a = true, .accumulate = accumulate, .a_row = row};
    const struct product_data data = {.c = dw, .a = dy, .b = x};
    return products_run(cpu_of(kernels)->products, &product, &data, err);
}

static void cpu_linear_backward_bias(struct kernels *kernels, enum dtype dtype, void *db, bool accumulate,
                                     const void *dy, int64_t N, int64_t out)
{
    const struct column_sums_args a = {dtype, db, accumulate, dy, N, out};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->column_sums, &a, out, GRAIN_COLUMNS);
}

static void cpu_norm_forward(struct kernels *kernels, enum dtype dtype, void *y, float *mean, float *rstd,
                             const void *x, const void *w, const void *b, int64_t N, int64_t C)
{
    const struct norm_forward_args a = {dtype, y, mean, rstd, x, w, b, C};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->norm_forward, &a, N, 1 + GRAIN_ELEMS / C);
}

static void cpu_norm_backward(struct kernels *kernels, enum dtype dtype, void *dx, bool add, const void *dy,
                              const void *x, const float *mean, const float *rstd, const void *w, int64_t N, int64_t C)
{
    const struct norm_backward_args a = {dtype, dx, add, dy, x, mean, rstd, w, C};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->norm_backward, &a, N, 1 + GRAIN_ELEMS / C);
}

static void cpu_norm_backward_weights(struct kernels *kernels, enum dtype dtype, void *dw, void *db, bool accumulate,
                                      const void *dy, const void *x, const float *mean, const float *rstd, int64_t N,
                                      int64_t C)
{
    const struct norm_backward_weights_args a = {dtype, dw, db, accumulate, dy, x, mean, rstd, N, C};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->norm_backward_weights, &a, C, GRAIN_COLUMNS);
}

static void cpu_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, int64_t n)
{
    const struct gelu_forward_args a = {dtype, y, x};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->gelu_forward, &a, n, GRAIN_ELEMS);
}

static void cpu_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *x,
                              int64_t n)
{
    const struct gelu_backward_args a = {dtype, dx, dy, x};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->gelu_backward, &a, n, GRAIN_ELEMS);
}

static void cpu_norm_backward_both(struct kernels *kernels, enum dtype dtype, void *dx, bool add, void *dw, void *db,
                                   void *dsum, bool accumulate, const void *dy, const void *x, const float *mean,
                                   const float *rstd, const void *w, int64_t N, int64_t C)
{
    cpu_norm_backward_weights(kernels, dtype, dw, db, accumulate, dy, x, mean, rstd, N, C);
    cpu_norm_backward(kernels, dtype, dx, add, dy, x, mean, rstd, w, N, C);
    if (dsum) cpu_linear_backward_bias(kernels, dtype, dsum, accumulate, dx, N, C);
}

static int cpu_linear_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, void *fc, const void *x,
                                   const void *w, const void *bias, int64_t N, int64_t out, int64_t in,
                                   struct error *err)
{
    int status = cpu_linear_forward(kernels, dtype, fc, x, w, bias, NULL, N, out, in, out, err);
    if (!status) cpu_gelu_forward(kernels, dtype, y, fc, N * out);
    return status;
}

static int cpu_linear_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dfc, const void *dy, const void *w,
                                    const void *fc, int64_t N, int64_t out, int64_t in, struct error *err)
{
    int status = cpu_linear_backward_input(kernels, dtype, dfc, false, dy, w, N, out, in, out, err);
    if (!status) cpu_gelu_backward(kernels, dtype, dfc, dfc, fc, N * in);
    return status;
}

static void cpu_attention_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                                  const struct attention_shape *shape, void *scratch)
{
    const struct attention_forward_args a = {dtype, out, lse, qkv, *shape, scratch};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->attention_forward, &a, (int64_t)shape->B * shape->NH, 1);
}

static void cpu_attention_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout,
                                   const void *out, const float *lse, const void *qkv,
                                   const struct attention_shape *shape, void *scratch)
{
    const struct attention_backward_args a = {dtype, dqkv, dout, out, lse, qkv, *shape, scratch};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->attention_backward, &a, (int64_t)shape->B * shape->NH, 1);
}

static void cpu_embed_forward(struct kernels *kernels, enum dtype dtype, void *x, const void *wte, const void *wpe,
                              const int32_t *tokens, int64_t N, int64_t T, int64_t C)
{
    const struct embed_forward_args a = {dtype, x, wte, wpe, tokens, T, C};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->embed_forward, &a, N, 1 + GRAIN_ELEMS / C);
}

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void cpu_embed_backward_tokens(struct kernels *kernels, enum dtype dtype, void *dwte, const void *dx,
                                      const int32_t *tokens, int64_t N, int64_t C, void *scratch)
{
    uint64_t *order = scratch;
    for (int64_t n = 0; n < N; n++) order[n] = (uint64_t)tokens[n] << 32 | (uint64_t)n;
    qsort(order, (size_t)N, sizeof *order, by_value);
    const struct embed_backward_tokens_args a = {dtype, dwte, dx, order, N, C};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->embed_backward_tokens, &a, N, 1 + GRAIN_ELEMS / C);
}

static void cpu_embed_backward_positions(struct kernels *kernels, enum dtype dtype, void *dwpe, bool accumulate,
                                         const void *dx, int64_t rows, int64_t N, int64_t T, int64_t C)
{
    const struct embed_backward_positions_args a = {dtype, dwpe, accumulate, dx, N, T, C};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->embed_backward_positions, &a, rows, 1 + GRAIN_ELEMS / C);
}

static void cpu_loss(struct kernels *kernels, enum dtype dtype, float *losses, void *logits, const int32_t *targets,
                     float gradient_scale, int64_t N, int64_t V, int64_t row)
{
    const struct loss_args a = {dtype, losses, logits, targets, gradient_scale, V, row};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->loss, &a, N, 1 + GRAIN_ELEMS / V);
}

static void cpu_update(struct kernels *kernels, enum optimizer optimizer, const struct update_factors *factors,
                       enum dtype dtype, enum dtype to, const struct update_arrays *arrays, int64_t n)
{
    const struct isa *isa = cpu_of(kernels)->isa;
    kernels_body *const bodies[OPTIMIZERS] = {
        [OPTIMIZER_ADAMW] = isa->update_adam, [OPTIMIZER_ADAM] = isa->update_adam,
        [OPTIMIZER_LION] = isa->update_lion,  [OPTIMIZER_ADAGRAD] = isa->update_adagrad,
        [OPTIMIZER_SGD] = isa->update_sgd,    [OPTIMIZER_MOMENTUM] = isa->update_momentum,
    };
    const struct update_args a = {dtype,
                                  to,
                                  *factors,
                                  arrays->gradient,
                                  arrays->master,
                                  {arrays->state[0], arrays->state[1]},
                                  arrays->parameters};
    kernels_share_out(kernels->threads, bodies[optimizer], &a, n, GRAIN_ELEMS);
}

static void cpu_sum_squares_to(struct kernels *kernels, enum dtype dtype, double *sum, const void *x, int64_t n)
{
    const int64_t at_once = (int64_t)SUM_BLOCKS_AT_ONCE * SUM_BLOCK_ELEMS;
    double total = 0;
    for (int64_t first = 0; first < n; first += at_once) {
        const int64_t elems = n - first < at_once ? n - first : at_once;
        const int64_t blocks = (elems + SUM_BLOCK_ELEMS - 1) / SUM_BLOCK_ELEMS;
        const struct sum_squares_args a = {dtype, (const char *)x + first * dtype_bytes(dtype), elems,
                                           cpu_of(kernels)->sums};
        kernels_share_out(kernels->threads, cpu_of(kernels)->isa->sum_squares, &a, blocks, 1);
        for (int64_t b = 0; b < blocks; b++) total += cpu_of(kernels)->sums[b];
    }
    *sum = total;
}

static void cpu_add(struct kernels *kernels, enum dtype to, void *y, bool accumulate, enum dtype from, const void *x,
                    int64_t n)
{
    const struct cast_args a = {to, from, accumulate, y, x};
    kernels_share_out(kernels->threads, cpu_of(kernels)->isa->cast, &a, n, GRAIN_ELEMS);
}

/* ---- quantized ---- */

static int64_t blocks_of(int64_t elems)
{
    return (elems + QUANT_BLOCK - 1) / QUANT_BLOCK;
}

void kernels_quantize(enum dtype to, void *blocks, enum dtype dtype, const void *x, int64_t n,
                      const struct quantize_feedback *feedback, struct quantize_error *error)
{
    const struct quantize_args a = {dtype, to, blocks, x, n, feedback, error};
    if (n % QUANT_BLOCK) memset((char *)blocks + dtype_array_bytes(to, n) - 4, 0, 4); /* the end of a short block */
    isa_best()->quantize(&a, 0, blocks_of(n), 0);
}

void kernels_dequantize(enum dtype to, void *y, enum dtype from, const void *blocks, int64_t n)
{
    const struct dequantize_args a = {to, from, y, &blocks, 1, n, 1, false};
    isa_best()->dequantize(&a, 0, blocks_of(n), 0);
}

/* To blocks again, one by one, or to elements. */
static void reduce_quantized(enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                             float factor, int64_t elems, bool accumulate)
{
    struct dequantize_args a = {to, dtype, destination, sources, count, elems, factor, accumulate};
    float sum[QUANT_BLOCK];
    struct quantize_error error = {0};
    if (!dtype_is_quantized(to)) {
        isa_best()->dequantize(&a, 0, blocks_of(elems), 0);
        return;
    }
    for (int64_t first = 0; first < elems; first += QUANT_BLOCK) {
        const void *here[count];
        const int64_t n = elems - first < QUANT_BLOCK ? elems - first : QUANT_BLOCK;
        for (int s = 0; s < count; s++) here[s] = (const char *)sources[s] + dtype_array_bytes(dtype, first);
        a = (struct dequantize_args){DTYPE_F32, dtype, sum, here, count, n, factor, false};
        isa_best()->dequantize(&a, 0, 1, 0);
        kernels_quantize(to, (char *)destination + dtype_array_bytes(to, first), DTYPE_F32, sum, n, NULL, &error);
    }
}

void kernels_reduce(enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                    const struct reduce_factors *factors, int64_t elems, bool accumulate)
{
    if (dtype_is_quantized(dtype)) {
        reduce_quantized(dtype, to, destination, sources, count, factors->after, elems, accumulate);
        return;
    }
    const struct reduce_args a = {dtype, to, destination, sources, count, *factors, accumulate};
    isa_best()->reduce(&a, 0, elems, 0);
}

static void cpu_mean_to(struct kernels *kernels, float *mean, const float *x, int64_t n)
{
    (void)kernels;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    *mean = (float)(sum / (double)n);
}

/* Everything has ended, and well, when a call returns. */
static int cpu_check(struct kernels *kernels, struct error *err)
{
    (void)kernels, (void)err;
    return STATUS_OK;
}

static void cpu_free(struct kernels *kernels)
{
    products_free(cpu_of(kernels)->products);
    free(kernels);
}

static const struct backend cpu_backend = {
    .free = cpu_free,
    .check = cpu_check,
    .native_products = cpu_native_products,
#define KERNEL(type, name, parameters, arguments) .name = cpu_##name,
#include "kernels/kernels.def"
#undef KERNEL
};

int kernels_create(struct kernels **out, int threads, const char *isa, struct error *err)
{
    const struct isa *chosen = isa ? isa_named(isa) : isa_best();
    if (!chosen)
        return error_set(err, STATUS_USAGE,
                         "instruction set \"%s\" is not here; use avx512, avx2 or plain as the processor allows", isa);
    if (threads < 1) return error_set(err, STATUS_USAGE, "%d threads per rank; use 1 or more", threads);
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return error_set(err, STATUS_RUN, "no memory for the kernels");
    cpu->base = (struct kernels){&cpu_backend, threads, chosen->name};
    cpu->isa = chosen;
    int status = products_create(&cpu->products, threads, chosen == &isa_avx512, err);
    if (status) {
        cpu_free(&cpu->base);
        return status;
    }
    *out = &cpu->base;
    return STATUS_OK;
}
