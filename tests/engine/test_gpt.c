/* The whole model against PyTorch (tests/reference/make_reference.py), and against itself: every instruction set, any
 * number of threads, accumulation, guard bytes behind every buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>

#include "engine/base/rng.h"
#include "tests/support/gpt_fixture.h"
#include "tests/support/reference.h"

static const struct config_model tiny = {"tiny",      REFERENCE_L, REFERENCE_C,      REFERENCE_NH,
                                         REFERENCE_X, REFERENCE_V, .kind = KIND_GPT2};

static float reference_parameter(const struct tensor *tensor, int64_t i)
{
    const float k = reference_signed((uint64_t)tensor->global, (uint64_t)i);
    if (tensor->init == INIT_ONE) return 1 + floorf(k / 4) / 128;
    if (tensor->id == TENSOR_WTE || tensor->id == TENSOR_WPE) return k / 128 * 0.5f;
    return k / 128 * 0.125f;
}

static void open_tiny(struct fixture *f, int tiles, enum dtype dtype, int threads, const char *isa)
{
    fixture_open_tiled(f, &tiny, tiles, dtype, REFERENCE_B, REFERENCE_T, threads, isa);
    for (int u = 0; u < f->model.unit_count; u++)
        for (int t = 0; t < f->model.units[u].tensor_count; t++) {
            const struct tensor *tensor = &f->model.units[u].tensors[t];
            for (int64_t i = 0, whole; i < tensor->elems; i++) {
                tensor_run(tensor, i, 1, &whole);
                element_put(dtype, f->weights[u].at[tensor->id], i, reference_parameter(tensor, whole));
            }
        }
}

static void tokens_and_targets(int32_t *tokens, int32_t *targets)
{
    for (int n = 0; n < REFERENCE_N; n++) {
        tokens[n] = (int32_t)(rng_u64(REFERENCE_SEED + 1, 0, (uint64_t)n) % REFERENCE_V);
        targets[n] = (int32_t)(rng_u64(REFERENCE_SEED + 1, 1, (uint64_t)n) % REFERENCE_V);
    }
}

/* ||x - reference|| / ||reference|| */
static double difference(enum dtype dtype, const void *x, const float *reference, int64_t n)
{
    double delta = 0, whole = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)element_at(dtype, x, i) - (double)reference[i];
        delta += d * d;
        whole += (double)reference[i] * reference[i];
    }
    return sqrt(delta / whole);
}

static void assert_close(const char *what, double found, double allowed)
{
    if (!(found <= allowed)) fail_msg("%s: relative difference %.3g, allowed %.3g", what, found, allowed);
}

static void check_guards(const struct fixture *f)
{
    for (int u = 0; u < f->model.unit_count; u++)
        assert_true(guarded_intact(&f->parameters[u]) && guarded_intact(&f->gradients[u]));
    for (int use = 0; use <= f->model.unit_count; use++) {
        assert_true(guarded_intact(&f->outputs[use]));
        for (int s = 0; s < SAVED_KINDS; s++) /* by place or by unit */
            assert_true(!f->saved[s][use].at || guarded_intact(&f->saved[s][use]));
    }
    assert_true(guarded_intact(&f->residual) && guarded_intact(&f->normed));
    for (int use = 0; use < USES; use++)
        for (int kind = 0; kind < USE_KINDS; kind++) assert_true(guarded_intact(&f->scratch[use][kind]));
}

/* What PyTorch has of a tensor, or of the part of it that a tile has. */
static float *expected_of(const struct tensor *tensor, const struct reference *reference)
{
    float *expected = malloc((size_t)tensor->elems * sizeof *expected);
    for (int64_t i = 0, whole; i < tensor->elems; i++) {
        tensor_run(tensor, i, 1, &whole);
        expected[i] = reference->gradients[tensor->canonical + whole];
    }
    return expected;
}

static void follows_pytorch(int tiles, enum dtype dtype, int threads, const char *isa, double allowed)
{
    struct error err;
    struct kernels *probe;
    if (kernels_create(&probe, 1, isa, &err)) return; /* this processor has not got it */
    kernels_free(probe);

    struct fixture f;
    struct reference reference;
    int32_t tokens[REFERENCE_N], targets[REFERENCE_N];
    double worst = 0;
    reference_load(&reference);
    tokens_and_targets(tokens, targets);
    open_tiny(&f, tiles, dtype, threads, isa);

    fixture_forward(&f, tokens, NULL, 1);
    assert_close("logits",
                 difference(dtype, fixture_slot(&f, tiny.layers + 2, SAVED_HEAD, HEAD_LOGITS), reference.logits,
                            REFERENCE_N * REFERENCE_V),
                 allowed);
    const float loss = fixture_forward(&f, tokens, targets, 1);
    double mean = 0;
    for (int n = 0; n < REFERENCE_N; n++) mean += reference.losses[n] / REFERENCE_N;
    assert_close("mean loss", fabs(loss - mean) / mean, allowed);
    assert_close(
        "losses",
        difference(DTYPE_F32, fixture_slot(&f, tiny.layers + 2, SAVED_HEAD, HEAD_LOSS), reference.losses, REFERENCE_N),
        allowed);
    fixture_backward(&f, tokens, false);

    for (int u = 0; u < f.model.unit_count; u++)
        for (int t = 0; t < f.model.units[u].tensor_count; t++) {
            const struct tensor *tensor = &f.model.units[u].tensors[t];
            char what[80];
            snprintf(what, sizeof what, "%s %s, gradient of %s %s", isa, dtype_name(dtype), f.model.units[u].name,
                     tensor->name);
            float *expected = expected_of(tensor, &reference);
            const double found = difference(dtype, f.gradient[u].at[tensor->id], expected, tensor->elems);
            worst = found > worst ? found : worst;
            assert_close(what, found, allowed);
            free(expected);
        }
    printf("%s %s, %d threads, %d tiles: worst gradient differs by %.3g of its norm (allowed %.3g)\n", isa,
           dtype_name(dtype), threads, tiles, worst, allowed);
    check_guards(&f);
    fixture_close(&f);
    reference_release(&reference);
}

static void fp32_follows_pytorch(void **state)
{
    (void)state;
    follows_pytorch(1, DTYPE_F32, 1, "avx512", 1e-5);
    follows_pytorch(1, DTYPE_F32, 1, "avx2", 1e-5);
    follows_pytorch(1, DTYPE_F32, 2, "plain", 1e-5);
}

static void bf16_follows_pytorch(void **state)
{
    (void)state;
    follows_pytorch(1, DTYPE_BF16, 1, "avx512", 0x1p-7);
    follows_pytorch(1, DTYPE_BF16, 2, "avx2", 0x1p-7);
    follows_pytorch(1, DTYPE_BF16, 1, "plain", 0x1p-7);
}

static void fp16_follows_pytorch(void **state)
{
    (void)state;
    follows_pytorch(1, DTYPE_F16, 1, "avx512", 0x1p-9);
    follows_pytorch(1, DTYPE_F16, 2, "avx2", 0x1p-9);
    follows_pytorch(1, DTYPE_F16, 1, "plain", 0x1p-9);
}

/* Cut into tiles, a model computes the same; in 16 bits with more roundings. */
static void tiles_follow_pytorch(void **state)
{
    (void)state;
    for (int tiles = 2; tiles <= 8; tiles *= 2) {
        follows_pytorch(tiles, DTYPE_F32, 1, kernels_widest_isa(), 1e-5);
        follows_pytorch(tiles, DTYPE_BF16, 1, kernels_widest_isa(), 0x1p-6);
        follows_pytorch(tiles, DTYPE_F16, 2, "plain", 0x1p-8);
    }
}

/* A micro-step added to itself is twice the gradient, exactly: doubling does not round. */
static void accumulating_adds(void **state)
{
    (void)state;
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
        struct fixture once, twice;
        int32_t tokens[REFERENCE_N], targets[REFERENCE_N];
        tokens_and_targets(tokens, targets);
        open_tiny(&once, 1, dtype, 1, NULL);
        open_tiny(&twice, 1, dtype, 1, NULL);
        fixture_forward(&once, tokens, targets, 1);
        fixture_backward(&once, tokens, false);
        for (int micro_step = 0; micro_step < 2; micro_step++) {
            fixture_forward(&twice, tokens, targets, 1);
            fixture_backward(&twice, tokens, micro_step > 0);
        }
        const int64_t wte_elems = (int64_t)REFERENCE_V * REFERENCE_C;
        for (int u = 0; u < once.model.unit_count; u++)
            for (int64_t i = u == 0 ? wte_elems : 0; i < once.model.units[u].elems; i++)
                assert_true(element_at(dtype, twice.gradients[u].at, i) ==
                            2 * element_at(dtype, once.gradients[u].at, i));
        float doubled[REFERENCE_V * REFERENCE_C]; /* wte is added to twice in a micro-step, so its roundings differ */
        for (int64_t i = 0; i < wte_elems; i++) doubled[i] = 2 * element_at(dtype, once.gradients[0].at, i);
        assert_close("wte", difference(dtype, twice.gradients[0].at, doubled, wte_elems),
                     dtype == DTYPE_F32   ? 0x1p-22
                     : dtype == DTYPE_F16 ? 0x1p-10
                                          : 0x1p-8);
        fixture_close(&once);
        fixture_close(&twice);
    }
}

static void initial_values_ignore_shards(void **state)
{
    (void)state;
    struct model model;
    struct error err;
    assert_int_equal(model_init(&model, &tiny, DTYPE_F32, &err), STATUS_OK);
    const int64_t elems = model.units[1].elems, padded = elems + 23;
    float *whole = malloc((size_t)padded * sizeof *whole), part[100];
    gpt_initial_values(&model, 1, 42, 0, padded, whole);
    for (int64_t first = 0; first < padded; first += 100) {
        const int64_t count = padded - first < 100 ? padded - first : 100;
        gpt_initial_values(&model, 1, 42, first, count, part);
        assert_memory_equal(part, whole + first, (size_t)count * sizeof *whole);
    }
    for (int64_t i = elems; i < padded; i++) assert_true(whole[i] == 0);
    double squares = 0;
    const struct tensor *fc = &model.units[1].tensors[0], *proj = &model.units[1].tensors[1];
    for (int64_t i = 0; i < fc->elems; i++) squares += (double)whole[i] * whole[i];
    assert_true(fabs(sqrt(squares / (double)fc->elems) / 0.02 - 1) < 0.05);
    squares = 0;
    for (int64_t i = 0; i < proj->elems; i++) squares += (double)whole[proj->offset + i] * whole[proj->offset + i];
    assert_true(fabs(sqrt(squares / (double)proj->elems) / (0.02 / sqrt(2.0 * tiny.layers)) - 1) < 0.05);
    free(whole);
    model_release(&model);
}

static void split_tensors_meet_their_tail(void **state)
{
    (void)state;
    struct model model;
    struct error err;
    assert_int_equal(model_init(&model, &tiny, DTYPE_BF16, &err), STATUS_OK);
    const struct unit *unit = &model.units[1];
    const int64_t split = unit_tail_from(unit, 4 * REFERENCE_C, INT64_MAX);
    uint16_t flat[1], tail[1];
    struct gpt_tensors tensors;
    gpt_tensors_of(&tensors, unit, DTYPE_BF16, flat, split, tail);
    assert_ptr_equal(tensors.at[TENSOR_FC_W], flat);
    assert_ptr_equal(tensors.at[TENSOR_FC_B], tail);
    assert_int_equal((char *)tensors.at[TENSOR_QKV_B] - (char *)tail, 4 * REFERENCE_C * 2);
    assert_null(tensors.at[TENSOR_WTE]);
    model_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_follows_pytorch),
        cmocka_unit_test(bf16_follows_pytorch),
        cmocka_unit_test(fp16_follows_pytorch),
        cmocka_unit_test(tiles_follow_pytorch),
        cmocka_unit_test(accumulating_adds),
        cmocka_unit_test(initial_values_ignore_shards),
        cmocka_unit_test(split_tensors_meet_their_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
