/* The engine, with ranks as threads: every stage the same bits, every byte as planned, and out of memory as an outcome. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/zero/zero.h"

enum { STEPS_MAX = 40, RANKS_MAX = 8, SWITCHES_MAX = 8 };

struct plan_of_run { /* what a run does */
    const char *sets[24];
    int set_count, steps;
    struct {
        int before_step, stage;
    } switches[SWITCHES_MAX];
    int switch_count;
    uint64_t budget_bytes; /* 0: none */
    int rescue_stage;      /* switched to when out of memory; -1: none */
    bool evaluate;
};

struct outcome_of_run {
    float loss[STEPS_MAX], grad_norm[STEPS_MAX];
    uint64_t hash;
    float validation;
    int shortages;
    struct zero_shortage shortage;
    struct memory_snapshot memory;
    struct footprint footprint;
    struct traffic_sum traffic[TRAFFIC_KINDS];
    int64_t model_elems, padded_elems; /* Psi, and with the padding of every unit */
    char error[512];
};

struct rank_thread {
    const struct plan_of_run *plan;
    const struct config *config;
    struct comm_group *group;
    const struct data *data;
    int rank;
    struct outcome_of_run out;
};

static bool note(struct rank_thread *thread, int status, const struct error *err)
{
    if (status && !thread->out.error[0]) snprintf(thread->out.error, sizeof thread->out.error, "%s", err->text);
    return status != STATUS_OK;
}

static bool switch_to(struct rank_thread *thread, struct zero *zero, int stage, struct zero_result *result)
{
    struct error err = {0};
    struct config_zero knobs = thread->config->zero;
    knobs.stage = stage;
    return note(thread, zero_switch(zero, &knobs, result, &err), &err);
}

static void train(struct rank_thread *thread, struct zero *zero)
{
    const struct plan_of_run *plan = thread->plan;
    struct error err = {0};
    for (int step = 1; step <= plan->steps;) {
        struct zero_result result = {0};
        for (int s = 0; s < plan->switch_count; s++)
            if (plan->switches[s].before_step == step && switch_to(thread, zero, plan->switches[s].stage, &result))
                return;
        if (note(thread, zero_step(zero, &result, &err), &err)) return;
        if (result.outcome == ZERO_OUT_OF_MEMORY) {
            thread->out.shortages++;
            thread->out.shortage = result.shortage;
            if (plan->rescue_stage < 0 || thread->out.shortages > 1) return;
            if (switch_to(thread, zero, plan->rescue_stage, &result)) return;
            continue;
        }
        thread->out.loss[step - 1] = result.loss;
        thread->out.grad_norm[step - 1] = result.grad_norm;
        step++;
    }
    int64_t tokens;
    if (plan->evaluate && note(thread, zero_evaluate(zero, 64, &thread->out.validation, &tokens, &err), &err)) return;
    note(thread, zero_state_hash(zero, &thread->out.hash, &err), &err);
}

static void *rank_main(void *argument)
{
    struct rank_thread *thread = argument;
    struct error err = {0};
    struct comm *comm;
    struct zero *zero = NULL;
    struct zero_result result = {0};
    if (note(thread, comm_open_thread(&comm, thread->group, thread->rank, &err), &err)) return NULL;
    struct zero_options options = {.config = thread->config, .comm = comm, .data = thread->data};
    int status = zero_open(&zero, &options, &result.shortage, &err);
    if (status && zero && thread->plan->rescue_stage >= 0) {
        thread->out.shortages++;
        thread->out.shortage = result.shortage;
        switch_to(thread, zero, thread->plan->rescue_stage, &result);
    } else if (note(thread, status, &err)) {
        return NULL;
    }
    train(thread, zero);
    memory_snapshot(zero_memory(zero), &thread->out.memory);
    footprint_of(&thread->out.footprint, zero_schedule(zero));
    struct model model;
    model_of(&model, thread->config, NULL);
    traffic_of(thread->out.traffic, zero_schedule(zero), &model, thread->rank);
    thread->out.model_elems = model.elems;
    for (int u = 0; u < model.unit_count; u++)
        thread->out.padded_elems +=
            shard_elems(model.units[u].elems, thread->config->topology.ranks) * thread->config->topology.ranks;
    model_release(&model);
    comm_close(comm);
    zero_close(zero);
    return NULL;
}

/* Runs all ranks and returns rank 0's outcome; ranks must agree on everything. */
static struct outcome_of_run run(const struct plan_of_run *plan)
{
    static struct rank_thread threads[RANKS_MAX];
    pthread_t handles[RANKS_MAX];
    struct config config;
    struct error err = {0};
    struct comm_group *group;
    struct data *data;
    if (config_load(&config, NULL, plan->sets, plan->set_count, &err)) fail_msg("%s", err.text);
    if (plan->budget_bytes) config.budget_bytes[TIER_DEVICE] = plan->budget_bytes;
    const int ranks = config.topology.ranks;
    if (data_open(&data, &config, &err)) fail_msg("%s", err.text);
    assert_int_equal(comm_group_create(&group, ranks, 0, &err), 0);
    for (int r = 0; r < ranks; r++) {
        threads[r] = (struct rank_thread){.plan = plan, .config = &config, .group = group, .data = data, .rank = r};
        assert_int_equal(pthread_create(&handles[r], NULL, rank_main, &threads[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(handles[r], NULL);
    for (int r = 0; r < ranks; r++) {
        if (threads[r].out.error[0]) fail_msg("rank %d: %s", r, threads[r].out.error);
        assert_memory_equal(threads[r].out.loss, threads[0].out.loss, sizeof threads[0].out.loss);
        assert_int_equal(threads[r].out.hash, threads[0].out.hash);
    }
    comm_group_free(group);
    data_close(data);
    config_release(&config);
    return threads[0].out;
}

static void set(struct plan_of_run *plan, const char *text)
{
    plan->sets[plan->set_count++] = text;
}

static struct plan_of_run base(int steps, const char *ranks, const char *stage, bool bf16)
{
    struct plan_of_run plan = {.steps = steps, .rescue_stage = -1};
    set(&plan, ranks);
    set(&plan, stage);
    set(&plan, bf16 ? "bf16.enabled=true" : "bf16.enabled=false");
    set(&plan, "gradient_clipping=0.5");
    return plan;
}

static const char *const stage_sets[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                         "zero_optimization.stage=2", "zero_optimization.stage=3"};

static void expect_same(const struct outcome_of_run *want, const struct outcome_of_run *got, int steps,
                        const char *what)
{
    for (int s = 0; s < steps; s++)
        if (memcmp(&want->loss[s], &got->loss[s], 4))
            fail_msg("%s: step %d: loss %.9g, not %.9g", what, s + 1, (double)got->loss[s], (double)want->loss[s]);
    if (want->hash != got->hash) fail_msg("%s: another state hash", what);
}

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

/* Every optimizer, under a schedule: each stage and a way through all of them; states are as many as it keeps. */
static void test_every_optimizer(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        int states;
    } optimizers[] = {
        {"optimizer={\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false, \"weight_decay\": 0.1}}", 2},
        {"optimizer={\"type\": \"Lion\", \"params\": {\"weight_decay\": 0.1}}", 1},
        {"optimizer={\"type\": \"Adagrad\"}", 1},
        {"optimizer={\"type\": \"SGD\"}", 0},
        {"optimizer={\"type\": \"SGD\"}", 0},
        {"optimizer={\"type\": \"SGD\", \"params\": {\"momentum\": 0.9, \"dampening\": 0.1}}", 1},
    };
    for (int o = 0; o < 6; o++) {
        const bool bf16 = o % 2;
        struct plan_of_run plan = base(6, "topology.ranks=3", stage_sets[0], bf16);
        set(&plan, optimizers[o].set);
        set(&plan, "scheduler={\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 6, "
                   "\"warmup_num_steps\": 3, \"warmup_type\": \"linear\"}}");
        struct outcome_of_run reference = run(&plan);
        for (int stage = 1; stage <= 3; stage++) {
            plan.sets[1] = stage_sets[stage];
            struct outcome_of_run other = run(&plan);
            expect_same(&reference, &other, 6, optimizers[o].set);
        }
        assert_int_equal(reference.memory.category[TIER_DEVICE][CATEGORY_OPTIMIZER].live_bytes,
                         (optimizers[o].states + bf16) * 4 * reference.padded_elems);
        plan.switch_count = 4;
        for (int s = 0; s < 4; s++)
            plan.switches[s].before_step = 2 + s, plan.switches[s].stage = (int[]){0, 1, 3, 2}[s];
        struct outcome_of_run switched = run(&plan);
        expect_same(&reference, &switched, 6, "switching");
    }
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
         "zero_optimization.stage3_max_live_parameters=100000"},
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
            struct outcome_of_run out = run(&plan);
            static const enum category states[] = {CATEGORY_PARAMETERS, CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER};
            for (int c = 0; c < 3; c++)
                assert_int_equal(out.memory.category[TIER_DEVICE][states[c]].peak_bytes,
                                 out.footprint.category[TIER_DEVICE][states[c]].peak_bytes);
            double measured = (double)out.memory.tier[TIER_DEVICE].peak_bytes,
                   planned = (double)out.footprint.peak_bytes[TIER_DEVICE];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_fp32),
        cmocka_unit_test(test_same_bits_bf16),
        cmocka_unit_test(test_same_bits_three_ranks),
        cmocka_unit_test(test_same_bits_odd_vocabulary),
        cmocka_unit_test(test_every_optimizer),
        cmocka_unit_test(test_knobs_do_not_change_learning),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_memory_is_as_planned),
        cmocka_unit_test(test_out_of_memory_and_back),
        cmocka_unit_test(test_switch_that_does_not_fit),
        cmocka_unit_test(test_evaluation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
