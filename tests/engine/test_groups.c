/* Groups of ranks. Second copies (hpZ) and hybrid sharding (mics_shard_size) with topology.rank_order: the bits of one group, every byte
 * as planned, within and across nodes; live switches between groupings. */
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
static void expect_alike(const char *ranks, const char *per_node, const char *partition, const char *const *knobs,
                         bool bf16)
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
        expect_alike("topology.ranks=4", "topology.ranks_per_node=2", ZERO "zero_hpz_partition_size=2", knobs[k],
                     k % 2);
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
    const uint64_t model = (uint64_t)live.padded_elems *
                           2; /* M: bytes of 16-bit parameters; each of two other-node ranks gets what a rank owns */
    assert_int_equal(across[1], 3 * 2 * model);
    assert_int_equal(across[2], 2 * 2 * model);
    assert_int_equal(across[3], 3 * 2 * model);
    assert_true(all_sent[2] < all_sent[1]); /* a copy of two sends half of a unit, all four three quarters */
}

/* ---- hybrid sharding ---- */

/* Sums over all ranks in rank order: the bits of shards over all ranks. The moments of a rank are those of a shard of its group. */
static void expect_hybrid(const char *ranks, const char *per_node, const char *stage, const char *size, int shards,
                          const char *const *knobs, bool bf16)
{
    struct plan_of_run plan = base(STEPS, ranks, stage, bf16);
    set(&plan, per_node);
    for (; *knobs; knobs++) set(&plan, *knobs);
    struct outcome_of_run flat = run(&plan);
    set(&plan, size);
    set(&plan, "topology.rank_order=true");
    struct outcome_of_run hybrid = run(&plan);
    expect_same(&flat, &hybrid, STEPS, size);
    const int64_t owned = flat.memory.category[TIER_DEVICE][CATEGORY_OPTIMIZER].peak_bytes +
                          flat.memory.category[TIER_HOST][CATEGORY_OPTIMIZER].peak_bytes,
                  held = hybrid.memory.category[TIER_DEVICE][CATEGORY_OPTIMIZER].peak_bytes +
                         hybrid.memory.category[TIER_HOST][CATEGORY_OPTIMIZER].peak_bytes;
    assert_int_equal(held * shards, owned * (ranks[strlen(ranks) - 1] - '0'));
}

static void test_hybrid_bits(void **state)
{
    (void)state;
    static const char *const none[] = {NULL}, *const stages[] = {ZERO "stage=1", ZERO "stage=2", ZERO "stage=3"};
    static const char *const knobs[][5] = {
        {ZERO "stage3_prefetch_bucket_size=0", ZERO "overlap_comm=false"},
        {"gradient_accumulation_steps=3", "train_micro_batch_size_per_gpu=1", "data_types.grad_accum_dtype=fp32"},
        {"model.mlp_tiles=4", ZERO "stage3_param_persistence_threshold=1280"},
        {ZERO "offload_param.device=cpu", ZERO "offload_optimizer.device=cpu", "gradient_accumulation_steps=2"},
        {"schedule.no_sync=true", "gradient_accumulation_steps=2", "prescale_gradients=true"},
    };
    for (int s = 0; s < 3; s++)
        expect_hybrid("topology.ranks=4", "topology.ranks_per_node=2", stages[s], ZERO "mics_shard_size=2", 2, none,
                      s % 2);
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
        expect_hybrid("topology.ranks=4", "topology.ranks_per_node=2", stages[2], ZERO "mics_shard_size=2", 2, knobs[k],
                      k % 2);
    expect_hybrid("topology.ranks=6", "topology.ranks_per_node=3", stages[1], ZERO "mics_shard_size=2", 2, none, true);
    expect_hybrid("topology.ranks=6", "topology.ranks_per_node=2", stages[2], ZERO "mics_shard_size=3", 3, none, false);
    expect_hybrid("topology.ranks=8", "topology.ranks_per_node=4", stages[2], ZERO "mics_shard_size=4", 4, none, true);
    expect_hybrid("topology.ranks=4", "topology.ranks_per_node=2", stages[2], ZERO "mics_shard_size=1", 1, none, true);
}

/* Two hops: run() holds bytes and peaks against the plan; of M bytes, each rank sends half a shard to its replica and gets half back. */
static void test_hybrid_two_hops(void **state)
{
    (void)state;
    static const char *const stages[] = {ZERO "stage=1", ZERO "stage=2", ZERO "stage=3"};
    for (int s = 0; s < 3; s++)
        for (int offloaded = 0; offloaded < 2; offloaded++) {
            struct plan_of_run plan = base(STEPS, "topology.ranks=4", stages[s], true);
            set(&plan, "topology.ranks_per_node=2");
            set(&plan, ZERO "mics_shard_size=2");
            set(&plan, "gradient_accumulation_steps=2");
            if (offloaded) set(&plan, ZERO "offload_optimizer.device=cpu");
            plan.before_step = add_sent;
            memset(across, 0, sizeof across);
            struct outcome_of_run out = run(&plan);
            const uint64_t model = (uint64_t)out.padded_elems * 2;
            assert_int_equal(across[1], (s > 0 && offloaded ? 2 : 1) * 2 * model);
            assert_true(out.ran[OP_ALL_REDUCE] > 0 && out.ran[OP_REDUCE_SCATTER] > 0);
        }
}

static void groups_of_two(struct config_zero *knobs)
{
    knobs->shard_ranks = 2;
}

static void groups_of_one(struct config_zero *knobs)
{
    knobs->shard_ranks = 1;
}

static void one_group(struct config_zero *knobs)
{
    knobs->shard_ranks = -1;
}

static void one_group_with_copies(struct config_zero *knobs)
{
    knobs->shard_ranks = -1;
    knobs->hpz_partition = 2;
}

static void groups_of_two_alone(struct config_zero *knobs)
{
    knobs->shard_ranks = 2;
    knobs->hpz_partition = 1;
}

static void test_hybrid_live(void **state)
{
    (void)state;
    static const struct {
        int stage;
        void (*change)(struct config_zero *knobs);
    } switches[] = {{3, groups_of_two},       {1, NULL}, {2, groups_of_one}, {3, one_group_with_copies},
                    {3, groups_of_two_alone}, {0, NULL}, {2, NULL},          {3, one_group}};
    for (int offloaded = 0; offloaded < 2; offloaded++) {
        struct plan_of_run plan = base(10, "topology.ranks=4", ZERO "stage=3", true);
        set(&plan, "topology.rank_order=true");
        set(&plan, "topology.ranks_per_node=2");
        if (offloaded) set(&plan, ZERO "offload_param.device=cpu");
        struct outcome_of_run flat = run(&plan);
        for (size_t s = 0; s < sizeof switches / sizeof *switches; s++) {
            plan.switches[s].before_step = (int)s + 2;
            plan.switches[s].stage = switches[s].stage;
            plan.switches[s].change = switches[s].change;
        }
        plan.switch_count = sizeof switches / sizeof *switches;
        struct outcome_of_run live = run(&plan);
        expect_same(&flat, &live, 10, "live groups");
    }
}

/* ---- the checker ---- */

static void build(struct model *model, struct schedule *schedule, const char *size)
{
    struct config config;
    struct error err;
    const char *sets[] = {"zero_optimization.stage=3", "topology.ranks=4", size};
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
    build(&model, &schedule, ZERO "zero_hpz_partition_size=2");
    struct op *keep = first_of(&schedule, OP_SECONDARY);
    struct piece *kept = &schedule.pieces[keep->first_piece], before = *kept;
    kept->elems -= 1;
    assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
    assert_non_null(strstr(err.text, "secondary copy that does not hold the unit"));
    *kept = before;
    for (int i = 0; i < schedule.op_count; i++)
        if (schedule.ops[i].group == GROUP_PARTITION) {
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

/* A collective among other ranks, and replicas that add up another bucket, are refused. */
static void test_checker_of_groups(void **state)
{
    (void)state;
    struct model model;
    struct schedule schedule;
    struct error err;
    build(&model, &schedule, ZERO "mics_shard_size=2");
    for (int i = 0; i < schedule.op_count; i++) {
        struct op *op = &schedule.ops[i];
        const enum group right = op->group;
        if (op->lane != LANE_COMM) continue;
        op->group = right == GROUP_WORLD ? GROUP_SHARDS : GROUP_WORLD;
        assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
        op->group = right;
    }
    struct piece *added = &schedule.pieces[first_of(&schedule, OP_ALL_REDUCE)->first_piece], before = *added;
    added->elems -= 16;
    assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
    assert_non_null(strstr(err.text, "does not follow the reduction whose result it adds up"));
    *added = before;
    assert_int_equal(schedule_check(&schedule, &model, &err), 0);
    first_of(&schedule, OP_ALL_REDUCE)->micro_step = 1;
    assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
    schedule_release(&schedule);
    model_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_hybrid_bits),
        cmocka_unit_test(test_hybrid_two_hops),
        cmocka_unit_test(test_hybrid_live),
        cmocka_unit_test(test_checker),
        cmocka_unit_test(test_checker_of_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
