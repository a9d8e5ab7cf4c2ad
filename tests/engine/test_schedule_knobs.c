/* Knobs that change a step's schedule, and those that cannot: each is seen in the schedule that a configuration gives, and in
 * what a run of it did, by the records that a trace would hold. docs/KNOBS.md has a row for each and names its test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/plan/checker.h"
#include "engine/plan/schedule_io.h"
#include "tests/support/zero_runs.h"

/* ---- the schedule that a configuration gives ---- */

struct planned {
    struct config config;
    struct model model;
    struct schedule schedule;
};

/* Takes the configuration. */
static struct planned planned_of(const struct config *config)
{
    struct planned planned = {.config = *config};
    struct error err = {0};
    assert_int_equal(model_of(&planned.model, config, &err), 0);
    struct schedule_input input = schedule_input_of(config, &planned.model, PURPOSE_TRAIN);
    if (schedule_build(&planned.schedule, &input, &err)) fail_msg("%s", err.text);
    if (schedule_check(&planned.schedule, &planned.model, &err)) fail_msg("%s", err.text);
    return planned;
}

/* Of nano: figures below are worked out for it. */
static struct planned planned_with(const char *const *sets, int count)
{
    struct config config;
    struct error err = {0};
    if (config_load(&config, "configs/nano.json", sets, count, &err)) fail_msg("%s", err.text);
    return planned_of(&config);
}

#define PLANNED(...) planned_with((const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

static void planned_release(struct planned *planned)
{
    schedule_release(&planned->schedule);
    model_release(&planned->model);
    config_release(&planned->config);
}

static int count(const struct schedule *schedule, enum op_kind kind)
{
    int found = 0;
    for (int i = 0; i < schedule->op_count; i++) found += schedule->ops[i].kind == kind;
    return found;
}

static int64_t peak(const struct schedule *schedule, enum category category)
{
    struct footprint footprint;
    footprint_of(&footprint, schedule);
    return footprint.category[TIER_DEVICE][category].peak_bytes;
}

/* ---- runs ---- */

enum { STEPS = 3 };

static int count_ahead(const struct schedule *schedule)
{
    int found = 0;
    for (int i = 0; i < schedule->op_count; i++)
        found += schedule->ops[i].kind == OP_GATHER && schedule->ops[i].prefetch;
    return found;
}

static int64_t gather_bytes(const struct schedule *schedule)
{
    int64_t sum = 0;
    for (int i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].kind == OP_GATHER) sum += schedule->ops[i].bytes;
    return sum;
}

/* What ran is what was planned: every kind of operation as often, gathers as large and as early, memory no higher. */
static void expect_planned(const struct outcome_of_run *out, const struct planned *planned)
{
    const struct schedule *schedule = &planned->schedule;
    struct footprint footprint;
    footprint_of(&footprint, schedule);
    int planned_times[OP_CODES_MAX] = {0};
    for (int i = 0; i < schedule->op_count; i++) planned_times[op_words(schedule->ops[i].kind, schedule->ops[i].use)->code]++;
    for (int code = 0; code < OP_CODES_MAX; code++)
        if (out->coded[code] != STEPS * planned_times[code])
            fail_msg("%s: %d times in %d steps, planned %d times in each", op_code_name(code), out->coded[code], STEPS,
                     planned_times[code]);
    assert_int_equal(out->ahead, STEPS * count_ahead(schedule));
    assert_int_equal(out->gathered_bytes, STEPS * gather_bytes(schedule));
    for (int tier = 0; tier < TIERS; tier++)
        assert_true(out->memory.tier[tier].peak_bytes <= (uint64_t)footprint.peak_bytes[tier]);
}

static struct outcome_of_run run_with(int stage, bool bf16, const char *ranks, const char *const *sets, int sets_count)
{
    struct plan_of_run plan = base(STEPS, ranks, stage_sets[stage], bf16);
    for (int s = 0; s < sets_count; s++) set(&plan, sets[s]);
    struct config config;
    struct error err = {0};
    if (load_plan(&config, &plan, &err)) fail_msg("%s", err.text);
    struct planned planned = planned_of(&config);
    struct outcome_of_run out = run(&plan);
    expect_planned(&out, &planned);
    planned_release(&planned);
    return out;
}

/* With one knob at each of two values, in fp32 on three ranks, beside what else is given; the bits must be the same. */
struct pair {
    struct outcome_of_run at[2];
};

static struct pair both(int stage, const char *one, const char *other, const char *more)
{
    static struct pair pair;
    const char *sets[2][2] = {{one, more}, {other, more}};
    for (int i = 0; i < 2; i++) pair.at[i] = run_with(stage, false, "topology.ranks=3", sets[i], more ? 2 : 1);
    expect_same(&pair.at[0], &pair.at[1], STEPS, other);
    return pair;
}

static int64_t held(const struct outcome_of_run *out, enum category category)
{
    return (int64_t)out->memory.category[TIER_DEVICE][category].peak_bytes;
}

/* ---- what to shard, and in which pieces to move it ---- */

static void test_stage_decides_what_runs(void **state)
{
    (void)state;
    struct outcome_of_run at[4];
    for (int stage = 0; stage <= 3; stage++) at[stage] = run_with(stage, false, "topology.ranks=3", NULL, 0);
    for (int stage = 0; stage <= 3; stage++) {
        expect_same(&at[0], &at[stage], STEPS, stage_sets[stage]);
        assert_int_equal(at[stage].ran[OP_ALL_REDUCE] > 0, stage == 0);
        assert_int_equal(at[stage].ran[OP_REDUCE_SCATTER] > 0, stage >= 1);
        assert_int_equal(at[stage].ran[OP_REFRESH] > 0, stage == 1 || stage == 2);
        assert_int_equal(at[stage].ran[OP_GATHER] > 0, stage == 3);
    }
    assert_true(held(&at[1], CATEGORY_OPTIMIZER) < held(&at[0], CATEGORY_OPTIMIZER));
    assert_true(held(&at[2], CATEGORY_GRADIENTS) < held(&at[1], CATEGORY_GRADIENTS));
    assert_true(held(&at[3], CATEGORY_PARAMETERS) < held(&at[2], CATEGORY_PARAMETERS));
}

static void test_buckets_flush_when_full(void **state)
{
    (void)state;
    struct pair pair =
        both(2, "zero_optimization.reduce_bucket_size=1e9", "zero_optimization.reduce_bucket_size=5e4", NULL);
    assert_int_equal(pair.at[0].ran[OP_REDUCE_SCATTER], STEPS); /* one bucket, of the whole model */
    assert_true(pair.at[1].ran[OP_REDUCE_SCATTER] >= STEPS * pair.at[1].model_elems / 50000);
    assert_true(held(&pair.at[0], CATEGORY_BUCKETS) >= 4 * pair.at[0].model_elems);
    assert_true(held(&pair.at[1], CATEGORY_BUCKETS) < held(&pair.at[0], CATEGORY_BUCKETS));
}

static void test_refreshes_are_cut(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 2; stage++) {
        struct pair pair = both(stage, "zero_optimization.allgather_bucket_size=1e9",
                                "zero_optimization.allgather_bucket_size=1e5", NULL);
        assert_true(pair.at[1].ran[OP_REFRESH] > pair.at[0].ran[OP_REFRESH]);
        assert_true(pair.at[1].ran[OP_REFRESH] >= STEPS * pair.at[1].model_elems / 100000);
    }
}

/* Places of the list at which a bucket's flush stands behind a backward that did not fill it. */
static int flushes_behind_another(const char *setting)
{
    struct planned planned = PLANNED("zero_optimization.stage=2", "topology.ranks=3", setting);
    const struct schedule *schedule = &planned.schedule;
    int found = 0, last = -1;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->lane == LANE_COMPUTE && op->phase == PHASE_BACKWARD) last = i;
        if (op->kind != OP_REDUCE_SCATTER) continue;
        bool filled_by_last = false;
        for (int d = 0; d < op->dependency_count; d++) filled_by_last |= op->dependency[d].op == last;
        found += !filled_by_last;
    }
    planned_release(&planned);
    return found;
}

#define SLOW_LINK "topology.links.intra.latency=4ms" /* so that a reduction that may run beside a backward does */

/* A bucket of one block: with overlap its flush stands behind the next block's backward, which runs beside it; without, the
 * next backward waits for it, but for the last one of a step. */
static void test_overlap_lets_backward_go_on(void **state)
{
    (void)state;
    struct pair pair =
        both(2, "zero_optimization.overlap_comm=false", "zero_optimization.overlap_comm=true", SLOW_LINK);
    print_message("reductions beside backward: %d without overlap, %d with it, of %d\n", pair.at[0].beside,
                  pair.at[1].beside, pair.at[1].ran[OP_REDUCE_SCATTER]);
    assert_true(flushes_behind_another("zero_optimization.overlap_comm=true") >
                flushes_behind_another("zero_optimization.overlap_comm=false"));
    assert_true(pair.at[0].beside <= STEPS && pair.at[1].beside > pair.at[0].beside);
}

static void test_gathers_ahead_of_need(void **state)
{
    (void)state;
    struct pair pair = both(3, "zero_optimization.stage3_prefetch_bucket_size=0",
                            "zero_optimization.stage3_prefetch_bucket_size=2e5", NULL);
    assert_int_equal(pair.at[0].ahead, 0);
    assert_true(pair.at[1].ahead > 0);
    assert_int_equal(pair.at[0].ran[OP_GATHER], pair.at[1].ran[OP_GATHER]); /* as many, earlier */
    assert_true(held(&pair.at[1], CATEGORY_GATHERED) > held(&pair.at[0], CATEGORY_GATHERED));
}

static void test_prefetch_stops_at_the_limit(void **state)
{
    (void)state;
    struct pair pair = both(3, "zero_optimization.stage3_max_live_parameters=1e9",
                            "zero_optimization.stage3_max_live_parameters=62500",
                            "zero_optimization.stage3_prefetch_bucket_size=1e6");
    assert_true(pair.at[1].ahead < pair.at[0].ahead);
    assert_int_equal(pair.at[0].ran[OP_GATHER], pair.at[1].ran[OP_GATHER]); /* nothing is evicted and fetched again */
    assert_true(held(&pair.at[1], CATEGORY_GATHERED) < held(&pair.at[0], CATEGORY_GATHERED));
}

static void test_soon_used_again_is_kept(void **state)
{
    (void)state;
    struct pair pair = both(3, "zero_optimization.stage3_max_reuse_distance=0",
                            "zero_optimization.stage3_max_reuse_distance=1e9", NULL);
    assert_int_equal(pair.at[1].ran[OP_GATHER], STEPS * 5); /* each unit once */
    assert_true(pair.at[0].ran[OP_GATHER] > pair.at[1].ran[OP_GATHER]);
    assert_true(held(&pair.at[1], CATEGORY_GATHERED) > held(&pair.at[0], CATEGORY_GATHERED));
}

static void test_small_tensors_stay_gathered(void **state)
{
    (void)state;
    struct pair pair = both(3, "zero_optimization.stage3_param_persistence_threshold=0",
                            "zero_optimization.stage3_param_persistence_threshold=512", NULL);
    assert_true(pair.at[1].gathered_bytes < pair.at[0].gathered_bytes);
    assert_int_equal(pair.at[0].ran[OP_REFRESH], 0);
    assert_true(pair.at[1].ran[OP_REFRESH] >= STEPS);
    assert_int_equal(pair.at[0].memory.category[TIER_DEVICE][CATEGORY_GATHERED].live_bytes, 0); /* between steps */
    const uint64_t elems = (3 * 13 + 2) * (uint64_t)pair.at[1].hidden; /* of three blocks and the norm */
    assert_true(pair.at[1].memory.category[TIER_DEVICE][CATEGORY_GATHERED].live_bytes >= 4 * elems);
}

/* ---- knobs without effect: the same schedule, and a reason ---- */

static void test_no_effect_with_a_reason(void **state)
{
    (void)state;
    static const char *const sets[] = {"zero_optimization.contiguous_gradients=false",
                                       "zero_optimization.round_robin_gradients=true",
                                       "activation_checkpointing.partition_activations=true",
                                       "activation_checkpointing.contiguous_memory_optimization=true"};
    for (int stage = 0; stage <= 3; stage++)
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            struct planned plain = PLANNED(stage_sets[stage]), with = PLANNED(stage_sets[stage], sets[s]);
            char *one = schedule_to_json(&plain.schedule), *other = schedule_to_json(&with.schedule), name[96];
            assert_string_equal(one, other);
            snprintf(name, sizeof name, "%.*s: accepted, no effect here", (int)strcspn(sets[s], "="), sets[s]);
            assert_non_null(with.config.notes);
            assert_non_null(strstr(with.config.notes, name));
            free(one), free(other);
            planned_release(&plain), planned_release(&with);
        }
}

/* Why round_robin_gradients has nothing to do: of every unit each rank receives as much as any other. */
static void test_every_rank_receives_as_much_of_every_unit(void **state)
{
    (void)state;
    struct planned planned = PLANNED("zero_optimization.stage=2", "topology.ranks=3");
    const struct schedule *schedule = &planned.schedule;
    for (int u = 0; u < planned.model.unit_count; u++) {
        const int64_t shard = shard_elems(planned.model.units[u].elems, 3);
        int64_t received[3] = {0};
        for (int p = 0; p < schedule->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[p];
            if (piece->unit != u || piece->source == piece->destination) continue;
            for (int64_t e = piece->first; e < piece->first + piece->elems; e++) received[e / shard]++;
        }
        for (int r = 0; r < 3; r++) assert_int_equal(received[r], shard);
    }
    planned_release(&planned);
}

/* ---- sub_group_size ---- */

static void test_sub_group_size_cuts_updates(void **state)
{
    (void)state;
    struct planned whole = PLANNED("zero_optimization.stage=3", "topology.ranks=4"),
                   cut = PLANNED("zero_optimization.stage=3", "topology.ranks=4",
                                 "zero_optimization.sub_group_size=20000"),
                   stage2 = PLANNED("zero_optimization.stage=2", "topology.ranks=4",
                                    "zero_optimization.sub_group_size=20000");
    assert_int_equal(count(&whole.schedule, OP_UPDATE), 6);
    assert_int_equal(count(&cut.schedule, OP_UPDATE), 2 + 4 * 3); /* a block's shard has 49,568 elements */
    assert_int_equal(count(&stage2.schedule, OP_UPDATE), 6);
    planned_release(&whole), planned_release(&cut), planned_release(&stage2);

    static const char *const sets[] = {"zero_optimization.sub_group_size=777"};
    struct outcome_of_run reference = run_with(0, true, "topology.ranks=3", NULL, 0),
                          other = run_with(3, true, "topology.ranks=3", sets, 1);
    expect_same(&reference, &other, STEPS, sets[0]);
}

/* ---- stage3_model_persistence_threshold ---- */

static int64_t persistent_elems(const struct schedule *schedule)
{
    int64_t bytes = 0;
    for (int b = 0; b < schedule->lasting_count; b++)
        if (schedule->buffers[b].extent == EXTENT_TAIL) bytes += schedule->buffers[b].bytes;
    return bytes / 4;
}

#define PERSISTENT "zero_optimization.stage3_param_persistence_threshold=512"
#define CAPPED     "zero_optimization.stage3_model_persistence_threshold=6000"
#define CAPPED_TOO "zero_optimization.stage3_model_persistence_threshold=3000" /* as that for the model of runs */

/* A block has 1,664 elements in tensors of at most 512. Three fit whole; of the fourth the six of 128, and of the norm one. */
static void test_model_persistence_threshold_caps_the_sum(void **state)
{
    (void)state;
    struct planned all = PLANNED("zero_optimization.stage=3", PERSISTENT),
                   some = PLANNED("zero_optimization.stage=3", PERSISTENT, CAPPED),
                   none = PLANNED("zero_optimization.stage=3", PERSISTENT,
                                  "zero_optimization.stage3_model_persistence_threshold=0");
    assert_int_equal(persistent_elems(&all.schedule), 4 * 1664 + 256);
    assert_int_equal(persistent_elems(&some.schedule), 3 * 1664 + 6 * 128 + 128);
    assert_int_equal(persistent_elems(&none.schedule), 0);
    planned_release(&all), planned_release(&some), planned_release(&none);

    static const char *const sets[] = {PERSISTENT, CAPPED_TOO};
    struct outcome_of_run reference = run_with(0, true, "topology.ranks=3", NULL, 0),
                          other = run_with(3, true, "topology.ranks=3", sets, 2);
    expect_same(&reference, &other, STEPS, CAPPED_TOO);
}

/* ---- prescale_gradients, gradient_predivide_factor ---- */

static char *printed(const struct planned *planned)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    schedule_print(out, &planned->schedule, &planned->model);
    fclose(out);
    return text;
}

/* Whatever divides when: all stages the same bits. By powers of two nothing is lost, so that they are also those of the
 * plain mean; by three, in bf16, they are not. */
static void divided(const char *setting, const char *shown, bool exact, bool bf16, const char *ranks)
{
    struct planned planned = PLANNED("zero_optimization.stage=2", ranks, setting);
    char *text = printed(&planned);
    assert_non_null(strstr(text, shown));
    free(text);
    planned_release(&planned);
    struct outcome_of_run plain = run_with(0, bf16, ranks, NULL, 0), first = run_with(0, bf16, ranks, &setting, 1);
    for (int stage = 1; stage <= 3; stage++) {
        struct outcome_of_run other = run_with(stage, bf16, ranks, &setting, 1);
        expect_same(&first, &other, STEPS, setting);
    }
    if (exact) expect_same(&plain, &first, STEPS, setting);
    else assert_true(plain.hash != first.hash);
}

static void test_dividing_before_the_sum(void **state)
{
    (void)state;
    divided("prescale_gradients=true", " /4 before", true, false, "topology.ranks=4");
    divided("prescale_gradients=true", " /3 before", false, true, "topology.ranks=3");
    divided("gradient_predivide_factor=3", " /3 before, x3/4 after", false, true, "topology.ranks=4");
    divided("gradient_predivide_factor=2", " /2 before, x2/4 after", true, true, "topology.ranks=4");
}

/* ---- schedule.keep_last_units ---- */

#define KEEP(n) "schedule.keep_last_units=" #n

static void test_keeping_the_last_units(void **state)
{
    (void)state;
    static const char *const keeps[] = {KEEP(0), KEEP(1), KEEP(2), KEEP(3)};
    int64_t most = 0;
    for (int keep = 0; keep < 4; keep++) {
        struct planned planned = PLANNED("zero_optimization.stage=3", keeps[keep]);
        assert_int_equal(count(&planned.schedule, OP_GATHER), 2 * planned.model.unit_count - keep);
        const int64_t now = peak(&planned.schedule, CATEGORY_GATHERED);
        if (keep == 3) assert_true(now > most); /* two blocks held, and what is prefetched */
        most = now;
        planned_release(&planned);
    }
    struct planned all = PLANNED("zero_optimization.stage=3", KEEP(1000));
    assert_int_equal(count(&all.schedule, OP_GATHER), all.model.unit_count); /* FSDP's SHARD_GRAD_OP */
    planned_release(&all);

    static const char *const sets[] = {KEEP(2), "model.recompute=full", "model.checkpoint_every=2"};
    struct outcome_of_run reference = run_with(0, true, "topology.ranks=3", NULL, 0),
                          other = run_with(3, true, "topology.ranks=3", sets, 3);
    expect_same(&reference, &other, STEPS, sets[0]);
}

/* ---- schedule.no_sync ---- */

#define ACCUMULATE "gradient_accumulation_steps=3"
#define NO_SYNC    "schedule.no_sync=true"

static void test_no_sync_reduces_once(void **state)
{
    (void)state;
    for (int stage = 2; stage <= 3; stage++) {
        struct planned each = PLANNED(stage_sets[stage], ACCUMULATE),
                       once = PLANNED(stage_sets[stage], ACCUMULATE, NO_SYNC);
        assert_int_equal(count(&each.schedule, OP_REDUCE_SCATTER), 3 * count(&once.schedule, OP_REDUCE_SCATTER));
        for (int i = 0; i < once.schedule.op_count; i++)
            if (once.schedule.ops[i].kind == OP_REDUCE_SCATTER) assert_int_equal(once.schedule.ops[i].micro_step, 2);
        assert_int_equal(peak(&once.schedule, CATEGORY_BUCKETS), 4 * once.model.elems); /* all of them, unreduced */
        assert_true(peak(&each.schedule, CATEGORY_BUCKETS) < 4 * once.model.elems);
        const struct volume volume = traffic_theory_volume(&once.schedule);
        assert_int_equal(volume.count, 2);
        assert_true(volume.term[0].gradients && volume.term[0].times == 1);
        assert_true(!volume.term[1].gradients && volume.term[1].times == (stage == 2 ? 1 : 2 * 3));
        planned_release(&each), planned_release(&once);
    }
}

/* Reducing once, stages 2 and 3 round where 0 and 1 do: all four agree, which they cannot when 2 and 3 reduce every time. */
static void all_stages_agree(const char *accumulate_in)
{
    const char *const sets[] = {ACCUMULATE, "train_micro_batch_size_per_gpu=2", accumulate_in, NO_SYNC};
    struct outcome_of_run reference = run_with(0, true, "topology.ranks=3", sets, 3);
    for (int stage = 0; stage <= 3; stage++) {
        struct outcome_of_run other = run_with(stage, true, "topology.ranks=3", sets, 4);
        expect_same(&reference, &other, STEPS, stage_sets[stage]);
    }
    struct outcome_of_run apart = run_with(2, true, "topology.ranks=3", sets, 3);
    assert_true(apart.hash != reference.hash);
}

static void test_no_sync_makes_all_stages_agree(void **state)
{
    (void)state;
    all_stages_agree("data_types.grad_accum_dtype=bf16");
    all_stages_agree("data_types.grad_accum_dtype=fp32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stage_decides_what_runs),
        cmocka_unit_test(test_buckets_flush_when_full),
        cmocka_unit_test(test_refreshes_are_cut),
        cmocka_unit_test(test_overlap_lets_backward_go_on),
        cmocka_unit_test(test_gathers_ahead_of_need),
        cmocka_unit_test(test_prefetch_stops_at_the_limit),
        cmocka_unit_test(test_soon_used_again_is_kept),
        cmocka_unit_test(test_small_tensors_stay_gathered),
        cmocka_unit_test(test_no_effect_with_a_reason),
        cmocka_unit_test(test_every_rank_receives_as_much_of_every_unit),
        cmocka_unit_test(test_sub_group_size_cuts_updates),
        cmocka_unit_test(test_model_persistence_threshold_caps_the_sum),
        cmocka_unit_test(test_dividing_before_the_sum),
        cmocka_unit_test(test_keeping_the_last_units),
        cmocka_unit_test(test_no_sync_reduces_once),
        cmocka_unit_test(test_no_sync_makes_all_stages_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
