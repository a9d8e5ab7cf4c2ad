/* The engine in fp16, with every optimizer, under schedules: stages agree on every bit, every skip and every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/optim/loss_scale.h"
#include "tests/support/zero_runs.h"

/* A scale that is too high at first, and a short window, so that the scale falls and rises. Each step has the scale that the
 * state machine (which test_loss_scale holds to DeepSpeed's) makes of the skips before it. */
static void expect_scales(const struct config_fp16 *options, const struct outcome_of_run *run, int steps)
{
    struct loss_scaler scaler;
    int skips = 0, raised = 0, held = 0;
    loss_scaler_init(&scaler, options);
    for (int s = 0; s < steps; s++) {
        assert_true(run->loss_scale[s] == scaler.scale);
        const enum loss_scale_event event = loss_scaler_update(&scaler, run->skipped[s]);
        skips += run->skipped[s];
        held += event == LOSS_SCALE_HELD;
        raised += event == LOSS_SCALE_RAISED;
    }
    print_message("hysteresis %d%s: %d of %d steps skipped, %d without halving, raised %d times\n", options->hysteresis,
                  options->consecutive_hysteresis ? " in a row" : "", skips, steps, held, raised);
    assert_true(run->skipped[0] && skips >= 3 && skips < 20 && raised >= 1);
    assert_true(options->hysteresis == 1 ? held == 0 : held > 0);
    assert_true(run->loss[steps - 1] < run->loss[0]);
}

/* Stages agree on every skip, whatever the hysteresis, and so does a run that switches between them. A skipped step moves on
 * in the text, but not in the schedule of the learning rate. */
static void test_fp16_overflows(void **state)
{
    (void)state;
    enum { SETTINGS = 3, STEPS = 24 };
    static const struct config_fp16 settings[SETTINGS] = {
        {true, 0, 22, 3, 1, false, 1}, {true, 0, 21, 3, 2, false, 1}, {true, 0, 20, 3, 3, true, 1}};
    for (int h = 0; h < SETTINGS; h++) {
        struct plan_of_run plan = base(STEPS, "topology.ranks=3", stage_sets[0], false);
        char fp16[200];
        snprintf(fp16, sizeof fp16,
                 "fp16={\"enabled\": true, \"initial_scale_power\": %d, \"loss_scale_window\": 3, "
                 "\"hysteresis\": %d, \"consecutive_hysteresis\": %s}",
                 settings[h].initial_scale_power, settings[h].hysteresis,
                 settings[h].consecutive_hysteresis ? "true" : "false");
        set(&plan, fp16);
        set(&plan,
            "scheduler={\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 8, \"warmup_type\": \"linear\"}}");
        struct outcome_of_run reference = run(&plan);
        expect_scales(&settings[h], &reference, STEPS);
        for (int stage = 1 + effort(h % 2, h % 2, 0); stage <= 3; stage += effort(2, 2, 1)) {
            plan.sets[1] = stage_sets[stage];
            struct outcome_of_run other = run(&plan);
            expect_same(&reference, &other, STEPS, stage_sets[stage]);
        }
        plan.switch_count = 5;
        for (int s = 0; s < 5; s++)
            plan.switches[s].before_step = 2 + 4 * s, plan.switches[s].stage = (int[]){0, 2, 1, 3, 0}[s];
        struct outcome_of_run switched = run(&plan);
        expect_same(&reference, &switched, STEPS, "switching");
    }
}

/* At the smallest scale DeepSpeed gives up; so does the engine, on every rank, naming a tensor. */
static void test_fp16_gives_up(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage += 3) {
        struct plan_of_run plan = base(9, "topology.ranks=2", stage_sets[stage], false);
        set(&plan, "fp16={\"enabled\": true, \"initial_scale_power\": 40, \"min_loss_scale\": 1e11}");
        plan.fails_with = "step 6: gradients overflow fp16 at the smallest loss scale, 1e+11 (fp16.min_loss_scale); first "
                          "tensor that is not finite: gradient of embed wte";
        run(&plan);
    }
}

/* Every optimizer, under a schedule: stages 0 and 3, and a way through all of them; states are as many as it keeps. */
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
        plan.sets[1] = stage_sets[3];
        struct outcome_of_run sharded = run(&plan);
        expect_same(&reference, &sharded, 6, optimizers[o].set);
        assert_int_equal(reference.memory.category[TIER_DEVICE][CATEGORY_OPTIMIZER].live_bytes,
                         (optimizers[o].states + bf16) * 4 * reference.padded_elems);
        plan.switch_count = 4;
        for (int s = 0; s < 4; s++)
            plan.switches[s].before_step = 2 + s, plan.switches[s].stage = (int[]){0, 1, 3, 2}[s];
        struct outcome_of_run switched = run(&plan);
        expect_same(&reference, &switched, 6, "switching");
    }
}

/* Gradients that accumulate and travel in other types than backward makes them in: stages agree, memory and traffic are as
 * planned, and it is the bytes of the type that travel. */
static void test_gradient_types(void **state)
{
    (void)state;
    static const struct {
        const char *model, *kept, *sent;
        int kept_bytes, sent_bytes;
        bool as_plain; /* the same bits as without them: a mean in fp32, rounded once to what it is kept in */
    } types[] = {
        {"bf16.enabled=true", "model", "fp32", 2, 4, true},   {"bf16.enabled=true", "fp32", "model", 4, 2, true},
        {"fp16.enabled=true", "fp32", "fp32", 4, 4, false},   {"fp16.enabled=true", "model", "bf16", 2, 2, false},
        {"bf16.enabled=false", "model", "bf16", 4, 2, false},
    };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char kept[64], sent[64];
        struct outcome_of_run reference, plain;
        snprintf(kept, sizeof kept, "data_types.grad_accum_dtype=%s", types[t].kept);
        snprintf(sent, sizeof sent, "communication_data_type=%s", types[t].sent);
        struct plan_of_run plan = base(5, "topology.ranks=3", stage_sets[1], false);
        set(&plan, types[t].model);
        plain = run(&plan);
        set(&plan, kept);
        set(&plan, sent);
        for (int stage = 0; stage <= 3; stage++) {
            plan.sets[1] = stage_sets[stage];
            struct outcome_of_run out = run(&plan);
            if (stage == 0) reference = out;
            expect_same(&reference, &out, 5, types[t].sent);
            const int64_t elems = out.padded_elems / (stage >= 2 ? 3 : 1);
            assert_int_equal(out.memory.category[TIER_DEVICE][CATEGORY_GRADIENTS].live_bytes,
                             elems * types[t].kept_bytes);
            assert_true(out.memory.tier[TIER_DEVICE].peak_bytes <= (uint64_t)out.footprint.peak_bytes[TIER_DEVICE]);
            assert_int_equal(out.traffic[stage ? TRAFFIC_REDUCE_SCATTER : TRAFFIC_ALL_REDUCE].sent_bytes,
                             out.padded_elems / 3 * 2 * types[t].sent_bytes * (stage ? 1 : 2));
        }
        assert_true((reference.hash == plain.hash) == types[t].as_plain);
    }
}

/* Over micro-steps: stages 0 and 1 add in fp32 before anything travels, 2 and 3 what has travelled; the pairs agree. */
static void test_gradient_types_accumulate(void **state)
{
    (void)state;
    struct outcome_of_run out[4];
    for (int stage = 0; stage <= 3; stage++) {
        struct plan_of_run plan = base(4, "topology.ranks=2", stage_sets[stage], true);
        set(&plan, "gradient_accumulation_steps=3");
        set(&plan, "data_types.grad_accum_dtype=fp32");
        if (stage == 3) set(&plan, "zero_optimization.overlap_comm=false");
        out[stage] = run(&plan);
        assert_true(out[stage].loss[3] < out[stage].loss[0]);
    }
    expect_same(&out[0], &out[1], 4, "stage 1 against 0");
    expect_same(&out[2], &out[3], 4, "stage 3 against 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp16_overflows),
        cmocka_unit_test(test_fp16_gives_up),
        cmocka_unit_test(test_every_optimizer),
        cmocka_unit_test(test_gradient_types),
        cmocka_unit_test(test_gradient_types_accumulate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
