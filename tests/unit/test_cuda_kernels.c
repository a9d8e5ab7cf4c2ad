/* Every kernel of the GPU against the CPU's, over shapes, odd ones too, and types: to within rounding, or bit for bit where kernels.h
 * fixes the order; and against itself: a second run, on the fake device with threads in another order, must give the same bits. The
 * other orders (backward, random) take turns there; FULL=1 has each of them everywhere.
 * What a kernel only reads must be as it was.
 *
 *     test_cuda_kernels [NAME [small]]     operations whose name begins so; on small shapes alone
 *     test_cuda_kernels --list             their names
 *
 * The operations "broken ..." are about this program: they fail, each in its own way, and run only when named. */
#include "kernels/scratch.h"
#include "tests/support/effort.h"
#include "tests/support/gpu_apart.h"

struct shape {
    int B, T, C, NH, O, V, shift;
}; /* N = B T rows; O: outputs of a linear layer; shift: bytes off alignment */

/* How many elements an operand has. */
enum size {
    SIZE_END,
    SIZE_N,
    SIZE_C,
    SIZE_O,
    SIZE_NC,
    SIZE_NO,
    SIZE_OC,
    SIZE_VC,
    SIZE_TC,
    SIZE_LONG_TC,
    SIZE_NV,
    SIZE_NR,
    SIZE_3NC,
    SIZE_LSE,
    SIZE_DELTA,
    SIZE_SORT,
    SIZE_ONE
};
enum kind { READ, WRITE, CHANGE }; /* WRITE: what it held does not matter */
enum type { OF_DTYPE, SUM /* of its type; something is added to a product */, FLOATS, TOKENS };

struct operand {
    enum size size;
    enum kind kind;
    enum type type;
    float scale;
};

struct operation {
    const char *name;
    void (*run)(struct kernels *kernels, enum dtype dtype, const struct shape *s, void *const *at);
    double ulps; /* how many units of its type the result may be away, over all elements; 0: the same bits */
    struct operand operands[9];
};

/* Of logits: rows that begin on a border, and a rest that nobody may touch. */
static int64_t row_of(const struct shape *s)
{
    return (s->V + 8) / 8 * 8;
}

static int64_t elems_of(enum size size, const struct shape *s)
{
    const int64_t N = (int64_t)s->B * s->T, C = s->C;
    switch (size) {
    case SIZE_N: return N;
    case SIZE_C: return C;
    case SIZE_O: return s->O;
    case SIZE_NC: return N * C;
    case SIZE_NO: return N * s->O;
    case SIZE_OC: return s->O * C;
    case SIZE_VC: return s->V * C;
    case SIZE_TC: return s->T * C;
    case SIZE_LONG_TC: return (s->T + 3) * C;
    case SIZE_NV: return N * s->V;
    case SIZE_NR: return N * row_of(s);
    case SIZE_3NC: return 3 * N * C;
    case SIZE_LSE: return N * s->NH;
    case SIZE_DELTA: return gpu_attention_scratch_elems(s->B, s->T, C, s->NH);
    case SIZE_SORT: return embed_scratch_cuda_bytes(N) / 4 + 1;
    case SIZE_ONE: return 1;
    case SIZE_END: break;
    }
    return 0;
}

/* How long the rows are that an operand consists of. */
static int64_t columns_of(enum size size, const struct shape *s)
{
    switch (size) {
    case SIZE_NC:
    case SIZE_OC:
    case SIZE_VC:
    case SIZE_TC:
    case SIZE_LONG_TC: return s->C;
    case SIZE_3NC: return 3 * s->C;
    case SIZE_NO: return s->O;
    case SIZE_NV: return s->V;
    case SIZE_NR: return row_of(s);
    case SIZE_LSE: return s->T;
    default: return elems_of(size, s);
    }
}

#define RUN(name) static void name(struct kernels *k, enum dtype dtype, const struct shape *s, void *const *at)
#define N_OF(s)   ((int64_t)(s)->B * (s)->T)

RUN(run_linear)
{
    struct error err;
    checked(kernels_linear_forward(k, dtype, at[0], at[1], at[2], at[3], at[4], N_OF(s), s->O, s->C, s->O, &err), &err);
}
RUN(run_linear_plain)
{
    struct error err;
    checked(kernels_linear_forward(k, dtype, at[0], at[1], at[2], NULL, NULL, N_OF(s), s->O, s->C, s->O, &err), &err);
}
RUN(run_linear_input)
{
    struct error err;
    checked(kernels_linear_backward_input(k, dtype, at[0], false, at[1], at[2], N_OF(s), s->O, s->C, s->O, &err), &err);
}
RUN(run_linear_added_to)
{
    struct error err;
    checked(kernels_linear_forward(k, dtype, at[0], at[1], at[2], NULL, at[0], N_OF(s), s->O, s->C, s->O, &err), &err);
}
RUN(run_linear_input_added)
{
    struct error err;
    checked(kernels_linear_backward_input(k, dtype, at[0], true, at[1], at[2], N_OF(s), s->O, s->C, s->O, &err), &err);
}
RUN(run_linear_weight)
{
    struct error err;
    checked(kernels_linear_backward_weight(k, dtype, at[0], false, at[1], at[2], N_OF(s), s->O, s->C, s->O, &err),
            &err);
}
RUN(run_linear_weight_added)
{
    struct error err;
    checked(kernels_linear_backward_weight(k, dtype, at[0], true, at[1], at[2], N_OF(s), s->O, s->C, s->O, &err), &err);
}
RUN(run_linear_gelu)
{
    struct error err;
    checked(kernels_linear_gelu_forward(k, dtype, at[0], at[1], at[2], at[3], at[4], N_OF(s), s->O, s->C, &err), &err);
}
RUN(run_linear_gelu_backward)
{
    struct error err;
    checked(kernels_linear_gelu_backward(k, dtype, at[0], at[1], at[2], at[3], N_OF(s), s->O, s->C, &err), &err);
}
RUN(run_bias)
{
    kernels_linear_backward_bias(k, dtype, at[0], false, at[1], N_OF(s), s->O);
}
RUN(run_bias_added)
{
    kernels_linear_backward_bias(k, dtype, at[0], true, at[1], N_OF(s), s->O);
}
RUN(run_norm)
{
    kernels_norm_forward(k, dtype, at[0], at[1], at[2], at[3], at[4], at[5], N_OF(s), s->C);
}
RUN(run_norm_backward)
{
    kernels_norm_backward(k, dtype, at[0], false, at[1], at[2], at[3], at[4], at[5], N_OF(s), s->C);
}
RUN(run_norm_backward_added)
{
    kernels_norm_backward(k, dtype, at[0], true, at[1], at[2], at[3], at[4], at[5], N_OF(s), s->C);
}
RUN(run_norm_backward_in_place)
{
    kernels_norm_backward(k, dtype, at[0], false, at[0], at[1], at[2], at[3], at[4], N_OF(s), s->C);
}
RUN(run_norm_weights)
{
    kernels_norm_backward_weights(k, dtype, at[0], at[1], false, at[2], at[3], at[4], at[5], N_OF(s), s->C);
}
RUN(run_norm_weights_added)
{
    kernels_norm_backward_weights(k, dtype, at[0], at[1], true, at[2], at[3], at[4], at[5], N_OF(s), s->C);
}
RUN(run_norm_both)
{
    kernels_norm_backward_both(k, dtype, at[0], true, at[1], at[2], at[8], true, at[3], at[4], at[5], at[6], at[7],
                               N_OF(s), s->C);
}
RUN(run_norm_both_in_place)
{
    kernels_norm_backward_both(k, dtype, at[0], false, at[1], at[2], NULL, false, at[0], at[3], at[4], at[5], at[6],
                               N_OF(s), s->C);
}
RUN(run_gelu)
{
    kernels_gelu_forward(k, dtype, at[0], at[1], N_OF(s) * s->C);
}
RUN(run_gelu_backward)
{
    kernels_gelu_backward(k, dtype, at[0], at[1], at[2], N_OF(s) * s->C);
}
RUN(run_gelu_backward_in_place)
{
    kernels_gelu_backward(k, dtype, at[0], at[0], at[1], N_OF(s) * s->C);
}
RUN(run_attention)
{
    const struct attention_shape shape = {s->B, s->T, s->C, s->NH};
    kernels_attention_forward(k, dtype, at[0], at[1], at[2], &shape, at[3]);
}
RUN(run_attention_backward)
{
    const struct attention_shape shape = {s->B, s->T, s->C, s->NH};
    kernels_attention_forward(k, dtype, at[2], at[3], at[4], &shape, at[5]); /* out and lse that belong to qkv */
    kernels_attention_backward(k, dtype, at[0], at[1], at[2], at[3], at[4], &shape, at[5]);
}
/* By warps, where warpgroups would do it. */
RUN(run_attention_warps)
{
    kernels_cuda_groups(k, false);
    run_attention(k, dtype, s, at);
    kernels_cuda_groups(k, true);
}
RUN(run_attention_backward_warps)
{
    kernels_cuda_groups(k, false);
    run_attention_backward(k, dtype, s, at);
    kernels_cuda_groups(k, true);
}
RUN(run_embed)
{
    kernels_embed_forward(k, dtype, at[0], at[1], at[2], at[3], N_OF(s), s->T, s->C);
}
RUN(run_embed_tokens)
{
    kernels_embed_backward_tokens(k, dtype, at[0], at[1], at[2], N_OF(s), s->C, at[3]);
}
RUN(run_embed_positions)
{
    kernels_embed_backward_positions(k, dtype, at[0], false, at[1], s->T + 3, N_OF(s), s->T, s->C);
}
RUN(run_embed_positions_added)
{
    kernels_embed_backward_positions(k, dtype, at[0], true, at[1], s->T + 3, N_OF(s), s->T, s->C);
}
RUN(run_loss)
{
    kernels_loss(k, dtype, at[0], at[1], at[2], 0.5f / (float)N_OF(s), N_OF(s), s->V, s->V);
}
RUN(run_loss_apart)
{
    kernels_loss(k, dtype, at[0], at[1], at[2], 0.5f / (float)N_OF(s), N_OF(s), s->V, row_of(s));
}
RUN(run_logits)
{
    struct error err;
    checked(kernels_linear_forward(k, dtype, at[0], at[1], at[2], NULL, NULL, N_OF(s), s->V, s->C, row_of(s), &err),
            &err);
}
RUN(run_logits_input)
{
    struct error err;
    checked(kernels_linear_backward_input(k, dtype, at[0], false, at[1], at[2], N_OF(s), s->V, s->C, row_of(s), &err),
            &err);
}
RUN(run_logits_weight)
{
    struct error err;
    checked(kernels_linear_backward_weight(k, dtype, at[0], true, at[1], at[2], N_OF(s), s->V, s->C, row_of(s), &err),
            &err);
}
RUN(run_cast)
{
    kernels_cast(k, DTYPE_F32, at[0], dtype, at[2], N_OF(s) * s->C);
    kernels_cast(k, dtype, at[1], DTYPE_F32, at[3], N_OF(s) * s->C);
}
RUN(run_add)
{
    kernels_add(k, DTYPE_F32, at[0], true, dtype, at[2], N_OF(s) * s->C);
    kernels_add(k, dtype, at[1], true, dtype, at[2], N_OF(s) * s->C);
}

/* Every optimizer, one after the other on the same arrays, each with its own part of the factors switched on. */
RUN(run_update)
{
    for (int o = 0; o < OPTIMIZERS; o++) {
        const struct update_factors f = {
            0.5f, o % 2 ? 0.01f : 0, o % 3 ? 0.999f : 1, 0.9f, 0.1f, 0.95f, 0.05f, 1e-2f, 2.5f, 1e-8f, o % 2 == 0};
        const struct update_arrays arrays = {at[4], at[0], {at[1], at[2]}, o == 1 ? at[0] : at[3]};
        kernels_update(k, (enum optimizer)o, &f, dtype, dtype, &arrays, N_OF(s) * s->C);
    }
}

/* What may go wrong on a GPU, for the test of this program: one element of the last row, no end, an end of the process. */
static const struct kernels *broken_on; /* the GPU's, which alone goes wrong */

RUN(run_broken_element)
{
    kernels_gelu_forward(k, dtype, at[0], at[1], N_OF(s) * s->C - (k == broken_on));
}
RUN(run_broken_hang)
{
    (void)dtype, (void)s, (void)at;
    if (k == broken_on) alarm(1), pause();
}
RUN(run_broken_process)
{
    (void)dtype, (void)s, (void)at;
    if (k == broken_on) raise(SIGKILL);
}

/* clang-format off */
#define IN(size)                 {SIZE_##size, READ, OF_DTYPE, 1}
#define IN_FLOATS(size)          {SIZE_##size, READ, FLOATS, 1}
#define IN_TOKENS(size)          {SIZE_##size, READ, TOKENS, 1}
#define IN_SCALED(size, scale)   {SIZE_##size, READ, OF_DTYPE, scale}
#define OUT(size)                {SIZE_##size, WRITE, OF_DTYPE, 1}
#define OUT_SUM(size)            {SIZE_##size, WRITE, SUM, 1}
#define OUT_FLOATS(size)         {SIZE_##size, WRITE, FLOATS, 1}
#define BOTH(size)               {SIZE_##size, CHANGE, OF_DTYPE, 1}
#define BOTH_SUM(size)           {SIZE_##size, CHANGE, SUM, 1}
#define BOTH_FLOATS(size)        {SIZE_##size, CHANGE, FLOATS, 1}
#define BOTH_SCALED(size, scale) {SIZE_##size, CHANGE, OF_DTYPE, scale}

static const struct operation operations[] = {
    {"linear_forward", run_linear, 0.25, {OUT_SUM(NO), IN(NC), IN(OC), IN(O), IN(NO)}},
    {"linear_forward, no bias", run_linear_plain, 0.25, {OUT(NO), IN(NC), IN(OC)}},
    {"linear_forward, added to y", run_linear_added_to, 0.25, {BOTH_SUM(NO), IN(NC), IN(OC)}},
    {"linear_backward_input", run_linear_input, 0.25, {OUT(NC), IN(NO), IN(OC)}},
    {"linear_backward_input, added", run_linear_input_added, 0.25, {BOTH_SUM(NC), IN(NO), IN(OC)}},
    {"linear_backward_weight", run_linear_weight, 0.25, {OUT(OC), IN(NO), IN(NC)}},
    {"linear_backward_weight, added", run_linear_weight_added, 0.25, {BOTH_SUM(OC), IN(NO), IN(NC)}},
    {"linear_gelu_forward", run_linear_gelu, 1, {OUT(NO), OUT(NO), IN(NC), IN(OC), IN(O)}},
    {"linear_gelu_backward", run_linear_gelu_backward, 1, {OUT(NC), IN(NO), IN(OC), IN_SCALED(NC, 3)}},
    {"linear_backward_bias", run_bias, 0.25, {OUT(O), IN(NO)}},
    {"linear_backward_bias, added", run_bias_added, 0.25, {BOTH(O), IN(NO)}},
    {"norm_forward", run_norm, 0.25, {OUT(NC), OUT_FLOATS(N), OUT_FLOATS(N), IN(NC), IN(C), IN(C)}},
    {"norm_backward", run_norm_backward, 0.25, {OUT(NC), IN(NC), IN(NC), IN_FLOATS(N), IN_FLOATS(N), IN(C)}},
    {"norm_backward, added", run_norm_backward_added, 0.25, {BOTH(NC), IN(NC), IN(NC), IN_FLOATS(N), IN_FLOATS(N), IN(C)}},
    {"norm_backward, in place", run_norm_backward_in_place, 0.25, {BOTH(NC), IN(NC), IN_FLOATS(N), IN_FLOATS(N), IN(C)}},
    {"norm_backward_weights", run_norm_weights, 0.25, {OUT(C), OUT(C), IN(NC), IN(NC), IN_FLOATS(N), IN_FLOATS(N)}},
    {"norm_backward_weights, added", run_norm_weights_added, 0.25, {BOTH(C), BOTH(C), IN(NC), IN(NC), IN_FLOATS(N), IN_FLOATS(N)}},
    {"norm_backward_both, added", run_norm_both, 0.25, {BOTH(NC), BOTH(C), BOTH(C), IN(NC), IN(NC), IN_FLOATS(N), IN_FLOATS(N), IN(C), BOTH(C)}},
    {"norm_backward_both, in place", run_norm_both_in_place, 0.25, {BOTH(NC), OUT(C), OUT(C), IN(NC), IN_FLOATS(N), IN_FLOATS(N), IN(C)}},
    {"gelu_forward", run_gelu, 0.25, {OUT(NC), IN_SCALED(NC, 3)}},
    {"gelu_backward", run_gelu_backward, 0.25, {OUT(NC), IN(NC), IN_SCALED(NC, 3)}},
    {"gelu_backward, in place", run_gelu_backward_in_place, 0.25, {BOTH(NC), IN_SCALED(NC, 3)}},
    {"attention_forward", run_attention, 0.5, {OUT(NC), OUT_FLOATS(LSE), IN(3NC), OUT_FLOATS(DELTA)}},
    {"attention_backward", run_attention_backward, 0.75, {OUT(3NC), IN(NC), OUT(NC), OUT_FLOATS(LSE), IN(3NC), OUT_FLOATS(DELTA)}},
    {"attention_forward, by warps", run_attention_warps, 0.5, {OUT(NC), OUT_FLOATS(LSE), IN(3NC), OUT_FLOATS(DELTA)}},
    {"attention_backward, by warps", run_attention_backward_warps, 0.75, {OUT(3NC), IN(NC), OUT(NC), OUT_FLOATS(LSE), IN(3NC), OUT_FLOATS(DELTA)}},
    {"embed_forward", run_embed, 0, {OUT(NC), IN(VC), IN(TC), IN_TOKENS(N)}},
    {"embed_backward_tokens", run_embed_tokens, 0, {BOTH(VC), IN(NC), IN_TOKENS(N), OUT_FLOATS(SORT)}},
    {"embed_backward_positions", run_embed_positions, 0, {OUT(LONG_TC), IN(NC)}},
    {"embed_backward_positions, added", run_embed_positions_added, 0, {BOTH(LONG_TC), IN(NC)}},
    {"logits_forward", run_logits, 0.25, {BOTH(NR), IN(NC), IN(VC)}},
    {"logits_backward_input", run_logits_input, 0.25, {OUT_SUM(NC), IN(NR), IN(VC)}},
    {"logits_backward_weight", run_logits_weight, 0.25, {BOTH_SUM(VC), IN(NR), IN(NC)}},
    {"loss, rows apart", run_loss_apart, 0.25, {OUT_FLOATS(N), BOTH_SCALED(NR, 4), IN_TOKENS(N)}},
    {"loss", run_loss, 0.25, {OUT_FLOATS(N), BOTH_SCALED(NV, 4), IN_TOKENS(N)}},
    {"cast", run_cast, 0, {OUT_FLOATS(NC), OUT(NC), IN(NC), IN_FLOATS(NC)}},
    {"add", run_add, 0, {BOTH_FLOATS(NC), BOTH(NC), IN(NC)}},
    {"update", run_update, 0, {BOTH_FLOATS(NC), BOTH_FLOATS(NC), BOTH_FLOATS(NC), OUT(NC), IN(NC)}},
    {"broken element", run_broken_element, 0.25, {BOTH(NC), IN_SCALED(NC, 3)}},
    {"broken, without an end", run_broken_hang, 0.25, {BOTH(NC)}},
    {"broken, a process that dies", run_broken_process, 0.25, {BOTH(NC)}},
};
enum { OPERATIONS = sizeof operations / sizeof *operations, OPERANDS = 9 };

/* Small ones, for the fake device and compute-sanitizer (argument: small); the last have the sizes of real models. */
static const struct shape shapes[] = {
    {2, 7, 12, 3, 5, 523, 0},     /* nothing is a multiple of anything */
    {1, 1, 8, 1, 8, 2, 0},        /* one row */
    {2, 64, 64, 2, 40, 96, 0},    /* whole tiles */
    {1, 70, 128, 2, 72, 1001, 0}, /* a tile and a part; an odd vocabulary, so rows of logits off alignment */
    {2, 33, 48, 2, 48, 50, 4},    /* arrays off alignment */
    {1, 129, 160, 1, 16, 40, 0},  /* a head wider than the tensor cores take */
    {1, 100, 240, 2, 16, 30, 0},  /* heads of 120, padded to 128 */
    {1, 321, 64, 1, 16, 30, 0},   /* several tiles of keys, and blocks of queries of which some are not full */
    {1, 2, 8, 1, 8, 8203, 0},     /* a large vocabulary */
    {1, 19, 520, 13, 16, 30, 0},  /* rows that take several warps, of which the last is not full */
    {1, 1, 64, 1, 0, 0, 0},       /* attention alone, O and V being 0: a token */
    {3, 128, 64, 1, 0, 0, 0},     /* ... whole tiles of 64 and 128, and an odd number of heads */
    {1, 193, 128, 1, 0, 0, 0},    /* ... a token beyond whole tiles, in a head of 128 */
    {1, 70, 40, 1, 0, 0, 0},      /* ... a head of 40, padded to 64 */
    {1, 2, 4096, 1, 0, 0, 0},     /* ... a head of which shared memory has room for one warp's rows */
    {4, 256, 768, 12, 3072, 50257, 0},
    {8, 1024, 768, 12, 768, 4096, 0},
    {2, 1000, 1600, 25, 6400, 5000, 0},
    {1, 1023, 1600, 25, 0, 0, 0},
    {2, 1025, 2048, 16, 0, 0, 0},
};
/* clang-format on */
enum { SHAPES = sizeof shapes / sizeof *shapes, SMALL_SHAPES = 15 };

static enum dtype dtype_of(const struct operand *operand, enum dtype dtype)
{
    return operand->type == FLOATS ? DTYPE_F32 : operand->type == TOKENS ? DTYPE_I32 : dtype;
}

static void fill(struct array *array, const struct operand *operand, const struct shape *s, uint64_t number)
{
    int32_t *tokens = (int32_t *)array->initial;
    if (operand->type == TOKENS) { /* some tokens often, as text has them */
        for (int64_t i = 0; i < array->n; i++)
            tokens[i] = (int32_t)((uint64_t)(i * i * 31 + i * 7) % (uint64_t)s->V / (i % 3 ? 1 : 5));
        return;
    }
    array_normal(array, number, operand->scale);
    if (operand->type == FLOATS) /* rstd, second moments: not negative */
        for (int64_t i = 0; i < array->n; i++) ((float *)array->initial)[i] = fabsf(((float *)array->initial)[i]);
}

static void run_on_gpu(struct gpu *gpu, const struct operation *operation, enum dtype dtype, const struct shape *s,
                       struct array *arrays, int count, enum fake_order order)
{
    void *at[OPERANDS];
    struct error err;
    if (gpu_is_fake()) fake_set_order(order);
    for (int i = 0; i < count; i++) {
        at[i] = arrays[i].device;
        array_begin(gpu, &arrays[i]);
    }
    operation->run(gpu->kernels, dtype, s, at);
    checked(kernels_check(gpu->kernels, &err), &err);
    gpu_wait(gpu);
}

/* Scratch is nobody's business afterwards: it is the operand that both sides may use as they like. */
static bool is_scratch(const struct operand *operand)
{
    return operand->size == SIZE_DELTA || operand->size == SIZE_SORT;
}

/* On an H200 the library rounds a product before it adds where it adds in place, and where it splits the terms of a product with a bias.
 * Sums are then a third of a unit away, those of few elements more. */
static double allowed_ulps(const struct operation *operation, const struct operand *operand, enum dtype dtype)
{
    return operand->type == SUM && dtype != DTYPE_F32 && !gpu_is_fake() ? 1 : operation->ulps;
}

static void compare(struct gpu *gpu, const struct operation *operation, enum dtype dtype, const struct shape *s,
                    struct array *array, int i, struct distance *worst)
{
    const struct operand *operand = &operation->operands[i];
    const int64_t columns = columns_of(operand->size, s);
    char *found = malloc((size_t)array->bytes);
    array_read(gpu, array, found);
    if (operand->kind == READ) {
        if (memcmp(found, array->initial, (size_t)array->bytes))
            fault("operand %d, which is only read, was changed: %s", i,
                  array_faults(array, found, array->initial, columns, 0));
    } else if (operation->ulps == 0) {
        if (!array_same_bits(array, found, array->host))
            fault("operand %d has other bits than the CPU's: %s", i,
                  array_faults(array, found, array->host, columns, 0));
    } else {
        /* What fp32 results are made of was rounded to 16 bits on the way, on the tensor cores. */
        const double ulps = allowed_ulps(operation, operand, dtype);
        const struct distance distance = array_distance(array, found, array->host);
        const double units = unit(operand->type == FLOATS && operation->ulps > 0.25 ? dtype : array->dtype);
        worst->whole = fmax(worst->whole, distance.whole);
        worst->largest = fmax(worst->largest, distance.largest / units);
        if (!(distance.whole <= ulps * units))
            fault("operand %d is away from the CPU's by %.3g; allowed %.3g; %s", i, distance.whole,
                  ulps * units, array_faults(array, found, array->host, columns, ulps * units));
        if (!(distance.largest <= UNITS_OF_ELEMENT * units))
            fault("operand %d has elements away from the CPU's by %.3g units; allowed %d; %s", i,
                  distance.largest / units, UNITS_OF_ELEMENT,
                  array_faults(array, found, array->host, columns, UNITS_OF_ELEMENT * units));
    }
    free(found);
}

/* The order of threads in a run of the fake device. Without FULL=1 there are two runs, of which the second takes turns. */
static enum fake_order order_of(int run, const struct operation *operation, enum dtype dtype, const struct shape *s)
{
    if (run == 0 || effort_is_full()) return (enum fake_order)run;
    return ((operation - operations) + (int)dtype + (s - shapes)) % 2 ? FAKE_BACKWARD : FAKE_RANDOM;
}

static struct distance check(struct gpu *gpu, const struct operation *operation, enum dtype dtype,
                             const struct shape *s)
{
    struct array arrays[OPERANDS];
    void *at[OPERANDS];
    char *first[OPERANDS];
    struct distance worst = {0, 0};
    int count = 0;
    for (; count < OPERANDS && operation->operands[count].size; count++) {
        const struct operand *operand = &operation->operands[count];
        const enum dtype type = dtype_of(operand, dtype);
        const int shift = is_scratch(operand) ? 0 : s->shift * dtype_bytes(type) / 4;
        array_new(gpu, &arrays[count], type, elems_of(operand->size, s), shift);
        fill(&arrays[count], operand, s, (uint64_t)count);
        at[count] = arrays[count].host;
    }
    for (int run = 0; run < (gpu_is_fake() && effort_is_full() ? (int)FAKE_ORDERS : 2); run++) {
        run_on_gpu(gpu, operation, dtype, s, arrays, count, order_of(run, operation, dtype, s));
        for (int i = 0; i < count; i++) {
            char *bits = malloc((size_t)arrays[i].bytes);
            array_read(gpu, &arrays[i], bits);
            if (run == 0) first[i] = bits;
            else {
                if (!is_scratch(&operation->operands[i]) && memcmp(bits, first[i], (size_t)arrays[i].bytes))
                    fault("operand %d: run %d has other bits than the first: %s", i, run + 1,
                          array_faults(&arrays[i], bits, first[i], columns_of(operation->operands[i].size, s), 0));
                free(bits);
            }
        }
    }
    operation->run(gpu->reference, dtype, s, at);
    for (int i = 0; i < count; i++) {
        if (!is_scratch(&operation->operands[i])) compare(gpu, operation, dtype, s, &arrays[i], i, &worst);
        free(first[i]);
        array_free(&arrays[i]);
    }
    return worst;
}

/* A head size that does not divide, or products too large for the reference, are left out. */
static bool fits(const struct operation *operation, const struct shape *s)
{
    const bool product = strncmp(operation->name, "linear_", 7) == 0,
               logits = strncmp(operation->name, "logits_", 7) == 0, loss = strncmp(operation->name, "loss", 4) == 0;
    const int64_t N = N_OF(s);
    if (s->O == 0) return strncmp(operation->name, "attention_", 10) == 0;
    return !(product && N * s->C * s->O > 30000000000) && !(logits && N * s->C * s->V > 50000000000) &&
           !((loss || logits) && N * s->V > 60000000);
}

static const char *only = ""; /* operations whose name begins so */
static bool small;

static void test_operation(struct gpu *gpu, const struct operation *operation, enum dtype dtype)
{
    struct distance worst = {0, 0};
    int done = 0;
    for (int s = 0; s < (small ? (int)SMALL_SHAPES : (int)SHAPES) && !gpu_fault[0]; s++) {
        const struct shape *at = &shapes[s];
        if (!fits(operation, at)) continue;
        const struct distance distance = check(gpu, operation, dtype, at);
        if (gpu_fault[0])
            printf("# at B %d, T %d, C %d, NH %d, O %d, V %d, %d bytes off alignment\n", at->B, at->T, at->C, at->NH,
                   at->O, at->V, at->shift);
        worst = (struct distance){fmax(worst.whole, distance.whole), fmax(worst.largest, distance.largest)};
        done++;
    }
    if (operation->ulps > 0)
        tested("%s, %s: %d shapes, away from the CPU by at most %.2g, an element by %.2g units", operation->name,
               dtype_name(dtype), done, worst.whole, worst.largest);
    else tested("%s, %s: %d shapes, the CPU's bits", operation->name, dtype_name(dtype), done);
}

enum { TYPES = DTYPE_F16 - DTYPE_F32 + 1, TESTS = OPERATIONS * TYPES };

static bool is_asked_for(int o, enum dtype dtype)
{
    if (strstr(operations[o].name, "by warps") && dtype == DTYPE_F32) return false; /* which has one way only */
    const bool broken = strncmp(operations[o].name, "broken", 6) == 0;
    return strncmp(operations[o].name, only, strlen(only)) == 0 && (only[0] || !broken);
}

/* Tests are numbered by operation and type. */
static bool work(int first, void (*say_next)(int, const char *))
{
    struct gpu gpu;
    if (!gpu_open(&gpu)) return false;
    broken_on = gpu.kernels;
    small |= gpu_is_fake();
    for (int t = first; t < TESTS; t++) {
        const int o = t / TYPES;
        const enum dtype dtype = (enum dtype)(t % TYPES);
        char name[128];
        if (!is_asked_for(o, dtype)) continue;
        snprintf(name, sizeof name, "%s, %s", operations[o].name, dtype_name(dtype));
        say_next(t, name);
        test_operation(&gpu, &operations[o], dtype);
    }
    gpu_close(&gpu);
    return true;
}

int main(int argc, char **argv)
{
    if (argc > 1) only = argv[1];
    small = argc > 2 && strcmp(argv[2], "small") == 0;
    for (int o = 0; strcmp(only, "--list") == 0 && o < OPERATIONS; o++) puts(operations[o].name);
    if (strcmp(only, "--list") == 0) return 0;
    return tests_run_apart(TESTS, small ? 300 : 60, work);
}
