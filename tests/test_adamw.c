/* AdamW: ten steps as PyTorch takes them (tests/reference), the same bits however a range is cut, decay where it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/optim/adamw.h"
#include "kernels/kernels.h"
#include "tests/elements.h"
#include "tests/reference.h"

static const struct adamw_step usual = {.learning_rate = 1e-2f,
                                        .beta1 = 0.9f,
                                        .beta2 = 0.999f,
                                        .epsilon = 1e-8f,
                                        .weight_decay = 0.1f,
                                        .gradient_factor = 1,
                                        .step = 1};

static struct kernels *kernels_open(const char *isa)
{
    struct kernels *kernels = NULL;
    struct error err;
    return kernels_create(&kernels, 1, isa, &err) ? NULL : kernels;
}

static void ten_steps_follow_pytorch(void **state)
{
    (void)state;
    static const char *const isas[] = {"avx512", "avx2", "plain"};
    const struct config_model shape = {"one table", 1, 1,
                                       1,           1, REFERENCE_ADAM - 1}; /* unit 0: 36 + 1 parameters that decay */
    struct model model;
    struct reference reference;
    struct error err;
    reference_load(&reference);
    assert_int_equal(model_init(&model, &shape, DTYPE_F32, &err), STATUS_OK);
    for (int s = 0; s < 3; s++) {
        struct kernels *kernels = kernels_open(isas[s]);
        float p[REFERENCE_ADAM], m[REFERENCE_ADAM] = {0}, v[REFERENCE_ADAM] = {0}, gradient[REFERENCE_ADAM];
        if (!kernels) continue;
        for (int i = 0; i < REFERENCE_ADAM; i++) p[i] = reference_signed(1000, (uint64_t)i) / 128;
        for (int k = 0; k < REFERENCE_ADAM_STEPS; k++) {
            struct adamw_step step = usual;
            step.step = k + 1;
            for (int i = 0; i < REFERENCE_ADAM; i++)
                gradient[i] = reference_signed(1001 + (uint64_t)k, (uint64_t)i) / 128;
            adamw_update(kernels, &model, 0, 0, REFERENCE_ADAM, &step, gradient, p, m, v, p);
            for (int i = 0; i < REFERENCE_ADAM; i++)
                assert_true(fabsf(p[i] - reference.adamw[k * REFERENCE_ADAM + i]) <= 4e-7f);
        }
        kernels_free(kernels);
    }
    model_release(&model);
    reference_release(&reference);
}

struct state {
    float *master, *m, *v;
    void *gradient, *parameters;
};

static struct state state_new(enum dtype dtype, int64_t n)
{
    struct state s = {calloc((size_t)n, 4), calloc((size_t)n, 4), calloc((size_t)n, 4), calloc((size_t)n, 4),
                      calloc((size_t)n, 4)};
    for (int64_t i = 0; i < n; i++) {
        s.master[i] = reference_signed(1, (uint64_t)i) / 100;
        s.m[i] = reference_signed(2, (uint64_t)i) / 1000;
        s.v[i] = fabsf(reference_signed(3, (uint64_t)i)) / 10000;
        element_put(dtype, s.gradient, i, reference_signed(4, (uint64_t)i) / 128);
    }
    return s;
}

static void state_free(struct state *s)
{
    free(s->master), free(s->m), free(s->v), free(s->gradient), free(s->parameters);
}

static void update_range(struct kernels *kernels, const struct model *model, const struct state *s, int64_t first,
                         int64_t count)
{
    const int element = dtype_bytes(model->dtype);
    struct adamw_step step = usual;
    step.gradient_factor = 0.3f;
    adamw_update(kernels, model, 1, first, count, &step, (char *)s->gradient + first * element, s->master + first,
                 s->m + first, s->v + first, (char *)s->parameters + first * element);
}

static void bits_ignore_how_a_unit_is_cut(void **unused)
{
    (void)unused;
    const struct config_model shape = {"small", 1, 20, 2, 9, 31};
    struct kernels *kernels = kernels_open(NULL);
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        struct model model;
        struct error err;
        assert_int_equal(model_init(&model, &shape, dtype, &err), STATUS_OK);
        const int64_t shard = shard_elems(model.units[1].elems, 3), padded = 3 * shard;
        struct state whole = state_new(dtype, padded), cut = state_new(dtype, padded);
        update_range(kernels, &model, &whole, 0, padded);
        for (int rank = 0; rank < 3; rank++) update_range(kernels, &model, &cut, rank * shard, shard);
        assert_memory_equal(whole.master, cut.master, (size_t)padded * 4);
        assert_memory_equal(whole.m, cut.m, (size_t)padded * 4);
        assert_memory_equal(whole.v, cut.v, (size_t)padded * 4);
        assert_memory_equal(whole.parameters, cut.parameters, (size_t)padded * 4);
        for (int64_t i = 0; i < model.units[1].elems; i++) {
            const float expected = whole.master[i];
            assert_true(element_at(dtype, whole.parameters, i) ==
                        (dtype == DTYPE_BF16 ? bf16_to_float(float_to_bf16(expected)) : expected));
        }
        state_free(&whole);
        state_free(&cut);
        model_release(&model);
    }
    kernels_free(kernels);
}

static void only_matrices_decay(void **unused)
{
    (void)unused;
    const struct config_model shape = {"small", 1, 20, 2, 9, 31};
    struct kernels *kernels = kernels_open(NULL);
    struct model model;
    struct error err;
    assert_int_equal(model_init(&model, &shape, DTYPE_F32, &err), STATUS_OK);
    const struct unit *unit = &model.units[1];
    float *ones = calloc((size_t)unit->elems, 4), *zeros = calloc((size_t)unit->elems * 3, 4);
    for (int64_t i = 0; i < unit->elems; i++) ones[i] = 1;
    adamw_update(kernels, &model, 1, 0, unit->elems, &usual, zeros, ones, zeros + unit->elems, zeros + 2 * unit->elems,
                 ones);
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        for (int64_t i = 0; i < tensor->elems; i++)
            assert_true(ones[tensor->offset + i] == (tensor->columns > 1 ? (float)(1 - 0.01f * (double)0.1f) : 1));
    }
    free(ones), free(zeros);
    model_release(&model);
    kernels_free(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_follow_pytorch),
        cmocka_unit_test(bits_ignore_how_a_unit_is_cut),
        cmocka_unit_test(only_matrices_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
