/* Recomputation: what is kept, what is made again, what it costs; and that nothing learned depends on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/plan/formula.h"
#include "engine/plan/checker.h"
#include "engine/plan/footprint.h"
#include "tests/support/op_uses.h"
#include "tests/support/zero_runs.h"

static const struct config_model nano = {"nano", 4, 128, 4, 64, 256, .kind = KIND_GPT2},
                                 odd = {"odd", 5, 40, 4, 17, 301, .kind = KIND_GPT2};

static struct config_zero knobs_of(int stage, enum recompute recompute, int every)
{
    return (struct config_zero){.stage = stage,
                                .reduce_bucket_elems = 200000,
                                .allgather_bucket_elems = 200000,
                                .overlap_comm = true,
                                .prefetch_bucket_elems = 200000,
                                .max_live_parameters = 1000000000,
                                .recompute = recompute,
                                .checkpoint_every = every};
}

static struct schedule built(const struct model *model, const struct config_zero *knobs, int micro_steps, int B, int T)
{
    struct schedule schedule;
    struct error err = {0};
    struct schedule_input input = {model, knobs, PURPOSE_TRAIN, 4, micro_steps, B, T, 1, false, 0};
    if (schedule_build(&schedule, &input, &err)) fail_msg("%s", err.text);
    if (schedule_check(&schedule, model, &err)) fail_msg("%s", err.text);
    return schedule;
}

/* ---- the plan ---- */

static int count(const struct schedule *schedule, enum op_kind kind)
{
    int found = 0;
    for (int i = 0; i < schedule->op_count; i++) found += schedule->ops[i].kind == kind;
    return found;
}

/* Each block is made again once in a micro-step; a segment's blocks in order, right before their backward. */
static void test_every_block_is_made_again_once(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &odd, DTYPE_F32, NULL);
    for (int every = 1; every <= 6; every++) {
        struct config_zero knobs = knobs_of(3, RECOMPUTE_FULL, every);
        struct schedule schedule = built(&model, &knobs, 2, 1, 17);
        assert_int_equal(ops_that_are(&schedule, OP_RECOMPUTE, USE_BLOCK), 2 * 5);
        int made[8] = {0};
        for (int i = 0; i < schedule.op_count; i++) {
            const struct op *op = &schedule.ops[i];
            if (op_is(op, OP_RECOMPUTE, USE_BLOCK)) made[op->unit]++;
            if (!op_is(op, OP_BACKWARD, USE_BLOCK)) continue;
            assert_int_equal(made[op->unit]--, 1);
            for (int u = 1; u <= 5; u++) /* nothing outside this segment is there */
                assert_true(made[u] == 0 || (u - 1) / every == (op->unit - 1) / every);
        }
        schedule_release(&schedule);
    }
    struct config_zero knobs = knobs_of(3, RECOMPUTE_ATTENTION, 1);
    struct schedule schedule = built(&model, &knobs, 2, 1, 17);
    assert_int_equal(ops_that_are(&schedule, OP_RECOMPUTE, USE_ATTENTION), 2 * 5);
    assert_int_equal(ops_that_are(&schedule, OP_RECOMPUTE, USE_BLOCK), 0);
    schedule_release(&schedule);
    model_release(&model);
}

/* A block's recomputation and backward share one gather; blocks of a longer segment, all but its last, need another. */
static void test_gathers_for_recomputation(void **state)
{
    (void)state;
    static const int every[] = {1, 2, 3, 4}, extra[] = {0, 2, 2, 3};
    struct model model;
    model_init(&model, &nano, DTYPE_F32, NULL);
    for (int k = 0; k < 4; k++) {
        struct config_zero knobs = knobs_of(3, RECOMPUTE_FULL, every[k]);
        struct schedule schedule = built(&model, &knobs, 1, 4, 64);
        assert_int_equal(count(&schedule, OP_GATHER), 2 * model.unit_count + extra[k]);
        schedule_release(&schedule);
    }
    model_release(&model);
}

/* Bytes of activations that are live when an operation begins, its own takes not counted. */
static int64_t activations_before_norm(const struct schedule *schedule)
{
    int64_t live = 0;
    for (int i = 0; !op_is(&schedule->ops[i], OP_FORWARD, USE_NORM); i++) {
        const struct op *op = &schedule->ops[i];
        for (int e = 0; e < op->take_count + op->give_count; e++) {
            const bool take = e < op->take_count;
            const struct buffer *buffer =
                &schedule->buffers[schedule->effects[take ? op->first_take + e : op->first_give + e - op->take_count]];
            if (buffer->category == CATEGORY_ACTIVATIONS) live += take ? buffer->bytes : -buffer->bytes;
        }
    }
    return live;
}

/* The terms add up to what the schedule really holds when the last block is done: that, the norm's input and the tokens. */
static void test_terms_add_up(void **state)
{
    (void)state;
    const struct config_model *shapes[] = {&nano, &odd};
    for (int shape = 0; shape < 2; shape++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (int way = 0; way < 6; way++) {
                const int B = 3, T = shapes[shape]->context;
                struct model model;
                model_init(&model, shapes[shape], bf16 ? DTYPE_BF16 : DTYPE_F32, NULL);
                struct config_zero knobs = knobs_of(0,
                                                    way < 4    ? RECOMPUTE_FULL
                                                    : way == 4 ? RECOMPUTE_ATTENTION
                                                               : RECOMPUTE_NONE,
                                                    way < 4 ? way + 1 : 1);
                struct schedule schedule = built(&model, &knobs, 1, B, T);
                struct activation_terms terms;
                activation_terms_of(&terms, &model, &knobs, B, T);
                int64_t sum = terms.stored;
                for (int t = 0; t < terms.count; t++) sum += terms.difference[t].bytes;
                assert_int_equal(sum, terms.kept);
                assert_int_equal(terms.kept + activation_output_bytes(&model, B, T) + 2 * 4 * B * T,
                                 activations_before_norm(&schedule));
                schedule_release(&schedule);
                model_release(&model);
            }
}

/* Korthikanti et al.'s own example (s 512, b 3, h 1280, a 20, nothing parallel), and what remains with all kept in 16 bits:
 * 34 less the masks, and the small change. */
static void test_literature(void **state)
{
    (void)state;
    static const struct config_model shape = {"example", 1, 1280, 20, 512, 256, .kind = KIND_GPT2};
    struct model model;
    struct activation_terms terms;
    model_init(&model, &shape, DTYPE_BF16, NULL);
    struct config_zero knobs = knobs_of(0, RECOMPUTE_NONE, 1);
    activation_terms_of(&terms, &model, &knobs, 3, 512);
    assert_int_equal(terms.stored, 145489920);
    assert_int_equal(terms.flash, 66846720);
    assert_int_equal(terms.inputs, 3932160);
    const int64_t sb = 512 * 3;
    assert_int_equal(terms.kept, 32 * sb * 1280 + 4 * 20 * sb + 16 * sb);
    knobs = knobs_of(0, RECOMPUTE_FULL, 1);
    activation_terms_of(&terms, &model, &knobs, 3, 512);
    assert_int_equal(terms.kept, terms.inputs);
    model_release(&model);
}

/* Full recomputation is one more forward of the blocks, less the last product of each segment, whose output was kept. */
static void test_flops(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &nano, DTYPE_F32, NULL);
    const int64_t N = 4 * 64, C = 128, L = 4, V = 256, last = 2 * N * 4 * C * C, scores = N * 65 * C;
    const int64_t block = 24 * N * C * C + 2 * scores;
    struct flops flops;
    for (int every = 1; every <= 4; every++) {
        struct config_zero knobs = knobs_of(2, RECOMPUTE_FULL, every);
        struct schedule schedule = built(&model, &knobs, 1, 4, 64);
        flops_of(&flops, &schedule, &model);
        assert_int_equal(flops.recomputed, L * block - (L + every - 1) / every * last);
        schedule_release(&schedule);
    }
    assert_int_equal(flops.forward, L * block + 2 * N * V * C);
    assert_int_equal(flops.backward, L * (48 * N * C * C + 5 * scores) + 4 * N * V * C);
    struct config_zero knobs = knobs_of(2, RECOMPUTE_ATTENTION, 1);
    struct schedule schedule = built(&model, &knobs, 1, 4, 64);
    flops_of(&flops, &schedule, &model);
    assert_int_equal(flops.recomputed, L * (6 * N * C * C + 2 * scores));
    schedule_release(&schedule);
    model_release(&model);
}

/* DeepSpeed's number of checkpoints turns it on; our own keys, where given, have the last word. */
static void test_number_of_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *sets[3];
        int count, every;
        enum recompute recompute;
    } cases[] = {
        {{"model.layers=7", "activation_checkpointing.number_checkpoints=null"}, 2, 1, RECOMPUTE_NONE},
        {{"model.layers=7", "activation_checkpointing.number_checkpoints=7"}, 2, 1, RECOMPUTE_FULL},
        {{"model.layers=7", "activation_checkpointing.number_checkpoints=3"}, 2, 3, RECOMPUTE_FULL},
        {{"model.layers=7", "activation_checkpointing.number_checkpoints=100"}, 2, 1, RECOMPUTE_FULL},
        {{"activation_checkpointing.number_checkpoints=4", "model.recompute=attention"}, 2, 1, RECOMPUTE_ATTENTION},
        {{"activation_checkpointing.number_checkpoints=4", "model.checkpoint_every=2"}, 2, 2, RECOMPUTE_FULL}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct config config;
        struct error err = {0};
        if (config_load(&config, "configs/nano.json", cases[c].sets, cases[c].count, &err)) fail_msg("%s", err.text);
        assert_int_equal(config.zero.recompute, cases[c].recompute);
        assert_int_equal(config.zero.checkpoint_every, cases[c].every);
        config_release(&config);
    }
}

/* All checkpoints but the last segment's go to the host tier, and each comes back with the first operation of the segment
 * whose backward is before its own. */
static void test_checkpoints_come_back_one_segment_ahead(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &odd, DTYPE_BF16, NULL);
    for (int every = 1; every <= 5; every++) {
        struct config_zero knobs = knobs_of(3, RECOMPUTE_FULL, every);
        struct footprint kept, sent;
        struct schedule schedule = built(&model, &knobs, 2, 2, 17);
        footprint_of(&kept, &schedule);
        schedule_release(&schedule);
        knobs.cpu_checkpointing = true;
        schedule = built(&model, &knobs, 2, 2, 17);
        footprint_of(&sent, &schedule);
        const int away = (5 - 1) / every;
        assert_int_equal(count(&schedule, OP_OFFLOAD), 2 * away);
        assert_int_equal(count(&schedule, OP_FETCH), 2 * away);
        assert_int_equal(sent.peak_bytes[TIER_HOST], away * activation_output_bytes(&model, 2, 17));
        assert_true(sent.peak_bytes[TIER_DEVICE] <= kept.peak_bytes[TIER_DEVICE]);
        for (int i = 0; i < schedule.op_count; i++) {
            if (schedule.ops[i].kind != OP_FETCH) continue;
            assert_true(op_is(&schedule.ops[i + 1], OP_RECOMPUTE, USE_BLOCK));
            assert_int_equal(schedule.ops[i + 1].unit, schedule.ops[i].unit + 1 + every);
        }
        schedule_release(&schedule);
    }
    model_release(&model);
}

/* ---- the run ---- */

static const char *const ways[][2] = {{"model.recompute=none", "model.checkpoint_every=1"},
                                      {"model.recompute=attention", "model.checkpoint_every=1"},
                                      {"model.recompute=full", "model.checkpoint_every=1"},
                                      {"model.recompute=full", "model.checkpoint_every=2"},
                                      {"model.recompute=full", "model.checkpoint_every=3"}};

enum { WAYS = sizeof ways / sizeof *ways, STEPS = 4 };

static struct outcome_of_run run_way(int way, int stage, bool bf16, const char *extra)
{
    struct plan_of_run plan = base(STEPS, "topology.ranks=2", stage_sets[stage], bf16);
    set(&plan, ways[way][0]);
    set(&plan, ways[way][1]);
    set(&plan, "train_micro_batch_size_per_gpu=2");
    if (extra) set(&plan, extra);
    return run(&plan);
}

static void test_same_bits_and_planned_bytes(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct outcome_of_run reference = run_way(0, 0, bf16, NULL);
        for (int way = 0; way < WAYS; way++)
            for (int stage = 0; stage <= 3; stage++) {
                struct outcome_of_run out = run_way(way, stage, bf16, NULL);
                expect_same(&reference, &out, STEPS, ways[way][0]);
                assert_int_equal(out.memory.category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes,
                                 out.footprint.category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes);
                assert_true((int64_t)out.memory.tier[TIER_DEVICE].peak_bytes <= out.footprint.peak_bytes[TIER_DEVICE]);
            }
    }
}

static void test_checkpoints_in_the_host_tier(void **state)
{
    (void)state;
    static const char host[] = "activation_checkpointing.cpu_checkpointing=true", deep[] = "model.layers=7";
    for (int stage = 0; stage <= 3; stage += 3)
        for (int every = 1; every <= 3; every += 2) {
            struct plan_of_run plan = base(STEPS, "topology.ranks=2", stage_sets[stage], true);
            set(&plan, deep);
            set(&plan, "gradient_accumulation_steps=2");
            struct outcome_of_run reference = run(&plan);
            set(&plan, "model.recompute=full");
            set(&plan, every == 1 ? "model.checkpoint_every=1" : "model.checkpoint_every=3");
            set(&plan, host);
            struct outcome_of_run out = run(&plan);
            expect_same(&reference, &out, STEPS, host);
            assert_true(out.footprint.peak_bytes[TIER_HOST] > 0);
            assert_int_equal(out.memory.tier[TIER_HOST].peak_bytes, out.footprint.peak_bytes[TIER_HOST]);
            assert_int_equal(out.memory.tier[TIER_HOST].live_bytes, 0);
            assert_true((int64_t)out.memory.category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes <=
                        out.footprint.category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes);
        }
}

static void test_same_bits_with_accumulation(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage += 2) {
        struct outcome_of_run reference = run_way(0, stage, true, "gradient_accumulation_steps=3");
        for (int way = 1; way < WAYS; way++) {
            struct outcome_of_run out = run_way(way, stage, true, "gradient_accumulation_steps=3");
            expect_same(&reference, &out, STEPS, ways[way][0]);
        }
    }
}

static void recompute_all(struct config_zero *knobs)
{
    knobs->recompute = RECOMPUTE_FULL;
    knobs->checkpoint_every = 2;
}

static void recompute_attention(struct config_zero *knobs)
{
    knobs->recompute = RECOMPUTE_ATTENTION;
}

static void test_switching_while_training(void **state)
{
    (void)state;
    struct plan_of_run plan = base(8, "topology.ranks=2", stage_sets[3], true);
    struct outcome_of_run reference = run(&plan);
    plan.switch_count = 3;
    for (int s = 0; s < 3; s++) plan.switches[s].before_step = 2 + 2 * s, plan.switches[s].stage = 3 - s;
    plan.switches[0].change = recompute_all;
    plan.switches[1].change = recompute_attention;
    struct outcome_of_run switched = run(&plan);
    expect_same(&reference, &switched, 8, "recomputation switched on and off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_block_is_made_again_once),
        cmocka_unit_test(test_gathers_for_recomputation),
        cmocka_unit_test(test_terms_add_up),
        cmocka_unit_test(test_literature),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_number_of_checkpoints),
        cmocka_unit_test(test_same_bits_and_planned_bytes),
        cmocka_unit_test(test_checkpoints_come_back_one_segment_ahead),
        cmocka_unit_test(test_checkpoints_in_the_host_tier),
        cmocka_unit_test(test_same_bits_with_accumulation),
        cmocka_unit_test(test_switching_while_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
