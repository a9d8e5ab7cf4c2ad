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
        {ZERO "offload_param.device=nvme", ZERO "offload_param.nvme_path=/tmp", ZERO "offload_param.max_in_cpu=0"},
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
static _Atomic uint64_t across[STEPS_MAX + 1], all_sent[STEPS_MAX + 1];

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

/* Slices are gathered into memory: with arrays on NVMe a switch of the grouping is refused, and nothing has changed. */
static void test_hybrid_not_on_nvme(void **state)
{
    (void)state;
    struct plan_of_run plan = base(3, "topology.ranks=4", ZERO "stage=3", true);
    set(&plan, ZERO "offload_optimizer.device=nvme");
    set(&plan, ZERO "offload_optimizer.nvme_path=/tmp");
    plan.switches[0].before_step = 2, plan.switches[0].stage = 3, plan.switches[0].change = groups_of_two;
    plan.switch_count = 1;
    plan.fails_with = "cannot change in a run while arrays lie on NVMe";
    run(&plan);
}

/* ---- quantized ---- */

#define BUCKET_OF_ALL ZERO "reduce_bucket_size=100000000"
#define WEIGHTS       ZERO "zero_quantized_weights=true"
#define GRADIENTS     ZERO "zero_quantized_gradients=true"
#define SECOND_COPY   ZERO "zero_hpz_partition_size=2"

static struct outcome_of_run run_on(const char *ranks, const char *per_node, int steps, const char *const *sets,
                                    bool bf16)
{
    struct plan_of_run plan = base(steps, ranks, "zero_optimization.stage=3", bf16);
    set(&plan, per_node);
    for (; *sets; sets++) set(&plan, *sets);
    plan.before_step = add_sent;
    memset(across, 0, sizeof across);
    memset(all_sent, 0, sizeof all_sent);
    return run(&plan);
}

static struct outcome_of_run run_quantized(int steps, const char *const *sets, bool bf16)
{
    return run_on("topology.ranks=4", "topology.ranks_per_node=2", steps, sets, bf16);
}

/* What W ranks on nodes of n send across nodes, by the formulas of ZeRO++ and of a direct exchange: in a gather each sends its slice to
 * W - n ranks; the sum of a node's gradients crosses once for each slice of another node. M: bytes of a gather's elements. */
static void expect_quantized_bytes(const char *W_ranks, int W, const char *n_ranks, int n, const char *second_copy)
{
    const uint64_t gathered = (uint64_t)(W * (W - n)) * slices_bytes(8, W),
                   reduced = (uint64_t)(W * (W / n - 1)) * slices_bytes(4, W);
    const struct outcome_of_run flat = run_on(W_ranks, n_ranks, 2, (const char *const[]){BUCKET_OF_ALL, NULL}, true);
    const uint64_t M = (uint64_t)flat.padded_elems * 2 * (uint64_t)(W - n);
    assert_int_equal(across[1], 3 * M);
    run_on(W_ranks, n_ranks, 2, (const char *const[]){BUCKET_OF_ALL, WEIGHTS, NULL}, true);
    assert_int_equal(across[1], 2 * gathered + M);
    run_on(W_ranks, n_ranks, 2, (const char *const[]){BUCKET_OF_ALL, second_copy, NULL}, true);
    assert_int_equal(across[1], 2 * M);
    run_on(W_ranks, n_ranks, 2, (const char *const[]){BUCKET_OF_ALL, GRADIENTS, NULL}, true);
    assert_int_equal(across[1], 2 * M + reduced);
    const uint64_t gathers = 2 * (uint64_t)flat.padded_elems * 2 * (uint64_t)(n - 1); /* within nodes */
    assert_int_equal(all_sent[1] - across[1] - gathers, (uint64_t)(W * (W - W / n)) * slices_bytes(4, W));
    run_on(W_ranks, n_ranks, 2, (const char *const[]){BUCKET_OF_ALL, WEIGHTS, GRADIENTS, second_copy, NULL}, true);
    assert_int_equal(across[1], gathered + reduced);
}

static void test_quantized_bytes(void **state)
{
    (void)state;
    expect_quantized_bytes("topology.ranks=4", 4, "topology.ranks_per_node=2", 2, SECOND_COPY);
    expect_quantized_bytes("topology.ranks=8", 8, "topology.ranks_per_node=4", 4, ZERO "zero_hpz_partition_size=4");
}

/* Second copies hold what was unpacked, so they change no bit of quantized gathers. run() holds bytes and peaks against the plan. */
static void test_quantized_bits(void **state)
{
    (void)state;
    static const char *const knobs[][4] = {
        {NULL},
        {ZERO "stage3_prefetch_bucket_size=0", ZERO "overlap_comm=false"},
        {"gradient_accumulation_steps=3", "train_micro_batch_size_per_gpu=1", ZERO "zeropp_loco_param.err_beta=0.5"},
        {ZERO "offload_param.device=cpu", "data_types.grad_accum_dtype=fp32"},
        {ZERO "stage3_param_persistence_threshold=1280", "model.mlp_tiles=2", "communication_data_type=fp32"},
    };
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++) {
        const char *sets[8] = {WEIGHTS, k ? GRADIENTS : ZERO "overlap_comm=true"};
        for (int i = 0; i < 4; i++) sets[2 + i] = knobs[k][i];
        const struct outcome_of_run plain = run_quantized(STEPS, sets, k % 2);
        int count = 2;
        while (sets[count]) count++;
        sets[count] = SECOND_COPY;
        const struct outcome_of_run copied = run_quantized(STEPS, sets, k % 2);
        expect_same(&plain, &copied, STEPS, "second copies of quantized units");
        assert_true(plain.ran[OP_QUANTIZE] > 0 && plain.ran[OP_DEQUANTIZE] > copied.ran[OP_DEQUANTIZE]);
    }
}

/* It learns: fp32 against blocks, and against blocks with error feedback, which ends nearer. */
static void test_quantized_learning(void **state)
{
    (void)state;
    enum { LONG = 40 };
    const struct outcome_of_run exact = run_quantized(LONG, (const char *const[]){WEIGHTS, NULL}, false),
                                blocks = run_quantized(LONG, (const char *const[]){WEIGHTS, GRADIENTS, NULL}, false),
                                fed = run_quantized(LONG,
                                                    (const char *const[]){WEIGHTS, GRADIENTS,
                                                                          ZERO "zeropp_loco_param.err_beta=0.1", NULL},
                                                    false);
    assert_true(exact.hash != blocks.hash && blocks.hash != fed.hash);
    assert_float_equal(blocks.loss[LONG - 1], exact.loss[LONG - 1], 0.05 * exact.loss[LONG - 1]);
    assert_float_equal(fed.loss[LONG - 1], exact.loss[LONG - 1], 0.05 * exact.loss[LONG - 1]);
}

static void spoil_last_rank(struct zero *zero, int rank, int step)
{
    if (rank == 3 && step == 2) zero_spoil(zero);
}

/* NaN in a gradient becomes 0 in its block: the step is skipped all the same, and no parameter learns of it. */
static void test_quantized_nan(void **state)
{
    (void)state;
    struct plan_of_run plan = base(3, "topology.ranks=4", "zero_optimization.stage=3", true);
    set(&plan, "topology.ranks_per_node=2");
    set(&plan, "bf16.check_grad_overflow=true");
    set(&plan, GRADIENTS);
    set(&plan, WEIGHTS);
    plan.before_step = spoil_last_rank;
    const struct outcome_of_run out = run(&plan);
    assert_true(!out.skipped[0] && out.skipped[1] && !out.skipped[2]);
    assert_true(out.loss[2] == out.loss[2]);
}

static void quantized(struct config_zero *knobs)
{
    knobs->quantized_weights = knobs->quantized_gradients = true;
    knobs->loco_beta = 0.5F;
}

static void quantized_with_copies(struct config_zero *knobs)
{
    quantized(knobs);
    knobs->hpz_partition = 2;
}

/* Live: a switch keeps the state, so what is switched to and from within no step changes nothing. */
static void test_quantized_live(void **state)
{
    (void)state;
    struct plan_of_run plan = base(4, "topology.ranks=4", "zero_optimization.stage=3", true);
    set(&plan, "topology.ranks_per_node=2");
    struct outcome_of_run flat = run(&plan);
    static void (*const changes[])(struct config_zero *) = {quantized, groups_of_two, quantized_with_copies, one_group};
    for (int s = 0; s < 4; s++) {
        plan.switches[s].before_step = 3, plan.switches[s].stage = 3, plan.switches[s].change = changes[s];
    }
    plan.switch_count = 4;
    struct outcome_of_run live = run(&plan);
    expect_same(&flat, &live, 4, "through quantized and back");
    plan.switches[0].before_step = 2, plan.switches[1].before_step = 3, plan.switches[2].before_step = 4;
    plan.switch_count = 3;
    run(&plan);
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

/* Blocks of other elements are refused. */
static void test_checker_of_blocks(void **state)
{
    (void)state;
    struct model model;
    struct schedule schedule;
    struct error err;
    struct config config;
    const char *sets[] = {"zero_optimization.stage=3", "topology.ranks=4", "topology.ranks_per_node=2", WEIGHTS,
                          GRADIENTS};
    assert_int_equal(config_load(&config, "tests/support/small.json", sets, 5, &err), 0);
    assert_int_equal(model_of(&model, &config, &err), 0);
    struct schedule_input input = schedule_input_of(&config, &model, PURPOSE_TRAIN);
    assert_int_equal(schedule_build(&schedule, &input, &err), 0);
    assert_int_equal(schedule_check(&schedule, &model, &err), 0);
    config_release(&config);
    for (int i = 0; i < schedule.op_count; i++) {
        const struct op *op = &schedule.ops[i];
        if (op->kind != OP_DEQUANTIZE && op->group != GROUP_NODE && op->group != GROUP_ACROSS) continue;
        struct piece *piece = &schedule.pieces[op->first_piece], before = *piece;
        piece->elems -= 16;
        assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
        *piece = before;
    }
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
        cmocka_unit_test(test_hybrid_not_on_nvme),
        cmocka_unit_test(test_checker),
        cmocka_unit_test(test_checker_of_groups),
        cmocka_unit_test(test_quantized_bytes),
        cmocka_unit_test(test_quantized_bits),
        cmocka_unit_test(test_quantized_learning),
        cmocka_unit_test(test_quantized_nan),
        cmocka_unit_test(test_quantized_live),
        cmocka_unit_test(test_checker_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
