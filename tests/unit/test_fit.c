/* What `zerolab plan --fit` stands on: more layers never need less, a limit holds to the byte, what is cheaper does not fit, and
 * the family that grows goes through GPT-2's four sizes. That what fits trains is tests/program/test_fit.sh's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/advise/fit.h"
#include "engine/config/resolve.h"

static struct config config_with(const char *const *sets, int count)
{
    struct config config;
    struct error err = {.text = ""};
    if (config_load(&config, "configs/nano.json", sets, count, &err)) fail_msg("%s", err.text);
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

enum { COSTS = 6 };

static int64_t cost(const struct fit_candidate *candidate, int what)
{
    const struct fit_plan *plan = &candidate->plan;
    const int64_t costs[COSTS] = {plan->nvme_bytes,       plan->bus_bytes,        plan->flops.recomputed,
                                  candidate->setup.tiles, candidate->setup.sizes, plan->sent_bytes};
    return costs[what];
}

/* By the first figure in which two differ. */
static bool is_dearer(const struct fit_candidate *one, const struct fit_candidate *other)
{
    int what = 0;
    while (what < COSTS && cost(one, what) == cost(other, what)) what++;
    return what < COSTS && cost(one, what) > cost(other, what);
}

static void test_the_cheapest_is_the_first_that_fits(void **state)
{
    (void)state;
    struct config config = config_with(bf16, 2);
    struct fit_candidate before = {.setup.stage = -1};
    for (uint64_t budget = 1000000; budget < 20000000; budget += 500000) {
        const struct fit_limits limits = {.bytes = {budget, 4000000}, .folder = "."};
        struct fit_cheapest answer;
        fit_cheapest(&answer, &config, &limits);
        assert_in_range(answer.count, FIT_SETUPS * FIT_RECOMPUTES, 2 * FIT_SETUPS * FIT_RECOMPUTES);
        for (int c = 0; c < answer.count && c != answer.chosen; c++)
            assert_false(fit_fits(&answer.candidates[c].plan, &limits));
        for (int c = 1; c < answer.count; c++)
            assert_false(is_dearer(&answer.candidates[c - 1], &answer.candidates[c]));
        assert_true(answer.chosen >= 0 || before.setup.stage < 0);
        if (answer.chosen < 0) continue;
        assert_true(fit_fits(&answer.candidates[answer.chosen].plan, &limits));
        if (before.setup.stage >= 0) /* more room is never dearer */
            assert_false(is_dearer(&answer.candidates[answer.chosen], &before));
        before = answer.candidates[answer.chosen];
    }
    assert_int_equal(before.setup.stage, 0); /* with 20 MB */
    config_release(&config);
}

/* A wide model with everything in host memory: what does not fit is one block at once. */
static void test_tiles_save_what_nothing_else_does(void **state)
{
    (void)state;
    static const char *const wide[] = {"model.layers=2",
                                       "model.hidden=512",
                                       "zero_optimization.stage3_prefetch_bucket_size=0",
                                       "zero_optimization.reduce_bucket_size=100000",
                                       "zero_optimization.overlap_comm=false",
                                       "model.mlp_tiles=1"};
    struct config config = config_with(wide, 5), given = config_with(wide, 6);
    const struct fit_setup setup = {
        .stage = 3, .optimizer = OFFLOAD_CPU, .param = OFFLOAD_CPU, .recompute = RECOMPUTE_FULL};
    struct fit_setup tiled = setup;
    struct fit_limits limits = {.folder = "."};
    struct fit_plan plan;
    struct fit_cheapest answer;
    fit_plan_setup(&plan, &config, &setup, ".");
    limits.bytes[FIT_DEVICE] = (uint64_t)plan.need[FIT_DEVICE].bytes - 1;
    tiled.tiles = 2;
    fit_plan_setup(&plan, &config, &tiled, ".");
    assert_true(plan.need[FIT_DEVICE].bytes < (int64_t)limits.bytes[FIT_DEVICE]);
    limits.bytes[FIT_DEVICE] = (uint64_t)plan.need[FIT_DEVICE].bytes;
    fit_cheapest(&answer, &config, &limits);
    assert_true(answer.chosen >= 0);
    const struct fit_candidate *chosen = &answer.candidates[answer.chosen];
    assert_true(chosen->setup.tiles > 1 && fit_fits(&chosen->plan, &limits));
    for (int c = 0; c < answer.count; c++)
        assert_false(answer.candidates[c].setup.tiles == 1 && fit_fits(&answer.candidates[c].plan, &limits));
    fit_apply(&config, &chosen->setup, ".", NULL); /* what is said to be set is what was planned */
    fit_plan_of(&plan, &config);
    assert_int_equal(plan.need[FIT_DEVICE].bytes, chosen->plan.need[FIT_DEVICE].bytes);
    fit_cheapest(&answer, &given, &limits); /* where tiles are given, they are not chosen */
    assert_int_equal(answer.chosen, -1);
    limits.bytes[FIT_DEVICE] = 0;
    limits.bytes[FIT_HOST] = 1000; /* of no use to host memory */
    fit_cheapest(&answer, &config, &limits);
    for (int c = 0; c < answer.count; c++) assert_int_equal(answer.candidates[c].setup.tiles, config.mlp_tiles);
    config_release(&config);
    config_release(&given);
}

/* DeepSpeed's own sizes: what stands in the way is what they keep gathered and unreduced. */
static void count_sets(void *user, const char *key, const char *value)
{
    const char *sizes[] = {"zero_optimization.stage3_prefetch_bucket_size=198272",
                           "zero_optimization.stage3_max_reuse_distance=0",
                           "zero_optimization.reduce_bucket_size=198272"};
    char line[200];
    snprintf(line, sizeof line, "%s=%s", key, value);
    for (int s = 0; s < 3; s++) *(int *)user += !strcmp(line, sizes[s]);
}

static void test_smaller_sizes_make_room(void **state)
{
    (void)state;
    const char *const foreign[] = {"zero_optimization.reduce_bucket_size=500000000",
                                   "zero_optimization.stage3_prefetch_bucket_size=50000000",
                                   "zero_optimization.stage3_max_reuse_distance=1000000000"};
    struct config config = config_with(foreign, 3), own = config_with(NULL, 0);
    struct fit_limits limits = {.folder = "."};
    struct fit_setup setup = {.stage = 3};
    struct fit_cheapest answer;
    struct fit_plan plan, scaled;
    int sets = 0;
    fit_plan_setup(&plan, &config, &setup, ".");
    fit_plan_setup(&scaled, &own, &setup, ".");
    setup.sizes = SIZES_BLOCK;
    fit_plan_setup(&plan, &config, &setup, ".");
    assert_int_equal(plan.need[FIT_DEVICE].bytes, scaled.need[FIT_DEVICE].bytes);
    fit_sets(&config, &setup, ".", count_sets, &sets);
    assert_int_equal(sets, 3);
    limits.bytes[FIT_DEVICE] = (uint64_t)plan.need[FIT_DEVICE].bytes;
    fit_cheapest(&answer, &config, &limits);
    assert_true(answer.chosen >= 0);
    const struct fit_setup *chosen = &answer.candidates[answer.chosen].setup;
    assert_true(chosen->stage == 3 && !chosen->optimizer && !chosen->recompute && chosen->sizes == SIZES_BLOCK);
    config_release(&config);
    config_release(&own);
}

/* The caller frees. */
static char *page_of(const struct fit_question *question)
{
    char *page = NULL;
    size_t length;
    FILE *out = open_memstream(&page, &length);
    struct fit_answer *answer = fit_answer(question, NULL);
    assert_non_null(answer);
    assert_int_equal(fit_print(out, false, question, answer, NULL), STATUS_OK);
    fclose(out);
    free(answer);
    return page;
}

/* A limit that nobody gave is this machine's; that of the model's depth is no memory's. */
static void test_limits_that_nobody_gave_are_named(void **state)
{
    (void)state;
    const char *const given[] = {"memory.device_budget=80GB", "topology.ranks=8"};
    struct config config = config_with(given, 2);
    struct fit_question question = {
        .config = &config, .limits = {.bytes = {[FIT_DEVICE] = 80000000000, [FIT_MEMORY] = 32000000}, .folder = "."}};
    char *page = page_of(&question);
    assert_non_null(strstr(page, "limited by this machine's memory (30.52 MiB for 8 ranks):\n"
                                 "  memory.host_budget=... plans for another"));
    assert_null(strstr(page, "layers are looked at"));
    free(page);
    question.limits.bytes[FIT_MEMORY] = 0;
    page = page_of(&question);
    assert_null(strstr(page, "limited by"));
    assert_non_null(strstr(page, "search limit"));
    assert_non_null(strstr(page, "no more than 1000 layers are looked at"));
    free(page);
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

/* zerolab plan --fit: each --set stands in every setup that is offered; a setup that would need another value is none. */
static void test_sets_stay(void **state)
{
    (void)state;
    const char *const sets[] = {"zero_optimization.stage=2", "zero_optimization.reduce_bucket_size=12345",
                                "schedule.update_tile=777777777", "zero_optimization.offload_optimizer.device=cpu"};
    struct config config = config_with(sets, 4);
    struct fit_answer *answer;
    const struct fit_question question = {.config = &config, .limits = {.folder = ".", .keep_sets = true}};
    struct fit_limits changes = question.limits;
    struct fit_cheapest free_of_sets;
    assert_non_null(answer = fit_answer(&question, NULL));
    int planned = 0;
    for (int c = 0; c < answer->cheapest.count; c++) {
        const struct fit_candidate *candidate = &answer->cheapest.candidates[c];
        struct config changed = config;
        if (!candidate->plan.planned) {
            assert_non_null(strstr(candidate->plan.refusal, "--set "));
            continue;
        }
        planned++;
        assert_int_equal(fit_apply(&changed, &candidate->setup, ".", NULL), STATUS_OK);
        assert_int_equal(changed.zero.stage, 2);
        assert_int_equal(changed.zero.offload_optimizer, OFFLOAD_CPU);
        assert_int_equal(changed.zero.reduce_bucket_elems, 12345);
        assert_int_equal(changed.zero.update_tile_elems, 777777777);
    }
    assert_true(planned >= FIT_RECOMPUTES);
    for (int d = 0; d < FIT_SETUPS; d++)
        assert_int_equal(answer->depths[d].layers > 0,
                         fit_setups[d].stage == 2 && fit_setups[d].optimizer == OFFLOAD_CPU);
    changes.keep_sets = false; /* a shortage is answered with changes */
    fit_cheapest(&free_of_sets, &config, &changes);
    assert_int_equal(free_of_sets.candidates[free_of_sets.chosen].setup.stage, 0);
    fit_grow(&config, 24, FIT_GROW_AS_GPT2);
    assert_int_equal(config.zero.reduce_bucket_elems, 12345);
    assert_true(config.zero.allgather_bucket_elems > 12345);
    free(answer);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_layers_never_need_less),
        cmocka_unit_test(test_limits_hold_to_the_byte),
        cmocka_unit_test(test_the_cheapest_is_the_first_that_fits),
        cmocka_unit_test(test_tiles_save_what_nothing_else_does),
        cmocka_unit_test(test_smaller_sizes_make_room),
        cmocka_unit_test(test_limits_that_nobody_gave_are_named),
        cmocka_unit_test(test_what_is_given_stays),
        cmocka_unit_test(test_sets_stay),
        cmocka_unit_test(test_first_steps_count),
        cmocka_unit_test(test_the_family_goes_through_gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
