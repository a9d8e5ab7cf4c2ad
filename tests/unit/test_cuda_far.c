/* What lies far apart, or is many: elements beyond the 2^31st of an array, where a product of two ints would have turned around, and
 * more sequences and heads than a grid has rows. Arrays are addresses, of which only the pages that are touched have memory: a kernel
 * that computes another place touches none, and fails. */
#include "tests/support/gpu_check.h"

static void reserve(const struct gpu *gpu, struct device_range *range, int64_t bytes)
{
    struct error err;
    if (device_range_reserve(range, gpu->device, (uint64_t)bytes, &err)) gpu_die(&err);
}

/* The element, having made sure that so many from there on have memory. */
static void *place(const struct gpu *gpu, struct device_range *range, enum dtype dtype, int64_t element, int64_t elems)
{
    const uint64_t page = device_info(gpu->device)->granularity;
    const uint64_t from = (uint64_t)(element * dtype_bytes(dtype)), to = from + (uint64_t)(elems * dtype_bytes(dtype));
    struct error err;
    if (device_range_commit(range, from / page * page, (to + page - 1) / page * page, &err)) gpu_die(&err);
    return range->base + from;
}

static void put(const struct gpu *gpu, void *at, const void *from, uint64_t bytes)
{
    struct error err;
    if (device_copy(gpu->stream, at, from, bytes, &err)) gpu_die(&err);
}

static void expect_bits(const struct gpu *gpu, const void *at, const void *expected, int64_t bytes, const char *what)
{
    struct error err;
    char *found = malloc((size_t)bytes);
    if (device_copy(gpu->stream, found, at, (uint64_t)bytes, &err)) gpu_die(&err);
    gpu_wait(gpu);
    if (memcmp(found, expected, (size_t)bytes)) fault("%s: other bits than the CPU's", what);
    free(found);
}

static void fill(enum dtype dtype, void *array, int64_t n, uint64_t number)
{
    for (int64_t i = 0; i < n; i++) element_put(dtype, array, i, array_number((number + 1) << 40 | (uint64_t)i));
}

static const enum dtype BF = DTYPE_BF16;
static const int64_t FAR = (int64_t)1 << 31; /* elements */

/* ---- rows of logits --------------------------------------------------------------------------------------------------------- */

enum { ROWS = 3, VOCABULARY = 523 };
static const int64_t ROW = FAR / 2 + 8; /* the last of three rows begins beyond FAR */

static void logits(struct gpu *gpu)
{
    static const int32_t targets[ROWS] = {0, 521, 522};
    static uint16_t rows[ROWS * VOCABULARY];
    struct device_range range, others;
    struct error err;
    float losses[ROWS], *losses_there;
    int32_t *targets_there;
    reserve(gpu, &range, ROWS * ROW * 2);
    reserve(gpu, &others, 1 << 20);
    char *base = place(gpu, &others, BF, 0, 1 << 19);
    targets_there = (int32_t *)base, losses_there = (float *)(base + 4096);
    fill(BF, rows, ROWS * VOCABULARY, 1);
    put(gpu, targets_there, targets, sizeof targets);
    for (int n = 0; n < ROWS; n++)
        put(gpu, place(gpu, &range, BF, n * ROW, VOCABULARY), rows + n * VOCABULARY, VOCABULARY * 2);
    kernels_loss(gpu->kernels, BF, losses_there, range.base, targets_there, 0.5f, ROWS, VOCABULARY, ROW);
    kernels_loss(gpu->reference, BF, losses, rows, targets, 0.5f, ROWS, VOCABULARY, VOCABULARY);
    checked(kernels_check(gpu->kernels, &err), &err);
    float found[ROWS];
    uint16_t gradient[VOCABULARY];
    put(gpu, found, losses_there, sizeof found);
    gpu_wait(gpu);
    for (int n = 0; n < ROWS; n++) {
        if (!(fabsf(found[n] - losses[n]) < 1e-4f)) fault("loss %d is %g, the CPU's %g", n, found[n], losses[n]);
        put(gpu, gradient, (uint16_t *)range.base + n * ROW, sizeof gradient);
        gpu_wait(gpu);
        for (int v = 0; v < VOCABULARY; v++) {
            const double g = element_at(BF, gradient, v), e = element_at(BF, rows, n * VOCABULARY + v);
            if (!(fabs(g - e) <= 0.02 * fabs(e))) fault("row %d, gradient %d: %g, the CPU's %g", n, v, g, e);
        }
    }
    device_range_release(&range), device_range_release(&others);
    tested("loss of rows that lie 2^30 elements apart");
}

/* ---- rows of the table of tokens ---------------------------------------------------------------------------------------------- */

enum { WIDE = 4096, TOKENS = 4, FIRST_TOKEN = 5, LAST_TOKEN = (1 << 20) + 1 };

/* WIDE x LAST_TOKEN in 32 bits, with a sign or without, is where token 1 begins: a page has memory there, because the first token
 * lies on it or on the next ones, but not what the last token holds. */
static void tokens(struct gpu *gpu)
{
    static const int32_t there[TOKENS] = {LAST_TOKEN, FIRST_TOKEN, LAST_TOKEN, LAST_TOKEN}, here[TOKENS] = {1, 0, 1, 1};
    static uint16_t table[2 * WIDE], positions[TOKENS * WIDE], x[TOKENS * WIDE];
    static char scratch[1 << 20]; /* more than either side needs */
    struct device_range range, others;
    struct error err;
    reserve(gpu, &range, ((int64_t)LAST_TOKEN + 1) * WIDE * 2);
    reserve(gpu, &others, 4 << 20);
    char *base = place(gpu, &others, BF, 0, 2 << 20), *positions_there = base + sizeof scratch,
         *x_there = base + 2 * sizeof scratch, *tokens_there = base + 3 * sizeof scratch;
    char *first = place(gpu, &range, BF, (int64_t)FIRST_TOKEN * WIDE, WIDE),
         *last = place(gpu, &range, BF, (int64_t)LAST_TOKEN * WIDE, WIDE);
    fill(BF, table, 2 * WIDE, 1), fill(BF, positions, TOKENS * WIDE, 2);
    put(gpu, first, table, WIDE * 2), put(gpu, last, table + WIDE, WIDE * 2);
    put(gpu, positions_there, positions, sizeof positions), put(gpu, tokens_there, there, sizeof there);
    kernels_embed_forward(gpu->kernels, BF, x_there, range.base, positions_there, (int32_t *)tokens_there, TOKENS,
                          TOKENS, WIDE);
    kernels_embed_forward(gpu->reference, BF, x, table, positions, here, TOKENS, TOKENS, WIDE);
    expect_bits(gpu, x_there, x, sizeof x, "embed_forward");
    kernels_embed_backward_tokens(gpu->kernels, BF, range.base, x_there, (int32_t *)tokens_there, TOKENS, WIDE, base);
    kernels_embed_backward_tokens(gpu->reference, BF, table, x, here, TOKENS, WIDE, scratch);
    expect_bits(gpu, first, table, WIDE * 2, "embed_backward_tokens, the first token");
    expect_bits(gpu, last, table + WIDE, WIDE * 2, "embed_backward_tokens, the last token");
    checked(kernels_check(gpu->kernels, &err), &err);
    device_range_release(&range), device_range_release(&others);
    tested("embedding of a token that begins beyond 2^32 elements");
}

/* ---- sequences ------------------------------------------------------------------------------------------------------------------ */

/* B sequences of one token each, which sees itself: what comes out is v, whose gradient is that of what came out; q and k have
 * none. qkv and dqkv [B, 3, C]; out and dout [B, C]. */
static void expect_own(const struct array *qkv, const struct array *dqkv, const struct array *out,
                       const struct array *dout, const struct attention_shape *shape)
{
    const enum dtype dtype = qkv->dtype;
    const int64_t C = shape->C;
    const double near = dtype == DTYPE_F32 ? 1e-6 : 0.01, near_dv = dtype == DTYPE_F32 ? 1e-5 : 0.01;
    for (int64_t i = 0; i < shape->B * C; i++) {
        const int64_t of_q = i / C * 3 * C + i % C, of_v = of_q + 2 * C;
        const double v = element_at(dtype, qkv->host, of_v), y = element_at(dtype, out->host, i),
                     dy = element_at(dtype, dout->host, i), dv = element_at(dtype, dqkv->host, of_v),
                     dq = element_at(dtype, dqkv->host, of_q), dk = element_at(dtype, dqkv->host, of_q + C);
        if (!(fabs(y - v) < near && fabs(dv - dy) < near_dv && fabs(dq) < 1e-3 && fabs(dk) < 1e-3))
            fault("sequence %lld, channel %lld: %g for %g, dv %g for %g, dq %g, dk %g", (long long)(i / C),
                  (long long)(i % C), y, v, dv, dy, dq, dk);
    }
}

/* More pairs of a sequence and a head than 65,535, which is how far a grid goes in its second direction. */
static void sequences(struct gpu *gpu, enum dtype dtype, int NH, int size, const char *kernel)
{
    const int B = 66000 / NH, C = NH * size;
    const struct attention_shape shape = {B, 1, C, NH};
    const int64_t N = B, pairs = N * NH;
    struct array qkv, out, lse, dqkv, dout, delta;
    struct error err;
    array_new(gpu, &qkv, dtype, 3 * N * C, 0), array_new(gpu, &out, dtype, N * C, 0);
    array_new(gpu, &dqkv, dtype, 3 * N * C, 0), array_new(gpu, &dout, dtype, N * C, 0);
    array_new(gpu, &lse, DTYPE_F32, pairs, 0), array_new(gpu, &delta, DTYPE_F32, pairs, 0);
    array_normal(&qkv, 1, 1), array_normal(&dout, 2, 1);
    array_begin(gpu, &qkv), array_begin(gpu, &dout);
    kernels_attention_forward(gpu->kernels, dtype, out.device, (float *)lse.device, qkv.device, &shape, delta.device);
    kernels_attention_backward(gpu->kernels, dtype, dqkv.device, dout.device, out.device, (float *)lse.device,
                               qkv.device, &shape, delta.device);
    checked(kernels_check(gpu->kernels, &err), &err);
    array_read(gpu, &out, out.host), array_read(gpu, &dqkv, dqkv.host);
    gpu_wait(gpu);
    expect_own(&qkv, &dqkv, &out, &dout, &shape);
    array_free(&qkv), array_free(&out), array_free(&lse), array_free(&dqkv), array_free(&dout), array_free(&delta);
    tested("attention, %s: %d sequences of %d heads of %d", kernel, B, NH, size);
}

int main(void)
{
    struct gpu gpu;
    if (!gpu_open(&gpu)) return 0;
    logits(&gpu);
    tokens(&gpu);
    sequences(&gpu, DTYPE_F32, 1, 4, "in fp32");
    if (!gpu_is_fake()) { /* the processor would take minutes */
        sequences(&gpu, BF, 2, 8, "by warps");
        if (kernels_cuda_groups(gpu.kernels, true)) sequences(&gpu, BF, 2, 40, "by warpgroups");
    }
    gpu_close(&gpu);
    return tests_end();
}
