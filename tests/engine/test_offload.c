/* States, gradients and parameters in the host tier: the same bits as on the device, every byte as planned, live switches of
 * tier, and a budget that does not suffice as an outcome. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/zero_runs.h"

#define OPTIMIZER  "zero_optimization.offload_optimizer.device=cpu"
#define PARAMETERS "zero_optimization.offload_param.device=cpu"
#define RATIO      "zero_optimization.offload_optimizer.ratio=0.5"

/* What can lie in host memory, by stage. */
static const struct setup {
    int stage;
    const char *first, *second, *third;
} setups[] = {{1, OPTIMIZER, NULL, NULL},       {2, OPTIMIZER, NULL, NULL},  {3, OPTIMIZER, NULL, NULL},
              {3, OPTIMIZER, PARAMETERS, NULL}, {3, PARAMETERS, NULL, NULL}, {3, OPTIMIZER, RATIO, NULL},
              {3, OPTIMIZER, RATIO, PARAMETERS}};
enum { SETUPS = sizeof setups / sizeof *setups };

static struct plan_of_run plan_of(const struct setup *setup, int steps, const char *ranks, const char *precision)
{
    struct plan_of_run plan = {.steps = steps, .rescue_stage = -1};
    set(&plan, ranks);
    set(&plan, stage_sets[setup->stage]);
    set(&plan, "gradient_clipping=0.5");
    if (precision) set(&plan, precision);
    if (setup->first) set(&plan, setup->first);
    if (setup->second) set(&plan, setup->second);
    if (setup->third) set(&plan, setup->third);
    return plan;
}

static const struct setup plain = {0, NULL, NULL, NULL};

static const char *name_of(const struct setup *setup)
{
    static char name[240];
    snprintf(name, sizeof name, "stage %d %s %s %s", setup->stage, setup->first ? setup->first : "",
             setup->second ? setup->second : "", setup->third ? setup->third : "");
    return name;
}

enum { EXTRAS = 8 };

static struct outcome_of_run run_with(const struct setup *setup, int steps, const char *ranks, const char *precision,
                                      const char *const extras[EXTRAS])
{
    struct plan_of_run plan = plan_of(setup, steps, ranks, precision);
    for (int i = 0; i < EXTRAS && extras && extras[i]; i++) set(&plan, extras[i]);
    return run(&plan);
}

/* What one step writes wrong shows in the losses of those after it, and in the state's hash. */
enum { STEPS = 4, STEPS_SKIPPING = 8 };

static void all_the_same(const struct setup *reference, int steps, const char *ranks, const char *precision,
                         const char *const extras[EXTRAS])
{
    struct outcome_of_run want = run_with(reference, steps, ranks, precision, extras);
    for (int s = 0; s < SETUPS; s++) {
        struct outcome_of_run got = run_with(&setups[s], steps, ranks, precision, extras);
        expect_same(&want, &got, steps, name_of(&setups[s]));
    }
}

static void test_same_bits_fp32(void **state)
{
    (void)state;
    all_the_same(&plain, STEPS, "topology.ranks=4", NULL, NULL);
}

/* The first scales overflow: those steps are dropped. */
static void test_same_bits_fp16(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"fp16.initial_scale_power=20", "fp16.hysteresis=1"};
    struct outcome_of_run out = run_with(&setups[1], STEPS_SKIPPING, "topology.ranks=4", "fp16.enabled=true", extras);
    assert_true(out.skipped[0] && !out.skipped[STEPS_SKIPPING - 1]);
    all_the_same(&plain, STEPS_SKIPPING, "topology.ranks=4", "fp16.enabled=true", extras);
}

static void test_same_bits_three_ranks(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"model.vocabulary=263", "schedule.update_tile=5000"};
    all_the_same(&plain, STEPS, "topology.ranks=3", "bf16.enabled=true", extras);
    all_the_same(&plain, STEPS, "topology.ranks=1", "bf16.enabled=true", extras);
}

static void test_knobs_do_not_change_learning(void **state)
{
    (void)state;
    static const char *const extras[][EXTRAS] = {
        {"zero_optimization.reduce_bucket_size=1000", "zero_optimization.stage3_prefetch_bucket_size=0",
         "zero_optimization.overlap_comm=false", "zero_optimization.stage3_param_persistence_threshold=1280",
         "schedule.update_tile=1000"},
        {"zero_optimization.reduce_bucket_size=100000000", "zero_optimization.stage3_prefetch_bucket_size=100000000",
         "zero_optimization.stage3_max_reuse_distance=1000000000", "zero_optimization.allgather_bucket_size=10000"},
        {"zero_optimization.overlap_comm=true", "zero_optimization.stage3_param_persistence_threshold=100000",
         "zero_optimization.sub_group_size=3000", "communication_data_type=fp32", "data_types.grad_accum_dtype=fp32"},
    };
    for (int k = 0; k < 3; k++) all_the_same(&plain, STEPS, "topology.ranks=4", "bf16.enabled=true", extras[k]);
}

/* Stages 2 and 3 reduce every micro-step, and the host adds; stage 1 adds up on the device. */
static void test_accumulation(void **state)
{
    (void)state;
    static const char *const extras[][EXTRAS] = {
        {"gradient_accumulation_steps=3", "train_micro_batch_size_per_gpu=2"},
        {"gradient_accumulation_steps=3", "train_micro_batch_size_per_gpu=2", "data_types.grad_accum_dtype=fp32"},
        {"gradient_accumulation_steps=3", "train_micro_batch_size_per_gpu=2", "schedule.no_sync=true",
         "communication_data_type=fp32"}};
    for (int e = 0; e < 3; e++) {
        struct outcome_of_run want[4];
        for (int stage = 0; stage < 4; stage++)
            want[stage] = run_with(&(struct setup){stage, NULL, NULL, NULL}, STEPS, "topology.ranks=4",
                                   "bf16.enabled=true", extras[e]);
        for (int s = effort(e, e, 0); s < SETUPS; s += effort(3, 3, 1)) {
            struct outcome_of_run got = run_with(&setups[s], STEPS, "topology.ranks=4", "bf16.enabled=true", extras[e]);
            expect_same(&want[setups[s].stage], &got, STEPS, name_of(&setups[s]));
        }
    }
}

/* ---- live switches of tier ---- */

static void to_host(struct config_zero *knobs)
{
    knobs->offload_optimizer = OFFLOAD_CPU;
}
static void all_to_host(struct config_zero *knobs)
{
    knobs->offload_optimizer = knobs->offload_param = OFFLOAD_CPU;
}
static void parameters_to_host(struct config_zero *knobs)
{
    knobs->offload_param = OFFLOAD_CPU;
}

static void switching(const char *precision)
{
    static const struct {
        int stage;
        void (*change)(struct config_zero *);
    } path[] = {{1, to_host}, {3, all_to_host}, {3, parameters_to_host},
                {2, to_host}, {0, NULL},        {3, parameters_to_host},
                {3, NULL},    {3, to_host}};
    const int steps = 18;
    struct plan_of_run plan = plan_of(&plain, steps, "topology.ranks=4", precision);
    struct outcome_of_run want = run(&plan);
    for (int s = 0; s < SWITCHES_MAX; s++) {
        plan.switches[s].before_step = 2 + 2 * s;
        plan.switches[s].stage = path[s].stage;
        plan.switches[s].change = path[s].change;
    }
    plan.switch_count = SWITCHES_MAX;
    struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, steps, "switching tiers");
    assert_int_equal(got.memory.tier[TIER_HOST].live_bytes, got.footprint.resting_bytes[TIER_HOST]);
    assert_int_equal(got.memory.tier[TIER_DEVICE].live_bytes, got.footprint.resting_bytes[TIER_DEVICE]);
}

static void test_switching_fp32(void **state)
{
    (void)state;
    switching(NULL);
}

static void test_switching_bf16(void **state)
{
    (void)state;
    switching("bf16.enabled=true");
}

/* ---- memory ---- */

static void test_bf16_memory_as_planned_and_same_bits(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"zero_optimization.stage3_param_persistence_threshold=1280"};
    struct outcome_of_run want = run_with(&plain, STEPS, "topology.ranks=4", "bf16.enabled=true", extras);
    for (int s = 0; s < SETUPS; s++) {
        struct outcome_of_run out = run_with(&setups[s], STEPS, "topology.ranks=4", "bf16.enabled=true", extras);
        expect_same(&want, &out, STEPS, name_of(&setups[s]));
        for (int tier = 0; tier <= TIER_HOST; tier++) {
            const int64_t measured = (int64_t)out.memory.tier[tier].peak_bytes,
                          planned = out.footprint.peak_bytes[tier];
            print_message("%s: %s peak %lld of %lld planned\n", name_of(&setups[s]), tier_name((enum tier)tier),
                          (long long)measured, (long long)planned);
            assert_true(measured <= planned && measured >= out.footprint.resting_bytes[tier]); /* how near: by timing */
            for (int c = 0; c <= CATEGORY_OPTIMIZER; c++)
                assert_int_equal(out.memory.category[tier][c].peak_bytes, out.footprint.category[tier][c].peak_bytes);
            assert_int_equal(out.memory.tier[tier].live_bytes, out.footprint.resting_bytes[tier]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_fp32),        cmocka_unit_test(test_same_bits_fp16),
        cmocka_unit_test(test_same_bits_three_ranks), cmocka_unit_test(test_knobs_do_not_change_learning),
        cmocka_unit_test(test_accumulation),          cmocka_unit_test(test_switching_fp32),
        cmocka_unit_test(test_switching_bf16),        cmocka_unit_test(test_bf16_memory_as_planned_and_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
