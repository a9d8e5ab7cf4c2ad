/* What a step's kernels take: every kernel that a step of gpt2 has (T = 1024, one rank, stage 0), how often, how long it takes, and
 * its floor: the bytes it must move at the rate of a plain copy on the same GPU, or its multiplications at that of the best matrix
 * product, whichever is longer. A median of runs, timed by events, each of several launches one after the other, over arrays
 * larger than the second cache, which are filled anew for each kernel.
 *
 *     bench_cuda_kernels [B]         sequences of a step: 64, as the engine is measured
 *     bench_cuda_kernels broken      with one product of what no product should get, and areas with what no kernel should leave, which
 *                                    must be seen: exit status 1 */
#include "kernels/scratch.h"
#include "tests/support/gpu_bench.h"

/* at[0] to at[5]: bf16; at[6], at[7]: tokens and scratch; the others: fp32, for means, sums and the optimizer. */
enum { TOKENS = 6, SCRATCH, FLOATS, MORE_FLOATS, POSITIVE, AREAS };

struct bench {
    struct bench_gpu gpu;
    struct area areas[AREAS];
    int64_t L, B, T, C, NH, V, row; /* row: of logits */
    int64_t out, in;                /* of the product that is measured now */
    double copy_rate, product_rate; /* bytes and multiply-adds x 2 per second */
    int not_finite;                 /* rows that left something behind that is no number */
};

typedef void run_fn(const struct bench *b, char *const *at);

struct call {
    const struct bench *b;
    run_fn *run;
    char *const *at;
};

static void call_run(void *user)
{
    const struct call *call = user;
    call->run(call->b, call->at);
}

/* Of a run on fresh areas. *finite: what it left behind is. */
static double seconds_of(struct bench *b, run_fn *run, char *const *at, bool *finite)
{
    struct call call = {b, run, at};
    areas_fill(&b->gpu, b->areas, AREAS);
    const double seconds = bench_seconds(&b->gpu, call_run, &call);
    *finite = areas_are_finite(&b->gpu, b->areas, AREAS);
    return seconds;
}

#define K         b->gpu.gpu.kernels
#define N         (b->B * b->T)
#define BF        DTYPE_BF16
#define RUN(name) static void name(const struct bench *b, char *const *at)

RUN(run_copy)
{
    struct error err;
    must(device_copy(b->gpu.gpu.stream, at[0], at[1], (uint64_t)(N * 4 * b->C * 2), &err), &err);
}
/* Products of b->out by b->in: wide arrays are at[0], narrow ones at[1] or at[5], the weight at[2]. */
RUN(run_linear)
{
    struct error err;
    must(kernels_linear_forward(K, BF, at[0], at[1], at[2], at[3], NULL, N, b->out, b->in, b->out, &err), &err);
}
RUN(run_linear_residual)
{
    struct error err;
    must(kernels_linear_forward(K, BF, at[1], at[0], at[2], at[3], at[5], N, b->out, b->in, b->out, &err), &err);
}
RUN(run_linear_input)
{
    struct error err;
    must(kernels_linear_backward_input(K, BF, at[1], false, at[0], at[2], N, b->out, b->in, b->out, &err), &err);
}
RUN(run_linear_weight)
{
    struct error err;
    must(kernels_linear_backward_weight(K, BF, at[2], false, at[0], at[1], N, b->out, b->in, b->out, &err), &err);
}
/* The engine's rows of logits, which are wider than the vocabulary; then dense ones, to see what that is worth. */
RUN(run_head)
{
    struct error err;
    must(kernels_linear_forward(K, BF, at[0], at[1], at[2], NULL, NULL, N, b->V, b->C, b->row, &err), &err);
}
RUN(run_head_dense)
{
    struct error err;
    must(kernels_linear_forward(K, BF, at[0], at[1], at[2], NULL, NULL, N, b->V, b->C, b->V, &err), &err);
}
RUN(run_head_input)
{
    struct error err;
    must(kernels_linear_backward_input(K, BF, at[1], false, at[0], at[2], N, b->V, b->C, b->row, &err), &err);
}
RUN(run_head_weight)
{
    struct error err;
    must(kernels_linear_backward_weight(K, BF, at[2], false, at[0], at[1], N, b->V, b->C, b->row, &err), &err);
}
/* GELU as part of a product, and beside it. */
RUN(run_fc_gelu)
{
    struct error err;
    must(kernels_linear_gelu_forward(K, BF, at[0], at[4], at[1], at[2], at[3], N, 4 * b->C, b->C, &err), &err);
}
RUN(run_fc_then_gelu)
{
    struct error err;
    must(kernels_linear_forward(K, BF, at[4], at[1], at[2], at[3], NULL, N, 4 * b->C, b->C, 4 * b->C, &err), &err);
    kernels_gelu_forward(K, BF, at[0], at[4], N * 4 * b->C);
}
RUN(run_proj_gelu)
{
    struct error err;
    must(kernels_linear_gelu_backward(K, BF, at[0], at[1], at[2], at[4], N, b->C, 4 * b->C, &err), &err);
}
RUN(run_proj_then_gelu)
{
    struct error err;
    must(kernels_linear_backward_input(K, BF, at[0], false, at[1], at[2], N, b->C, 4 * b->C, b->C, &err), &err);
    kernels_gelu_backward(K, BF, at[0], at[0], at[4], N * 4 * b->C);
}
RUN(run_square)
{
    struct error err;
    must(kernels_linear_forward(K, BF, at[0], at[1], at[2], NULL, NULL, 8192, 8192, 8192, 8192, &err), &err);
}
/* Means in fp32 as a weight: what this bench once did, and what its check must see. */
RUN(run_broken)
{
    struct error err;
    must(device_set(b->gpu.gpu.stream, at[FLOATS], 0xff, 4096, &err), &err);
    must(kernels_linear_forward(K, BF, at[0], at[1], at[FLOATS], at[3], NULL, N, b->out, b->in, b->out, &err), &err);
}
RUN(run_bias)
{
    kernels_linear_backward_bias(K, BF, at[2], false, at[0], N, b->out);
}
RUN(run_norm)
{
    kernels_norm_forward(K, BF, at[0], (float *)at[FLOATS], (float *)at[MORE_FLOATS], at[1], at[4], at[4], N, b->C);
}
RUN(run_norm_backward)
{
    kernels_norm_backward(K, BF, at[0], true, at[1], at[4], (float *)at[FLOATS], (float *)at[MORE_FLOATS], at[5], N,
                          b->C);
}
RUN(run_norm_weights)
{
    kernels_norm_backward_weights(K, BF, at[5], at[5] + 65536, true, at[1], at[4], (float *)at[FLOATS],
                                  (float *)at[MORE_FLOATS], N, b->C);
}
static void norm_backward_both(const struct bench *b, char *const *at, void *dsum)
{
    kernels_norm_backward_both(K, BF, at[0], true, at[5], at[5] + 65536, dsum, true, at[1], at[4], (float *)at[FLOATS],
                               (float *)at[MORE_FLOATS], at[5] + 131072, N, b->C);
}
RUN(run_norm_both)
{
    norm_backward_both(b, at, NULL);
}
/* With the gradient of the bias before a block's second norm. */
RUN(run_norm_both_bias)
{
    norm_backward_both(b, at, at[5] + 196608);
}
RUN(run_gelu)
{
    kernels_gelu_forward(K, BF, at[0], at[1], N * 4 * b->C);
}
RUN(run_gelu_backward)
{
    kernels_gelu_backward(K, BF, at[0], at[0], at[1], N * 4 * b->C);
}
RUN(run_attention)
{
    const struct attention_shape shape = {(int)b->B, (int)b->T, (int)b->C, (int)b->NH};
    kernels_attention_forward(K, BF, at[1], (float *)at[FLOATS], at[0], &shape, at[SCRATCH]);
}
RUN(run_attention_backward)
{
    const struct attention_shape shape = {(int)b->B, (int)b->T, (int)b->C, (int)b->NH};
    kernels_attention_backward(K, BF, at[4], at[5], at[1], (float *)at[FLOATS], at[0], &shape, at[SCRATCH]);
}
/* By warps, where warpgroups would do it. */
RUN(run_attention_warps)
{
    kernels_cuda_groups(K, false);
    run_attention(b, at);
    kernels_cuda_groups(K, true);
}
RUN(run_attention_backward_warps)
{
    kernels_cuda_groups(K, false);
    run_attention_backward(b, at);
    kernels_cuda_groups(K, true);
}
RUN(run_embed)
{
    kernels_embed_forward(K, BF, at[0], at[1], at[2], (int32_t *)at[TOKENS], N, b->T, b->C);
}
RUN(run_embed_tokens)
{
    kernels_embed_backward_tokens(K, BF, at[1], at[0], (int32_t *)at[TOKENS], N, b->C, at[SCRATCH]);
}
RUN(run_embed_positions)
{
    kernels_embed_backward_positions(K, BF, at[2], true, at[0], b->T, N, b->T, b->C);
}
RUN(run_loss)
{
    kernels_loss(K, BF, (float *)at[FLOATS], at[0], (int32_t *)at[TOKENS], 1.0f / (float)N, N, b->V, b->row);
}
RUN(run_update)
{
    const struct update_factors f = {1, 0, 0.999f, 0.9f, 0.1f, 0.95f, 0.05f, 1e-4f, 1, 1e-8f, false};
    const struct update_arrays arrays = {
        at[1], (float *)at[FLOATS], {(float *)at[MORE_FLOATS], (float *)at[POSITIVE]}, at[4]};
    kernels_update(K, OPTIMIZER_ADAMW, &f, BF, BF, &arrays, b->V * b->C);
}
RUN(run_squares)
{
    kernels_sum_squares_to(K, BF, b->gpu.sum, at[0], N * 4 * b->C);
}
RUN(run_add)
{
    kernels_add(K, DTYPE_F32, at[FLOATS], true, BF, at[1], N * b->C);
}
RUN(run_reduce)
{
    const void *const sources[4] = {at[0], at[1], at[2], at[3]};
    struct error err;
    must(device_reduce(b->gpu.gpu.stream, BF, BF, at[4], sources, 4, &(struct reduce_factors){1, 0.25f}, N * b->C,
                       false, &err),
         &err);
}

/* times: how often a step of one rank at stage 0 has it; 0: not, it is here to be compared. bytes: what must be read and written,
 * operations: of products; both of one run, of b's shape. out, in: in units of C, of products that are given them. */
struct row {
    const char *name;
    run_fn *run;
    double times, bytes, operations;
    int out, in;
};

/* The least time it could take, by what a copy and a product reached in this run. */
static double floor_of(const struct bench *b, const struct row *row)
{
    return fmax(row->bytes / b->copy_rate, row->operations / b->product_rate);
}

/* What is measured, and of a step's share of it: the time, and the floor. */
struct step {
    double seconds, floor;
};

static void print_row(struct bench *b, const struct row *row, char *const *at, struct step *step)
{
    b->out = row->out * b->C, b->in = row->in * b->C;
    bool finite;
    const double seconds = seconds_of(b, row->run, at, &finite), least = floor_of(b, row);
    const bool arithmetic = row->operations / b->product_rate > row->bytes / b->copy_rate;
    printf("  %-28s %9.3f ms %9.3f %s %5.2f  ", row->name, seconds * 1e3, least * 1e3, arithmetic ? "o" : "b",
           least / seconds);
    if (row->operations > 0) printf("%6.1f TFLOP/s", row->operations / seconds * 1e-12);
    else printf("%6.0f GB/s   ", row->bytes / seconds * 1e-9);
    if (row->times > 0) printf("  %6.1f x = %8.3f ms", row->times, row->times * seconds * 1e3);
    printf("%s\n", finite ? "" : "  NOT FINITE");
    fflush(stdout);
    b->not_finite += !finite;
    step->seconds += row->times * seconds, step->floor += row->times * least;
}

static void print_rows(struct bench *b, char *const *at, bool broken)
{
    const double n = (double)N, c = (double)b->C, v = (double)b->V, nc = n * c, half = (double)b->T / 2,
                 L = (double)b->L;
    const double u = nc * 2, w = c * c * 2,
                 square = 2 * nc * c; /* rows of C in bytes, a weight of C by C, and their product */
    const double parameters = L * (12 * c * c + 13 * c) + (v + (double)b->T + 2) * c;
    const struct row table[] = {
        {"embed forward", run_embed, 1, 2 * u, 0, 0, 0},
        {"norm forward", run_norm, 2 * L + 1, 2 * u, 0, 0, 0},
        {"qkv forward", run_linear, L, 4 * u + 3 * w, 3 * square, 3, 1},
        {"attention forward", run_attention, L, 4 * u, 4 * nc * half, 0, 0},
        {"attention proj, residual", run_linear_residual, L, 3 * u + w, square, 1, 1},
        {"fc forward, GELU in it", run_fc_gelu, L, 9 * u + 4 * w, 4 * square, 0, 0},
        {"proj forward, residual", run_linear_residual, L, 6 * u + 4 * w, 4 * square, 1, 4},
        {"head forward", run_head, 1, u + (n + c) * v * 2, 2 * nc * v, 0, 0},
        {"loss and its gradient", run_loss, 1, 2 * n * v * 2, 0, 0, 0},
        {"head backward, weight", run_head_weight, 1, u + (n + c) * v * 2, 2 * nc * v, 0, 0},
        {"head backward, input", run_head_input, 1, u + (n + c) * v * 2, 2 * nc * v, 0, 0},
        {"norm backward, all at once", run_norm_both, L + 1, 4 * u, 0, 0, 0},
        {"norm backward, and a bias", run_norm_both_bias, L, 4 * u, 0, 0, 0},
        {"proj backward, bias", run_bias, L, u, 0, 1, 0},
        {"proj backward, weight", run_linear_weight, L, 5 * u + 4 * w, 4 * square, 1, 4},
        {"proj backward, GELU in it", run_proj_gelu, L, 9 * u + 4 * w, 4 * square, 0, 0},
        {"fc backward, bias", run_bias, L, 4 * u, 0, 4, 0},
        {"fc backward, weight", run_linear_weight, L, 5 * u + 4 * w, 4 * square, 4, 1},
        {"fc backward, input", run_linear_input, L, 5 * u + 4 * w, 4 * square, 4, 1},
        {"attention proj, weight", run_linear_weight, L, 2 * u + w, square, 1, 1},
        {"attention proj, input", run_linear_input, L, 2 * u + w, square, 1, 1},
        {"attention backward", run_attention_backward, L, 8 * u, 10 * nc * half, 0, 0},
        {"qkv backward, bias", run_bias, L, 3 * u, 0, 3, 0},
        {"qkv backward, weight", run_linear_weight, L, 4 * u + 3 * w, 3 * square, 3, 1},
        {"qkv backward, input", run_linear_input, L, 4 * u + 3 * w, 3 * square, 3, 1},
        {"embed backward, tokens", run_embed_tokens, 1, u, 0, 0, 0},
        {"embed backward, positions", run_embed_positions, 1, u, 0, 0, 0},
        {"sum of squares", run_squares, parameters / (4 * nc), 4 * u, 0, 0, 0},
        {"update, AdamW", run_update, parameters / (v * c), v * c * (2 + 3 * 8 + 2), 0, 0, 0},
    };
    const struct row others[] = {
        {"head forward, dense rows", run_head_dense, 0, u + (n + c) * v * 2, 2 * nc * v, 0, 0},
        {"fc forward, GELU after it", run_fc_then_gelu, 0, 9 * u + 4 * w, 4 * square, 0, 0},
        {"proj backward, GELU after it", run_proj_then_gelu, 0, 9 * u + 4 * w, 4 * square, 0, 0},
        {"attention forward, by warps", run_attention_warps, 0, 4 * u, 4 * nc * half, 0, 0},
        {"attention backward, by warps", run_attention_backward_warps, 0, 8 * u, 10 * nc * half, 0, 0},
        {"norm backward, added", run_norm_backward, 0, 4 * u, 0, 0, 0},
        {"norm backward, weights", run_norm_weights, 0, 2 * u, 0, 0, 0},
        {"gelu forward", run_gelu, 0, 2 * 4 * u, 0, 0, 0},
        {"gelu backward", run_gelu_backward, 0, 3 * 4 * u, 0, 0, 0},
        {"add, bf16 to fp32", run_add, 0, nc * (2 + 8), 0, 0, 0},
        {"reduce, 4 sources", run_reduce, 0, nc * 2 * 5, 0, 0, 0},
        {"broken", run_broken, 0, 4 * u + 3 * w, 3 * square, 3, 1},
    };
    const int other_rows = (int)(sizeof others / sizeof *others) - !broken;
    struct step step = {0, 0};
    printf("  %-28s %12s %9s %7s %15s\n", "in a step of gpt2, one rank", "time", "floor", "share", "rate");
    for (int r = 0; r < (int)(sizeof table / sizeof *table); r++) print_row(b, &table[r], at, &step);
    printf("  a step of %.0f tokens: its kernels %.2f ms, their floors (o: by operations, b: by bytes) %.2f ms\n", n,
           step.seconds * 1e3, step.floor * 1e3);
    printf("  to compare with\n");
    for (int r = 0; r < other_rows; r++) print_row(b, &others[r], at, &step);
}

/* As text has them: the first some six in a hundred, the n-th a n-th of that. */
static int32_t token_of(const struct bench *b, int64_t i)
{
    const double u = (double)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u >> 11) * 0x1p-53;
    return (int32_t)(exp(u * log((double)b->V)) - 1);
}

static void tokens_fill(struct bench *b, char *at)
{
    struct error err;
    int32_t *host = malloc((size_t)N * 4);
    if (!host) exit(1);
    for (int64_t i = 0; i < N; i++) host[i] = token_of(b, i);
    must(device_copy(b->gpu.gpu.stream, at, host, (uint64_t)N * 4, &err), &err);
    gpu_wait(&b->gpu.gpu);
    free(host);
}

/* Only the first holds logits; any other may hold the widest rows, a weight of the output layer, or a square of 8192. */
static void areas_size(struct bench *b, bool fake)
{
    const int64_t rows = N * 4 * b->C * 2, table = b->V * b->C * 4, square = fake ? 0 : 8192 * 8192 * 2;
    int64_t bytes = 262144; /* sums that lie beside each other in at[5] */
    if (bytes < rows) bytes = rows;
    if (bytes < table) bytes = table;
    if (bytes < square) bytes = square;
    for (int a = 0; a < AREAS; a++)
        b->areas[a] = (struct area){a < TOKENS ? AREA_BF16 : a < FLOATS ? AREA_OWN : AREA_FLOATS, bytes, NULL};
    b->areas[POSITIVE].kind = AREA_POSITIVE;
    if (b->areas[0].bytes < N * b->row * 2) b->areas[0].bytes = N * b->row * 2;
}

/* What everything is compared with. */
static void rates(struct bench *b, char *const *at)
{
    bool finite;
    b->copy_rate = 2.0 * (double)N * 4 * (double)b->C * 2 / seconds_of(b, run_copy, at, &finite);
    b->product_rate = gpu_is_fake() ? INFINITY : 2.0 * 8192 * 8192 * 8192 / seconds_of(b, run_square, at, &finite);
    printf("  a copy on the GPU moves %.0f GB/s, read and written; the best product (8192 cubed, bf16) reaches %.1f "
           "TFLOP/s\n",
           b->copy_rate * 1e-9, b->product_rate * 1e-12);
}

/* Plants what is no number at the end of each area in turn. */
static void areas_break(struct bench *b)
{
    struct error err;
    uint32_t nan[64];
    int seen = 0;
    memset(nan, 0xff, sizeof nan);
    for (int a = 0; a < AREAS; a++) {
        if (b->areas[a].kind == AREA_OWN) continue;
        areas_fill(&b->gpu, b->areas, AREAS);
        must(device_copy(b->gpu.gpu.stream, b->areas[a].at + b->areas[a].bytes - sizeof nan, nan, sizeof nan, &err), &err);
        gpu_wait(&b->gpu.gpu);
        seen += !areas_are_finite(&b->gpu, b->areas, AREAS);
    }
    printf("  seen at the end of %d of %d areas\n", seen, AREAS - (FLOATS - TOKENS));
}

int main(int argc, char **argv)
{
    const bool broken = argc > 1 && strcmp(argv[1], "broken") == 0;
    const int64_t wanted = argc > 1 ? atoi(argv[1]) : 0;
    struct bench bench =
                     {.L = 12, .B = wanted > 0 ? wanted : 64, .T = 1024, .C = 768, .NH = 12, .V = 50257, .row = 50304},
                 *b = &bench;
    char *at[AREAS];
    if (gpu_is_fake())
        b->L = 2, b->B = 1, b->T = 64, b->C = 64, b->NH = 1, b->V = 500,
        b->row = 512; /* figures of nothing: that it runs */
    areas_size(b, gpu_is_fake());
    if (!bench_open(&b->gpu, b->areas, AREAS)) return 0;
    for (int a = 0; a < AREAS; a++) at[a] = b->areas[a].at;
    tokens_fill(b, at[TOKENS]);
    rates(b, at);
    print_rows(b, at, broken);
    if (broken) areas_break(b);
    if (b->not_finite)
        printf("  of %d kernels the results are no numbers, and their times mean nothing\n", b->not_finite);
    bench_close(&b->gpu);
    return b->not_finite > 0;
}
