/* The optimizers: ten steps as PyTorch takes them (tests/reference), the same bits on every instruction set and however a
 * range is cut, in every pair of gradient and parameter types, decay where it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/optim/optimizer.h"
#include "tests/support/elements.h"
#include "tests/support/reference.h"

enum { ELEMS = REFERENCE_ADAM, STEPS = REFERENCE_ADAM_STEPS, CASES = 7 };

/* As make_optimizers.py (and make_reference.py, which has the first) sets them up. */
static const struct config_optimizer cases[CASES] = {
    {"AdamW", OPTIMIZER_ADAMW, 1e-2, 0.9, 0.999, 1e-8, 0.1, 0, 0, true, false, true, false, DECAY_ON_ALL},
    {"Adam", OPTIMIZER_ADAM, 1e-2, 0.9, 0.999, 1e-8, 0.1, 0, 0, false, false, true, false, DECAY_ON_ALL},
    {"Lion", OPTIMIZER_LION, 1e-2, 0.9, 0.99, 0, 0.1, 0, 0, false, false, true, false, DECAY_ON_ALL},
    {"Adagrad", OPTIMIZER_ADAGRAD, 1e-2, 0.9, 0.999, 1e-10, 0.1, 0, 0, false, false, true, false, DECAY_ON_ALL},
    {"SGD", OPTIMIZER_SGD, 1e-1, 0.9, 0.999, 0, 0.1, 0, 0, false, false, true, false, DECAY_ON_ALL},
    {"SGD", OPTIMIZER_MOMENTUM, 1e-1, 0.9, 0.999, 0, 0.1, 0.9, 0.25, false, false, true, false, DECAY_ON_ALL},
    {"SGD", OPTIMIZER_MOMENTUM, 1e-1, 0.9, 0.999, 0, 0, 0.9, 0, false, false, true, true, DECAY_ON_ALL},
};

static struct optimizer_step step_of(const struct config_optimizer *optimizer, int64_t number)
{
    return (struct optimizer_step){
        optimizer, {optimizer->learning_rate, optimizer->beta1, optimizer->beta2}, 1, number};
}

static struct kernels *kernels_open(const char *isa)
{
    struct kernels *kernels = NULL;
    struct error err;
    return kernels_create(&kernels, 1, isa, &err) ? NULL : kernels;
}

/* Parameters after each of the ten steps, on one instruction set. */
static void ten_steps(struct kernels *kernels, const struct model *model, const struct config_optimizer *optimizer,
                      float after[STEPS][ELEMS])
{
    float p[ELEMS], s[2][ELEMS] = {0}, gradient[ELEMS];
    for (int i = 0; i < ELEMS; i++) p[i] = reference_signed(1000, (uint64_t)i) / 128;
    for (int k = 0; k < STEPS; k++) {
        const struct optimizer_step step = step_of(optimizer, k + 1);
        const struct update_arrays arrays = {gradient, p, {s[0], s[1]}, p};
        for (int i = 0; i < ELEMS; i++) gradient[i] = reference_signed(1001 + (uint64_t)k, (uint64_t)i) / 128;
        optimizer_update(kernels, model, 0, 0, ELEMS, &step, DTYPE_F32, &arrays);
        memcpy(after[k], p, sizeof p);
    }
}

static void ten_steps_follow_pytorch(void **state)
{
    (void)state;
    static const char *const isas[] = {"avx512", "avx2", "plain"};
    const struct config_model shape = {"one table",      1, 1, 1, 1, ELEMS - 1,
                                       .kind = KIND_GPT2}; /* unit 0: 36 + 1 parameters */
    static float expected[CASES][STEPS][ELEMS];
    struct model model;
    struct reference reference;
    struct error err;
    FILE *file = fopen("tests/reference/optimizers.bin", "rb");
    assert_non_null(file);
    assert_int_equal(fread(expected[1], sizeof expected[1], CASES - 1, file), CASES - 1);
    fclose(file);
    reference_load(&reference);
    memcpy(expected[0], reference.adamw, sizeof expected[0]);
    assert_int_equal(model_init(&model, &shape, DTYPE_F32, &err), STATUS_OK);
    for (int c = 0; c < CASES; c++) {
        float first[STEPS][ELEMS], after[STEPS][ELEMS], worst = 0;
        for (int s = 0, begun = 0; s < 3; s++) {
            struct kernels *kernels = kernels_open(isas[s]);
            if (!kernels) continue;
            ten_steps(kernels, &model, &cases[c], begun ? after : first);
            if (begun++) assert_memory_equal(first, after, sizeof after);
            kernels_free(kernels);
        }
        for (int i = 0; i < STEPS * ELEMS; i++)
            worst = fmaxf(worst, fabsf(first[i / ELEMS][i % ELEMS] - expected[c][i / ELEMS][i % ELEMS]));
        print_message("%-8s differs from PyTorch by at most %.2g\n", cases[c].type, (double)worst);
        assert_true(worst <= 4e-7f);
    }
    model_release(&model);
    reference_release(&reference);
}

struct state {
    float *master, *state[2];
    void *gradient, *parameters;
};

static struct state state_new(enum dtype gradient, int64_t n)
{
    struct state s = {
        calloc((size_t)n, 4), {calloc((size_t)n, 4), calloc((size_t)n, 4)}, calloc((size_t)n, 4), calloc((size_t)n, 4)};
    for (int64_t i = 0; i < n; i++) {
        s.master[i] = reference_signed(1, (uint64_t)i) / 100;
        s.state[0][i] = fabsf(reference_signed(2, (uint64_t)i)) / 1000;
        s.state[1][i] = fabsf(reference_signed(3, (uint64_t)i)) / 10000;
        element_put(gradient, s.gradient, i, reference_signed(4, (uint64_t)i) / 128);
    }
    return s;
}

static void state_free(struct state *s)
{
    free(s->master), free(s->state[0]), free(s->state[1]), free(s->gradient), free(s->parameters);
}

static void update_range(struct kernels *kernels, const struct model *model, const struct config_optimizer *optimizer,
                         enum dtype gradient, const struct state *s, int64_t first, int64_t count)
{
    struct optimizer_step step = step_of(optimizer, 3);
    step.gradient_factor = 0.3f;
    float *parameters = (float *)((char *)s->parameters + first * dtype_bytes(model->dtype));
    const struct update_arrays arrays = {(char *)s->gradient + first * dtype_bytes(gradient),
                                         s->master + first,
                                         {s->state[0] + first, s->state[1] + first},
                                         model->dtype == DTYPE_F32 ? s->master + first : parameters};
    optimizer_update(kernels, model, 1, first, count, &step, gradient, &arrays);
}

/* In every pair of types: a unit updated whole, and by three ranks; the 16-bit copy is the rounded master. */
static void check_types(struct kernels *kernels, const struct config_optimizer *optimizer, enum dtype dtype,
                        enum dtype gradient)
{
    const struct config_model shape = {"small", 1, 20, 2, 9, 31, .kind = KIND_GPT2};
    struct model model;
    struct error err;
    assert_int_equal(model_init(&model, &shape, dtype, &err), STATUS_OK);
    const int64_t shard = shard_elems(model.units[1].elems, 3), padded = 3 * shard;
    struct state whole = state_new(gradient, padded), cut = state_new(gradient, padded);
    update_range(kernels, &model, optimizer, gradient, &whole, 0, padded);
    for (int rank = 0; rank < 3; rank++) update_range(kernels, &model, optimizer, gradient, &cut, rank * shard, shard);
    assert_memory_equal(whole.master, cut.master, (size_t)padded * 4);
    for (int s = 0; s < 2; s++) assert_memory_equal(whole.state[s], cut.state[s], (size_t)padded * 4);
    assert_memory_equal(whole.parameters, cut.parameters, (size_t)padded * 4);
    for (int64_t i = 0; dtype != DTYPE_F32 && i < model.units[1].elems; i++) {
        uint32_t rounded;
        element_put(dtype, &rounded, 0, whole.master[i]);
        assert_true(element_at(dtype, whole.parameters, i) == element_at(dtype, &rounded, 0));
    }
    state_free(&whole);
    state_free(&cut);
    model_release(&model);
}

static void bits_ignore_how_a_unit_is_cut(void **state)
{
    (void)state;
    struct kernels *kernels = kernels_open(NULL);
    for (int c = 0; c < CASES; c++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
            check_types(kernels, &cases[c], dtype, dtype);
            check_types(kernels, &cases[c], dtype, DTYPE_F32);
        }
    kernels_free(kernels);
}

static void decay_is_where_it_belongs(void **state)
{
    (void)state;
    const struct config_model shape = {"small", 1, 20, 2, 9, 31, .kind = KIND_GPT2};
    struct kernels *kernels = kernels_open(NULL);
    struct model model;
    struct error err;
    assert_int_equal(model_init(&model, &shape, DTYPE_F32, &err), STATUS_OK);
    const struct unit *unit = &model.units[1];
    for (enum decay_on on = DECAY_ON_MATRICES; on <= DECAY_ON_ALL; on++) {
        struct config_optimizer optimizer = cases[0];
        optimizer.decay_on = on;
        const struct optimizer_step step = step_of(&optimizer, 1);
        float *ones = calloc((size_t)unit->elems, 4), *zeros = calloc((size_t)unit->elems * 3, 4);
        for (int64_t i = 0; i < unit->elems; i++) ones[i] = 1;
        const struct update_arrays arrays = {zeros, ones, {zeros + unit->elems, zeros + 2 * unit->elems}, ones};
        optimizer_update(kernels, &model, 1, 0, unit->elems, &step, DTYPE_F32, &arrays);
        for (int t = 0; t < unit->tensor_count; t++) {
            const struct tensor *tensor = &unit->tensors[t];
            const bool decays = on == DECAY_ON_ALL || tensor->columns > 1;
            for (int64_t i = 0; i < tensor->elems; i++)
                assert_true(ones[tensor->offset + i] == (decays ? (float)(1 - 0.01 * 0.1) : 1));
        }
        free(ones), free(zeros);
    }
    model_release(&model);
    kernels_free(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_follow_pytorch),
        cmocka_unit_test(bits_ignore_how_a_unit_is_cut),
        cmocka_unit_test(decay_is_where_it_belongs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
