/* The engine, with ranks as threads: every stage the same bits, every byte as planned, and out of memory as an outcome. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/zero_runs.h"

static void same_bits(bool bf16, const char *ranks, const char *extra)
{
    const int steps = 12;
    struct plan_of_run plan = base(steps, ranks, stage_sets[0], bf16);
    if (extra) set(&plan, extra);
    struct outcome_of_run reference = run(&plan);
    assert_true(reference.loss[steps - 1] < reference.loss[0]);
    for (int stage = 1; stage <= 3; stage++) {
        plan.sets[1] = stage_sets[stage];
        struct outcome_of_run other = run(&plan);
        expect_same(&reference, &other, steps, stage_sets[stage]);
    }
    plan.sets[1] = stage_sets[0];
    plan.switch_count = 5;
    for (int s = 0; s < 5; s++)
        plan.switches[s].before_step = 2 + 2 * s, plan.switches[s].stage = (int[]){1, 2, 3, 0, 3}[s];
    struct outcome_of_run switched = run(&plan);
    expect_same(&reference, &switched, steps, "switching");
}

static void test_same_bits_fp32(void **state)
{
    (void)state;
    same_bits(false, "topology.ranks=4", NULL);
}
static void test_same_bits_bf16(void **state)
{
    (void)state;
    same_bits(true, "topology.ranks=4", NULL);
}
static void test_same_bits_three_ranks(void **state)
{
    (void)state;
    same_bits(true, "topology.ranks=3", NULL);
}
static void test_same_bits_odd_vocabulary(void **state)
{
    (void)state;
    same_bits(true, "topology.ranks=2", "model.vocabulary=263");
}

/* The built-in model too. */
static void test_same_bits_nano(void **state)
{
    (void)state;
    const int steps = 3;
    struct plan_of_run plan = base(steps, "topology.ranks=2", stage_sets[0], true);
    plan.nano = true;
    struct outcome_of_run reference = run(&plan);
    plan.sets[1] = stage_sets[3];
    struct outcome_of_run other = run(&plan);
    expect_same(&reference, &other, steps, "nano at stage 3");
}

static void test_knobs_do_not_change_learning(void **state)
{
    (void)state;
    static const char *const knobs[][3] = {
        {"zero_optimization.reduce_bucket_size=1000", "zero_optimization.stage3_prefetch_bucket_size=0",
         "zero_optimization.overlap_comm=false"},
        {"zero_optimization.reduce_bucket_size=100000000", "zero_optimization.stage3_prefetch_bucket_size=100000000",
         "zero_optimization.stage3_max_reuse_distance=1000000000"},
        {"zero_optimization.allgather_bucket_size=10000", "zero_optimization.stage3_param_persistence_threshold=1280",
         "zero_optimization.stage3_max_live_parameters=25000"},
        {"zero_optimization.allgather_bucket_size=10000", "zero_optimization.stage3_param_persistence_threshold=100000",
         "zero_optimization.overlap_comm=true"},
    };
    struct plan_of_run plan = base(6, "topology.ranks=4", stage_sets[0], true);
    struct outcome_of_run reference = run(&plan);
    for (int k = 0; k < 4; k++)
        for (int stage = 1; stage <= 3; stage++) {
            plan = base(6, "topology.ranks=4", stage_sets[stage], true);
            for (int i = 0; i < 3; i++) set(&plan, knobs[k][i]);
            struct outcome_of_run other = run(&plan);
            expect_same(&reference, &other, 6, knobs[k][0]);
        }
}

/* Stages 0 and 1 reduce once, 2 and 3 every micro-step: bits agree within the pairs, values across them. */
static void test_accumulation(void **state)
{
    (void)state;
    struct outcome_of_run out[4];
    for (int stage = 0; stage <= 3; stage++) {
        struct plan_of_run plan = base(6, "topology.ranks=4", stage_sets[stage], false);
        set(&plan, "gradient_accumulation_steps=4");
        set(&plan, "train_micro_batch_size_per_gpu=2");
        out[stage] = run(&plan);
    }
    expect_same(&out[0], &out[1], 6, "stage 1 against 0");
    expect_same(&out[2], &out[3], 6, "stage 3 against 2");
    float worst = 0;
    for (int s = 0; s < 6; s++) {
        float difference = (out[2].loss[s] - out[0].loss[s]) / out[0].loss[s];
        if (difference < 0) difference = -difference;
        if (difference > worst) worst = difference;
    }
    print_message("accumulation 4: stages {0,1} and {2,3} differ by %.3g relative at most\n", (double)worst);
    assert_true(worst <= 1e-5f);
}

static void test_memory_is_as_planned(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct plan_of_run plan = base(4, "topology.ranks=4", stage_sets[stage], bf16);
            struct outcome_of_run out;
            double measured = 0, planned = 1;
            for (int i = 0; i < 3 && measured < 0.98 * planned; i++) { /* on a busy machine a prefetch may come late */
                out = run(&plan);
                measured = (double)out.memory.tier[TIER_DEVICE].peak_bytes;
                planned = (double)out.footprint.peak_bytes[TIER_DEVICE];
            }
            static const enum category states[] = {CATEGORY_PARAMETERS, CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER};
            for (int c = 0; c < 3; c++)
                assert_int_equal(out.memory.category[TIER_DEVICE][states[c]].peak_bytes,
                                 out.footprint.category[TIER_DEVICE][states[c]].peak_bytes);
            print_message("stage %d %s: peak %.0f of %.0f planned\n", stage, bf16 ? "bf16" : "fp32", measured, planned);
            assert_true(measured <= planned && measured >= 0.98 * planned);
            assert_int_equal(out.memory.tier[TIER_DEVICE].live_bytes, out.footprint.resting_bytes[TIER_DEVICE]);
        }
}

/* A budget between stage 3's need and stage 0's: the step fails on all ranks, nothing is lost, stage 3 goes on. */
static void test_out_of_memory_and_back(void **state)
{
    (void)state;
    struct plan_of_run plan = base(8, "topology.ranks=4", stage_sets[3], true);
    struct outcome_of_run reference = run(&plan);
    uint64_t stage3 = (uint64_t)reference.footprint.peak_bytes[TIER_DEVICE];
    plan = base(8, "topology.ranks=4", stage_sets[0], true);
    plan.rescue_stage = 3;
    uint64_t resting0 = 16 * (uint64_t)reference.model_elems;
    plan.budget_bytes = resting0 + 500000; /* the state fits, the step does not */
    struct outcome_of_run rescued = run(&plan);
    assert_int_equal(rescued.shortages, 1);
    assert_true(rescued.shortage.op >= 0 && rescued.shortage.wanted_bytes > 0);
    expect_same(&reference, &rescued, 8, "rescued in a step");
    plan.budget_bytes = stage3 + 65536; /* not even the state of stage 0 fits */
    assert_true(plan.budget_bytes < resting0);
    rescued = run(&plan);
    assert_int_equal(rescued.shortages, 1);
    assert_int_equal(rescued.shortage.op, -1);
    expect_same(&reference, &rescued, 8, "rescued at start-up");
}

/* A switch that does not fit is refused on all ranks, and training goes on where it was. */
static void test_switch_that_does_not_fit(void **state)
{
    (void)state;
    struct plan_of_run plan = base(8, "topology.ranks=4", stage_sets[3], true);
    struct outcome_of_run reference = run(&plan);
    plan.budget_bytes = (uint64_t)reference.footprint.peak_bytes[TIER_DEVICE] + 65536;
    plan.switch_count = 1;
    plan.switches[0].before_step = 4;
    plan.switches[0].stage = 0;
    struct outcome_of_run stayed = run(&plan);
    expect_same(&reference, &stayed, 8, "after a refused switch");
    assert_int_equal(stayed.memory.tier[TIER_DEVICE].live_bytes, reference.memory.tier[TIER_DEVICE].live_bytes);
}

static void test_evaluation_changes_nothing(void **state)
{
    (void)state;
    struct plan_of_run plan = base(5, "topology.ranks=2", stage_sets[3], false);
    struct outcome_of_run reference = run(&plan);
    plan.evaluate = true;
    struct outcome_of_run evaluated = run(&plan);
    expect_same(&reference, &evaluated, 5, "with evaluation");
    assert_true(evaluated.validation > 1 && evaluated.validation < 6);
}

/* ---- virtual nodes ---- */

static _Atomic uint64_t sent[TRAFFIC_KINDS][2]; /* by all ranks in a step, by link */

static void add_sent(struct zero *zero, int rank, int step)
{
    (void)rank;
    for (int kind = 0; kind < TRAFFIC_KINDS && step == 2; kind++)
        for (int link = 0; link < 2; link++) sent[kind][link] += zero->trace.traffic[kind].sent_bytes[link];
}

/* What ranks of other nodes get is the part that the plan paces as such. */
static double inter_share(int ranks, int per_node)
{
    return traffic_inter_share(&(struct schedule){.ranks = ranks}, GROUP_WORLD, per_node);
}

static void test_nodes_share_the_traffic(void **state)
{
    (void)state;
    static const char *const nodes[] = {"topology.ranks_per_node=2", "topology.ranks_per_node=1"};
    static const double share[] = {2.0 / 3, 1};
    for (int n = 0; n < 2; n++)
        for (int stage = 0; stage <= 3; stage += 3) {
            struct plan_of_run plan = base(2, "topology.ranks=4", stage_sets[stage], true);
            set(&plan, nodes[n]);
            plan.before_step = add_sent;
            memset(sent, 0, sizeof sent);
            run(&plan);
            assert_float_equal(inter_share(4, (int[]){2, 1}[n]), share[n], 1e-9);
            for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
                const double all = (double)(sent[kind][0] + sent[kind][1]);
                if (kind != TRAFFIC_CONTROL) assert_float_equal((double)sent[kind][1], share[n] * all, 1e-9 * all);
            }
            assert_true(sent[stage ? TRAFFIC_REDUCE_SCATTER : TRAFFIC_ALL_REDUCE][1] > 0);
        }
    assert_true(inter_share(4, 0) == 0 && inter_share(4, 4) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_fp32),
        cmocka_unit_test(test_same_bits_bf16),
        cmocka_unit_test(test_same_bits_three_ranks),
        cmocka_unit_test(test_same_bits_odd_vocabulary),
        cmocka_unit_test(test_same_bits_nano),
        cmocka_unit_test(test_knobs_do_not_change_learning),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_memory_is_as_planned),
        cmocka_unit_test(test_out_of_memory_and_back),
        cmocka_unit_test(test_switch_that_does_not_fit),
        cmocka_unit_test(test_evaluation_changes_nothing),
        cmocka_unit_test(test_nodes_share_the_traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
