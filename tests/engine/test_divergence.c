/* Runs that diverge: the step stops before its update on every rank, a tensor is named, and the state of before stays; and where
 * steps are skipped, how many in a row end the run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/zero_runs.h"

static struct plan_of_run small(int steps, const char *ranks, int stage)
{
    static const char *const sets[] = {"model.name=custom",    "model.layers=2",       "model.hidden=32",
                                       "model.heads=2",        "model.context=32",     "data.sequence_length=32",
                                       "model.vocabulary=256"};
    struct plan_of_run plan = base(steps, ranks, stage_sets[stage], false);
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) set(&plan, sets[s]);
    return plan;
}

/* Before step 3 one master weight becomes what `value` says, on the rank that owns it. In fp32 that step is not finite. In 16 bits its
 * update writes the parameter that is not, and the next step is not finite: also where the value is finite in fp32 and not in the
 * 16 bits, of which 65520 is the least in fp16. */
static const struct poison {
    const char *set;
    int unit, tensor, step;
    float value;
    const char *why, *says;
} poisons[] = {
    {"bf16.enabled=false", 1, 3, 3, NAN, "the loss is nan", "; first tensor that is not finite: weights of block 0 attn.proj.w"},
    {"bf16={\"enabled\": true, \"check_grad_overflow\": false}", 2, 4, 4, INFINITY, "the loss is nan", "weights of block 1 mlp.fc.b"},
    {"bf16={\"enabled\": true, \"check_grad_overflow\": false}", 2, 4, 4, 3.4e38f, "the loss is nan", "weights of block 1 mlp.fc.b"},
    {"fp16={\"enabled\": true, \"loss_scale\": 8}", 2, 4, 4, 65520, "1 steps in a row were skipped", "weights of block 1 mlp.fc.b"},
};
static const struct poison *poison;

static void poison_weight(struct zero *zero, int rank, int step)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    const struct unit *unit = &zero->model.units[poison->unit];
    const int64_t elem = unit->tensors[poison->tensor].offset, shard = shard_elems(unit->elems, zero->ranks);
    if (step != 3 || elem / shard != rank) return;
    *(float *)zero_at(zero, schedule, schedule->layout[poison->unit].master, elem) = poison->value;
}

/* Nothing is skipped: the step stops before its update, on every rank, and a tensor is named. */
static void test_divergence_names_a_tensor(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof poisons / sizeof *poisons; p++)
        for (int stage = 0; stage <= 3; stage++) {
            char says[64];
            struct plan_of_run plan = small(6, "topology.ranks=3", stage);
            poison = &poisons[p];
            set(&plan, poison->set);
            set(&plan, "schedule.max_skips=1");
            plan.before_step = poison_weight;
            plan.fails_with = poison->says;
            struct outcome_of_run out = run(&plan);
            snprintf(says, sizeof says, "step %d: %s", poison->step, poison->why);
            assert_non_null(strstr(out.error, says));
        }
}

/* The state that is left is that of a run which ends before the step. */
static void poison_gradients(struct zero *zero, int rank, int step)
{
    if (step == 4 && rank == 1) zero->progress.scaler.scale = INFINITY; /* of this rank's loss, before backward */
}

static void test_divergence_leaves_the_state(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        struct plan_of_run plan = small(3, "topology.ranks=2", stage);
        set(&plan, "gradient_accumulation_steps=2");
        const struct outcome_of_run before = run(&plan);
        plan.steps = 6;
        plan.before_step = poison_gradients;
        plan.fails_with = "step 4: the loss is ";
        const struct outcome_of_run out = run(&plan);
        assert_non_null(strstr(out.error, "; first tensor that is not finite: gradient of embed wte"));
        assert_true(out.hash == before.hash);
    }
}

/* Steps are skipped: so many in a row end the run, and fp16 counts none while its scale can fall. */
static void test_skips_in_a_row_end_the_run(void **state)
{
    (void)state;
    struct plan_of_run plan = small(20, "topology.ranks=2", 2);
    const int scale = plan.set_count;
    set(&plan, "fp16={\"enabled\": true, \"initial_scale_power\": 50, \"min_loss_scale\": 1e14, \"hysteresis\": 1}");
    set(&plan, "schedule.max_skips=3");
    plan.fails_with = "step 5: gradients overflow fp16 at the smallest loss scale, 1e+14";
    run(&plan); /* four skips in which the scale falls do not count */
    plan.sets[scale] = "fp16={\"enabled\": true, \"initial_scale_power\": 50, \"min_loss_scale\": 1e14, \"hysteresis\": 100}";
    plan.fails_with = NULL;
    struct outcome_of_run out = run(&plan); /* nothing but skips, and the scale could still fall */
    assert_true(out.skipped[0] && out.skipped[19]);
    plan.sets[scale] = "fp16={\"enabled\": true, \"initial_scale_power\": 50, \"min_loss_scale\": 1125899906842624, \"hysteresis\": 100}";
    plan.fails_with = "step 3: 3 steps in a row were skipped (schedule.max_skips)";
    run(&plan);
    plan.sets[scale] = "fp16={\"enabled\": true, \"loss_scale\": 1e20}";
    run(&plan);
    plan.sets[scale + 1] = "schedule.max_skips=0";
    plan.fails_with = NULL;
    out = run(&plan);
    assert_true(out.skipped[0] && out.skipped[19]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divergence_names_a_tensor),
        cmocka_unit_test(test_divergence_leaves_the_state),
        cmocka_unit_test(test_skips_in_a_row_end_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
