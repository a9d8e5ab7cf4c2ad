/* ZeRO++'s secondary copies (hpZ): the bits of stage 3 without them, every byte as planned, within and across nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan/checker.h"
#include "tests/support/zero_runs.h"

#define ZERO "zero_optimization."

enum { STEPS = 4 };

static int64_t secondary_bytes(const struct outcome_of_run *out)
{
    return out->memory.category[TIER_DEVICE][CATEGORY_SECONDARY].peak_bytes;
}

/* A run of each knob on these ranks, with and without a copy: one hash, less across nodes, the copy as large as planned. */
static void expect_alike(const char *ranks, const char *per_node, const char *partition, const char *const *knobs, bool bf16)
{
    struct plan_of_run plan = base(STEPS, ranks, "zero_optimization.stage=3", bf16);
    if (per_node) set(&plan, per_node);
    for (; *knobs; knobs++) set(&plan, *knobs);
    struct outcome_of_run flat = run(&plan);
    set(&plan, partition);
    struct outcome_of_run copied = run(&plan);
    expect_same(&flat, &copied, STEPS, partition);
    assert_int_equal(secondary_bytes(&flat), 0);
    assert_true(secondary_bytes(&copied) > 0);
    assert_int_equal(secondary_bytes(&copied), copied.footprint.category[TIER_DEVICE][CATEGORY_SECONDARY].peak_bytes);
    assert_true(copied.ran[OP_SECONDARY] > 0 && flat.ran[OP_SECONDARY] == 0);
}

static void test_bits(void **state)
{
    (void)state;
    static const char *const knobs[][5] = {
        {NULL},
        {ZERO "stage3_prefetch_bucket_size=0", ZERO "overlap_comm=false"},
        {ZERO "stage3_prefetch_bucket_size=100000000", "schedule.keep_last_units=1"},
        {"gradient_accumulation_steps=3", "train_micro_batch_size_per_gpu=1"},
        {"model.recompute=full", "model.checkpoint_every=1"},
        {"model.mlp_tiles=4", ZERO "stage3_max_live_parameters=25000"},
        {ZERO "stage3_param_persistence_threshold=1280"},
        {ZERO "offload_param.device=cpu", ZERO "offload_optimizer.device=cpu"},
        {"schedule.no_sync=true", "gradient_accumulation_steps=2", ZERO "stage3_max_reuse_distance=20000"},
    };
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
        expect_alike("topology.ranks=4", "topology.ranks_per_node=2", ZERO "zero_hpz_partition_size=2", knobs[k], k % 2);
}

static void test_shapes(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    expect_alike("topology.ranks=6", "topology.ranks_per_node=3", ZERO "zero_hpz_partition_size=3", none, true);
    expect_alike("topology.ranks=8", "topology.ranks_per_node=4", ZERO "zero_hpz_partition_size=2", none, false);
    expect_alike("topology.ranks=4", NULL, ZERO "zero_hpz_partition_size=4", none, false);
}

/* Of a step, by all ranks. */
static _Atomic uint64_t across[STEPS + 1], all_sent[STEPS + 1];

static void add_sent(struct zero *zero, int rank, int step)
{
    (void)rank;
    for (int kind = 0; kind < TRAFFIC_CONTROL; kind++)
        for (int link = 0; link < 2; link++) {
            all_sent[step - 1] += zero->trace.traffic[kind].sent_bytes[link];
            if (link == LINK_INTER) across[step - 1] += zero->trace.traffic[kind].sent_bytes[link];
        }
}

static void copy_of_two(struct config_zero *knobs)
{
    knobs->hpz_partition = 2;
}

static void no_copy(struct config_zero *knobs)
{
    knobs->hpz_partition = 1;
}

/* 3 M across nodes without a copy, 2 M with one (ZeRO++, table 1), times the part of a model that other nodes have; live. */
static void test_live(void **state)
{
    (void)state;
    struct plan_of_run plan = base(STEPS, "topology.ranks=4", "zero_optimization.stage=3", true);
    set(&plan, "topology.ranks_per_node=2");
    struct outcome_of_run flat = run(&plan);
    plan.switches[0].before_step = 2, plan.switches[0].stage = 3, plan.switches[0].change = copy_of_two;
    plan.switches[1].before_step = 3, plan.switches[1].stage = 3, plan.switches[1].change = no_copy;
    plan.switches[2].before_step = 4, plan.switches[2].stage = 0, plan.switches[2].change = copy_of_two;
    plan.switch_count = 3;
    plan.before_step = add_sent;
    memset(across, 0, sizeof across);
    memset(all_sent, 0, sizeof all_sent);
    struct outcome_of_run live = run(&plan);
    expect_same(&flat, &live, STEPS, "live");
    const uint64_t model = (uint64_t)live.padded_elems * 2; /* M: bytes of 16-bit parameters; each of two other-node ranks gets what a rank owns */
    assert_int_equal(across[1], 3 * 2 * model);
    assert_int_equal(across[2], 2 * 2 * model);
    assert_int_equal(across[3], 3 * 2 * model);
    assert_true(all_sent[2] < all_sent[1]); /* a copy of two sends half of a unit, all four three quarters */
}

/* ---- the checker ---- */

static void build(struct model *model, struct schedule *schedule)
{
    struct config config;
    struct error err;
    const char *sets[] = {"zero_optimization.stage=3", "topology.ranks=4", ZERO "zero_hpz_partition_size=2"};
    assert_int_equal(config_load(&config, "tests/support/small.json", sets, 3, &err), 0);
    assert_int_equal(model_of(model, &config, &err), 0);
    struct schedule_input input = schedule_input_of(&config, model, PURPOSE_TRAIN);
    assert_int_equal(schedule_build(schedule, &input, &err), 0);
    assert_int_equal(schedule_check(schedule, model, &err), 0);
    config_release(&config);
}

static struct op *first_of(struct schedule *schedule, enum op_kind kind)
{
    for (int i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].kind == kind) return &schedule->ops[i];
    fail_msg("no such operation");
    return NULL;
}

/* A gather that reads another unit's copy, or more than was kept, is refused. */
static void test_checker(void **state)
{
    (void)state;
    struct model model;
    struct schedule schedule;
    struct error err;
    build(&model, &schedule);
    struct op *keep = first_of(&schedule, OP_SECONDARY);
    struct piece *kept = &schedule.pieces[keep->first_piece], before = *kept;
    kept->elems -= 1;
    assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
    assert_non_null(strstr(err.text, "secondary copy that does not hold the unit"));
    *kept = before;
    for (int i = 0; i < schedule.op_count; i++)
        if (op_is_within(&schedule, &schedule.ops[i])) {
            struct piece *read = &schedule.pieces[schedule.ops[i].first_piece];
            before = *read;
            read->unit = (read->unit + 1) % model.unit_count;
            assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
            *read = before;
        }
    assert_int_equal(schedule_check(&schedule, &model, &err), 0);
    schedule_release(&schedule);
    model_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_checker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
