/* What `zerolab plan --fit` stands on: more layers never need less, a limit holds to the byte, what is cheaper does not fit, and
 * the family that grows goes through GPT-2's four sizes. That what fits trains is tests/test_fit.sh's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/config/resolve.h"
#include "engine/plan/fit.h"

static struct config config_with(const char *const *sets, int count)
{
    struct config config;
    struct error err = {.text = ""};
    if (config_load(&config, NULL, sets, count, &err)) fail_msg("%s", err.text);
    return config;
}

static const char *const bf16[] = {"bf16.enabled=true", "topology.ranks=3"};
static const char *const offloaded[] = {"bf16.enabled=true", "model.recompute=full",
                                        "activation_checkpointing.cpu_checkpointing=true",
                                        "gradient_accumulation_steps=2", "schedule.update_tile=30000"};

static void grow_and_compare(const char *const *sets, int count)
{
    struct config config = config_with(sets, count);
    for (int s = 0; s < FIT_SETUPS; s++) {
        int64_t before[FIT_LIMITS] = {0};
        for (int layers = 1; layers <= 24; layers++) {
            struct config deeper = config;
            struct fit_setup setup = fit_setups[s];
            struct fit_plan plan;
            setup.recompute = config.zero.recompute;
            fit_grow(&deeper, layers, FIT_GROW_DEEPER);
            assert_int_equal(fit_apply(&deeper, &setup, ".", NULL), STATUS_OK);
            fit_plan_of(&plan, &deeper);
            assert_true(plan.planned);
            for (int limit = 0; limit < FIT_LIMITS; limit++) {
                assert_true(plan.need[limit].bytes >= before[limit]);
                before[limit] = plan.need[limit].bytes;
            }
        }
    }
    config_release(&config);
}

static void test_more_layers_never_need_less(void **state)
{
    (void)state;
    grow_and_compare(NULL, 0);
    grow_and_compare(bf16, 2);
    grow_and_compare(offloaded, 5);
}

static void test_limits_hold_to_the_byte(void **state)
{
    (void)state;
    struct config config = config_with(bf16, 2);
    for (int s = 0; s < FIT_SETUPS; s++)
        for (int limit = 0; limit < FIT_LIMITS; limit++) {
            struct fit_limits limits = {.folder = "."};
            struct fit_depth depth;
            struct config fixed = config;
            struct fit_plan plan;
            fit_grow(&fixed, 7, FIT_GROW_DEEPER);
            assert_int_equal(fit_apply(&fixed, &fit_setups[s], ".", NULL), STATUS_OK);
            fit_plan_of(&plan, &fixed);
            if (plan.need[limit].bytes == 0) continue;
            limits.bytes[limit] = (uint64_t)plan.need[limit].bytes;
            assert_true(fit_fits(&plan, &limits));
            fit_deepest(&depth, &config, &fit_setups[s], &limits, FIT_GROW_DEEPER);
            assert_true(depth.layers >= 7); /* of what does not grow a limit lets more through */
            limits.bytes[limit]--;
            assert_false(fit_fits(&plan, &limits));
            assert_int_equal(fit_stop(&plan, &limits), limit);
            assert_int_equal(fit_short(&plan, &limits, (enum fit_limit)limit), 1);
            fit_deepest(&depth, &config, &fit_setups[s], &limits, FIT_GROW_DEEPER);
            assert_true(depth.layers < 7);
            assert_true(fit_fits(&depth.plan, &limits) || depth.layers == 0);
            assert_false(fit_fits(&depth.next, &limits));
        }
    config_release(&config);
}

static int64_t cost(const struct fit_plan *plan, int what)
{
    const int64_t costs[] = {plan->nvme_bytes, plan->bus_bytes, plan->flops.recomputed, plan->sent_bytes};
    return costs[what];
}

static void test_the_cheapest_is_the_first_that_fits(void **state)
{
    (void)state;
    struct config config = config_with(bf16, 2);
    int chosen[2] = {-1, -1};
    for (uint64_t budget = 1000000; budget < 20000000; budget += 500000) {
        const struct fit_limits limits = {.bytes = {budget, 4000000}, .folder = "."};
        struct fit_cheapest answer;
        fit_cheapest(&answer, &config, &limits);
        assert_int_equal(answer.count, FIT_SETUPS * FIT_RECOMPUTES);
        for (int c = 0; c < answer.count && c != answer.chosen; c++)
            assert_false(fit_fits(&answer.candidates[c].plan, &limits));
        for (int c = 1; c < answer.count; c++) { /* the first figure in which two differ is the lower one's */
            int what = 0;
            const struct fit_plan *one = &answer.candidates[c - 1].plan, *other = &answer.candidates[c].plan;
            while (what < 4 && cost(one, what) == cost(other, what)) what++;
            if (what < 4) assert_true(cost(one, what) < cost(other, what));
        }
        if (answer.chosen >= 0) assert_true(fit_fits(&answer.candidates[answer.chosen].plan, &limits));
        if (chosen[1] >= 0)
            assert_true(answer.chosen >= 0 && answer.chosen <= chosen[1]); /* more room is never dearer */
        chosen[answer.chosen >= 0] = answer.chosen;
    }
    assert_int_equal(chosen[1], 0); /* with 20 MB: stage 0 */
    config_release(&config);
}

static void test_what_is_given_stays(void **state)
{
    (void)state;
    const char *const given[] = {"model.recompute=attention", "zero_optimization.offload_param.max_in_cpu=5"};
    struct config config = config_with(given, 2);
    struct fit_cheapest answer;
    const struct fit_limits limits = {.folder = "/somewhere"};
    const struct fit_setup setup = {.stage = 3, .param = OFFLOAD_NVME, .recompute = RECOMPUTE_ATTENTION};
    fit_cheapest(&answer, &config, &limits);
    assert_int_equal(answer.count, FIT_SETUPS);
    for (int c = 0; c < answer.count; c++) assert_int_equal(answer.candidates[c].setup.recompute, RECOMPUTE_ATTENTION);
    assert_int_equal(fit_apply(&config, &setup, limits.folder, NULL), STATUS_OK);
    assert_int_equal(config.zero.max_in_cpu_elems, 5);
    assert_string_equal(config_nvme_path(&config, true), "/somewhere");
    config_release(&config);
}

/* A run with delayed updates has other steps too, and they have to fit. */
static void test_first_steps_count(void **state)
{
    (void)state;
    const char *const delayed[] = {"zero_optimization.stage=2", "zero_optimization.offload_optimizer.device=cpu",
                                   "schedule.delayed_update=true"};
    struct config config = config_with(delayed, 3);
    struct fit_plan with, without;
    fit_plan_of(&with, &config);
    config.zero.delayed_update = false;
    fit_plan_of(&without, &config);
    for (int tier = 0; tier < TIERS; tier++) assert_true(with.need[tier].bytes >= without.need[tier].bytes);
    config_release(&config);
}

static void test_the_family_goes_through_gpt2(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
    struct config config = config_with(fit_family_sets, FIT_FAMILY_SETS);
    int64_t before = 0;
    for (int n = 0; n < 4; n++) {
        const struct config_model *published = config_model_named(names[n]);
        fit_grow(&config, published->layers, FIT_GROW_AS_GPT2);
        assert_int_equal(config.model.hidden, published->hidden);
        assert_int_equal(config.model.heads, published->heads);
    }
    for (int layers = 1; layers <= FIT_LAYERS_MAX; layers += 7) {
        struct model model;
        fit_grow(&config, layers, FIT_GROW_AS_GPT2);
        assert_int_equal(config_check(&config, NULL), STATUS_OK);
        assert_int_equal(model_of(&model, &config, NULL), STATUS_OK);
        assert_true(model.elems > before);
        before = model.elems;
        model_release(&model);
    }
    config_release(&config);
    const char *layers = "model.layers=1000";
    config = config_with(&layers, 1);
    assert_int_equal(config.model.layers, FIT_LAYERS_MAX);
    config_release(&config);
    layers = "model.layers=1001";
    assert_int_not_equal(config_load(&config, NULL, &layers, 1, NULL), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_layers_never_need_less),
        cmocka_unit_test(test_limits_hold_to_the_byte),
        cmocka_unit_test(test_the_cheapest_is_the_first_that_fits),
        cmocka_unit_test(test_what_is_given_stays),
        cmocka_unit_test(test_first_steps_count),
        cmocka_unit_test(test_the_family_goes_through_gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
