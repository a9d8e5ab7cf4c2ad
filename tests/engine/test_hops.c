/* Collectives in two hops (mics_hierarchical_params_gather): each shard enters a node once, to the byte. Gathers change no
 * bits, and with topology.rank_order reductions do not either. With second copies, quantized blocks, and shard groups over
 * nodes; live. */
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

#define ZERO       "zero_optimization."
#define HOPS       ZERO "mics_hierarchical_params_gather=true"
#define RANK_ORDER "topology.rank_order=true"
#define BUCKET_ALL ZERO "reduce_bucket_size=100000000"
#define WEIGHTS    ZERO "zero_quantized_weights=true"
#define GRADIENTS  ZERO "zero_quantized_gradients=true"

enum { STEPS = 4 };

/* Of a step, by all ranks: what they sent to other nodes. */
static _Atomic uint64_t across[STEPS_MAX + 1];

static void add_sent(struct zero *zero, int rank, int step)
{
    (void)rank;
    for (int kind = 0; kind < TRAFFIC_CONTROL; kind++)
        across[step - 1] += zero->trace.traffic[kind].sent_bytes[LINK_INTER];
}

struct shape {
    const char *ranks_set, *node_set;
    int ranks, node;
};

static const struct shape two_by_two = {"topology.ranks=4", "topology.ranks_per_node=2", 4, 2},
                          two_by_four = {"topology.ranks=8", "topology.ranks_per_node=4", 8, 4},
                          four_by_two = {"topology.ranks=8", "topology.ranks_per_node=2", 8, 2},
                          two_by_three = {"topology.ranks=6", "topology.ranks_per_node=3", 6, 3};

static struct plan_of_run planned(const struct shape *shape, int stage, bool bf16, const char *const *sets)
{
    struct plan_of_run plan = base(STEPS, shape->ranks_set, stage_sets[stage], bf16);
    set(&plan, shape->node_set);
    for (; *sets; sets++) set(&plan, *sets);
    return plan;
}

/* One hop and two: the same bits where sums keep the order of the ranks. */
static void expect_alike(const struct shape *shape, int stage, const char *const *sets, bool bf16)
{
    struct plan_of_run plan = planned(shape, stage, bf16, sets);
    const struct outcome_of_run flat = run(&plan);
    set(&plan, RANK_ORDER);
    set(&plan, HOPS);
    const struct outcome_of_run hops = run(&plan);
    expect_same(&flat, &hops, STEPS, sets[0] ? sets[0] : shape->node_set);
    const enum op_kind kind = stage == 3 ? OP_GATHER : OP_REFRESH;
    assert_int_equal(hops.ran[kind], 2 * flat.ran[kind]);
    assert_int_equal(hops.ran[OP_REDUCE_SCATTER], flat.ran[OP_REDUCE_SCATTER]);
}

static void test_bits(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    static const char *const knobs[][5] = {
        {ZERO "stage3_prefetch_bucket_size=0", ZERO "overlap_comm=false"},
        {ZERO "stage3_prefetch_bucket_size=100000000", "gradient_accumulation_steps=3",
         "train_micro_batch_size_per_gpu=1"},
        {ZERO "stage3_max_live_parameters=25000", "model.mlp_tiles=4", "model.recompute=full"},
        {ZERO "offload_param.device=cpu", ZERO "offload_optimizer.device=cpu"},
        {"schedule.no_sync=true", "gradient_accumulation_steps=2", ZERO "stage3_max_reuse_distance=20000"},
    };
    for (int stage = 1; stage <= 3; stage++) expect_alike(&two_by_two, stage, none, stage % 2);
    expect_alike(&two_by_four, 3, none, true);
    expect_alike(&four_by_two, 2, none, true);
    expect_alike(&two_by_three, 3, none, false);
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++) expect_alike(&two_by_two, 3, knobs[k], k % 2);
}

/* Small tensors that stay gathered have a refresh of their own, which has two hops, too. */
static void test_small_tensors(void **state)
{
    (void)state;
    static const char *const tiers[][4] = {{ZERO "stage3_param_persistence_threshold=1280"},
                                           {ZERO "stage3_param_persistence_threshold=1280",
                                            ZERO "offload_param.device=cpu", ZERO "offload_optimizer.device=cpu"}};
    for (int t = 0; t < 2; t++) {
        struct plan_of_run plan = planned(&two_by_two, 3, true, tiers[t]);
        const struct outcome_of_run flat = run(&plan);
        set(&plan, RANK_ORDER);
        set(&plan, HOPS);
        const struct outcome_of_run hops = run(&plan);
        expect_same(&flat, &hops, STEPS, "small tensors");
        assert_int_equal(hops.ran[OP_REFRESH], 2 * flat.ran[OP_REFRESH]);
        assert_true(flat.ran[OP_REFRESH] > 0);
    }
}

static struct outcome_of_run counted(const struct shape *shape, int stage, const char *const *sets)
{
    struct plan_of_run plan = planned(shape, stage, true, sets);
    plan.before_step = add_sent;
    memset(across, 0, sizeof across);
    return run(&plan);
}

/* What all ranks send across nodes, by formula. M: bytes of the model. In one hop each rank's part goes to every rank of
 * other nodes; in two, to one rank of each other node. */
static void expect_bytes(const struct shape *shape, const char *second_copy)
{
    const int nodes = shape->ranks / shape->node;
    const struct outcome_of_run flat = counted(shape, 3, (const char *const[]){BUCKET_ALL, NULL});
    const uint64_t M = (uint64_t)flat.padded_elems * 2, direct = (uint64_t)(shape->ranks - shape->node) * M,
                   hop = (uint64_t)(nodes - 1) * M,
                   blocks = (uint64_t)(shape->ranks * (nodes - 1)) * slices_bytes(8, shape->ranks),
                   reduced = (uint64_t)(shape->ranks * (nodes - 1)) * slices_bytes(4, shape->ranks);
    assert_int_equal(across[1], 3 * direct);
    counted(shape, 3, (const char *const[]){HOPS, NULL});
    assert_int_equal(across[1], 3 * hop);
    counted(shape, 3, (const char *const[]){HOPS, RANK_ORDER, NULL});
    assert_int_equal(across[1], 2 * hop + direct);
    counted(shape, 2, (const char *const[]){HOPS, "gradient_accumulation_steps=2", NULL});
    assert_int_equal(across[1], 3 * hop);
    counted(shape, 1, (const char *const[]){HOPS, "gradient_accumulation_steps=2", NULL});
    assert_int_equal(across[1], 2 * hop);
    counted(shape, 3, (const char *const[]){HOPS, second_copy, NULL});
    assert_int_equal(across[1], 2 * hop);
    counted(shape, 3, (const char *const[]){HOPS, WEIGHTS, NULL});
    assert_int_equal(across[1], 2 * blocks + hop);
    counted(shape, 3, (const char *const[]){HOPS, BUCKET_ALL, WEIGHTS, GRADIENTS, second_copy, NULL});
    assert_int_equal(across[1], blocks + reduced);
}

static void test_bytes(void **state)
{
    (void)state;
    expect_bytes(&two_by_two, ZERO "zero_hpz_partition_size=2");
    expect_bytes(&two_by_four, ZERO "zero_hpz_partition_size=4");
    expect_bytes(&four_by_two, ZERO "zero_hpz_partition_size=2");
}

/* A shard group of two nodes of four: its gathers cross from one to the other, each shard once. Its reductions are those
 * of mics_shard_size. */
static void test_shard_groups_over_nodes(void **state)
{
    (void)state;
    struct plan_of_run plan = planned(&four_by_two, 3, true, (const char *const[]){RANK_ORDER, NULL});
    const struct outcome_of_run flat = run(&plan);
    set(&plan, ZERO "mics_shard_size=4");
    set(&plan, HOPS);
    const struct outcome_of_run hops = run(&plan);
    expect_same(&flat, &hops, STEPS, "a shard group over nodes");
    const uint64_t M = (uint64_t)flat.padded_elems * 2;
    counted(&four_by_two, 3, (const char *const[]){ZERO "mics_shard_size=4", NULL});
    const uint64_t direct = across[1];
    counted(&four_by_two, 3, (const char *const[]){ZERO "mics_shard_size=4", HOPS, NULL});
    assert_int_equal(direct - across[1], 2 * (2 * 2 * M - 2 * M)); /* two gathers, in two groups */
}

/* Two hops round twice; the mean is the same, and with a division before the sum, too. */
static void test_sums(void **state)
{
    (void)state;
    static const char *const forms[][3] = {{NULL},
                                           {"prescale_gradients=true", "communication_data_type=fp32"},
                                           {"gradient_predivide_factor=2", "gradient_accumulation_steps=3"}};
    for (int stage = 1; stage <= 3; stage++)
        for (int f = 0; f < 3; f++) {
            if ((stage + f) % 3 == 0 && !effort_is_full()) continue;
            struct plan_of_run plan = planned(&two_by_three, stage, f % 2, forms[f]);
            const struct outcome_of_run direct = run(&plan);
            set(&plan, HOPS);
            const struct outcome_of_run hops = run(&plan);
            assert_true(hops.ran[OP_REDUCE_SCATTER] == 2 * direct.ran[OP_REDUCE_SCATTER]);
            assert_true(hops.hash != direct.hash);
            for (int s = 0; s < STEPS; s++) {
                assert_float_equal(hops.loss[s], direct.loss[s], 2e-3 * direct.loss[s]);
                assert_float_equal(hops.grad_norm[s], direct.grad_norm[s], 2e-2 * direct.grad_norm[s]);
            }
        }
    static const char *const before[] = {HOPS, "prescale_gradients=true", NULL}, *const after[] = {HOPS, NULL};
    const struct plan_of_run scaled = planned(&two_by_three, 3, false, before),
                             plain = planned(&two_by_three, 3, false, after);
    const struct outcome_of_run first = run(&scaled), last = run(&plain);
    assert_true(first.hash != last.hash); /* of six ranks it rounds */
}

/* The sums are those of shard groups as large as a node, which add up the same two times. Small buckets lie between
 * gradients that wait. */
static void test_sums_of_hybrid_sharding(void **state)
{
    (void)state;
    static const char *const shards[] = {ZERO "mics_shard_size=2", ZERO "mics_shard_size=3"};
    static const struct shape *const shapes[] = {&two_by_two, &two_by_three};
    for (int stage = 1; stage <= 3; stage++)
        for (int s = 0; s < 2; s++)
            for (int small = 0; small < 2; small++) {
                if ((stage + s + small) % 2 && !effort_is_full()) continue;
                const char *const bucket = small ? ZERO "reduce_bucket_size=3000" : BUCKET_ALL,
                                  *const hybrid[] = {bucket, shards[s], NULL}, *const hops[] = {bucket, HOPS, NULL};
                const struct plan_of_run one = planned(shapes[s], stage, !small, hybrid),
                                         other = planned(shapes[s], stage, !small, hops);
                const struct outcome_of_run want = run(&one), got = run(&other);
                expect_same(&want, &got, STEPS, "the sums of hybrid sharding");
            }
}

static void on(struct config_zero *knobs)
{
    knobs->hierarchical = true;
}

static void off(struct config_zero *knobs)
{
    knobs->hierarchical = false;
}

static void on_in_groups(struct config_zero *knobs)
{
    knobs->hierarchical = true;
    knobs->shard_ranks = 4;
}

static void on_with_copies(struct config_zero *knobs)
{
    knobs->hierarchical = true;
    knobs->hpz_partition = 2;
}

/* On and off between steps, at each stage, over groups of nodes and with second copies: the bits of one hop. */
static void test_live(void **state)
{
    (void)state;
    static const struct {
        int stage;
        void (*change)(struct config_zero *knobs);
    } switches[] = {{3, on}, {3, off}, {3, on_in_groups}, {2, on}, {3, on_with_copies}, {0, on}, {1, on}, {3, off}};
    struct plan_of_run plan = planned(&four_by_two, 3, true, (const char *const[]){RANK_ORDER, NULL});
    plan.steps = 10;
    const struct outcome_of_run flat = run(&plan);
    plan.before_step = add_sent;
    memset(across, 0, sizeof across);
    for (size_t s = 0; s < sizeof switches / sizeof *switches; s++) {
        plan.switches[s].before_step = (int)s + 2;
        plan.switches[s].stage = switches[s].stage;
        plan.switches[s].change = switches[s].change;
    }
    plan.switch_count = sizeof switches / sizeof *switches;
    const struct outcome_of_run live = run(&plan);
    expect_same(&flat, &live, 10, "live hops");
    const uint64_t M = (uint64_t)live.padded_elems * 2;
    assert_int_equal(across[1], 3 * 6 * M);
    assert_int_equal(across[2], (2 * 3 + 6) * M);
    assert_int_equal(across[3], 3 * 6 * M);
}

/* ---- the checker ---- */

/* A hop among other ranks, a second hop that reads less than the first brought, or does not follow it, and a sum of other
 * elements of a node are refused. */
static void test_checker(void **state)
{
    (void)state;
    struct config config;
    struct model model;
    struct schedule schedule;
    struct error err;
    const char *sets[] = {ZERO "stage=3", "topology.ranks=4", "topology.ranks_per_node=2", HOPS};
    int gathers = 0, sums = 0;
    assert_int_equal(config_load(&config, "tests/support/small.json", sets, 4, &err), 0);
    assert_int_equal(model_of(&model, &config, &err), 0);
    for (int purpose = 0; purpose < PURPOSES; purpose++) {
        struct schedule_input input = schedule_input_of(&config, &model, (enum purpose)purpose);
        assert_int_equal(schedule_build(&schedule, &input, &err), 0);
        assert_int_equal(schedule_check(&schedule, &model, &err), 0);
        for (int i = 0; i < schedule.op_count; i++) {
            struct op *op = &schedule.ops[i];
            const enum group right = op->group;
            if (right == GROUP_WORLD) continue;
            op->group = GROUP_WORLD;
            assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
            op->group = right == GROUP_NODE ? GROUP_ACROSS : GROUP_NODE;
            assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
            op->group = right;
            if ((op->kind == OP_GATHER) != (right == GROUP_NODE)) continue; /* what reads a first hop's result */
            struct piece *piece = &schedule.pieces[op->first_piece], before = *piece;
            piece->elems -= 16;
            assert_int_equal(schedule_check(&schedule, &model, &err), STATUS_CHECK);
            assert_non_null(strstr(err.text, op->kind == OP_GATHER ? "whose result it takes" : "of the same elements"));
            *piece = before;
            *(op->kind == OP_GATHER ? &gathers : &sums) += 1;
        }
        assert_int_equal(schedule_check(&schedule, &model, &err), 0);
        schedule_release(&schedule);
    }
    assert_true(gathers > 0 && sums > 0);
    config_release(&config);
    model_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_small_tensors),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_shard_groups_over_nodes),
        cmocka_unit_test(test_sums_of_hybrid_sharding),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_checker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
