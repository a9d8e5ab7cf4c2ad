/* What views say of the open step (how far each rank is, cells of units x ranks, buckets), held at every record against
 * what the allocator reported: on a real trace, and on steps whose lanes are interleaved at random, as any engine might. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/observe/cells.h"
#include "engine/plan/schedule_io.h"
#include "engine/trace/source.h"
#include "tests/support/op_uses.h"

enum { UNITS_MAX = 64 };

static const char example[] = "docs/example.zlt";

static struct run_model *new_model(void)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    assert_non_null(model);
    return model;
}

/* ---- cells against the allocator ---- */

/* Bytes of a category that the cells of a rank show. */
static int64_t shown_bytes(const struct progress *at, enum category category)
{
    struct unit_cell cells[UNITS_MAX];
    struct unit_keep keep[UNITS_MAX];
    const int units = units_of(&at->plan->ops);
    int64_t sum = 0;
    assert_true(units <= UNITS_MAX);
    cells_of(at, cells, units);
    units_keep(&at->plan->ops, keep, units);
    for (int u = 0; u < units; u++)
        sum += category == CATEGORY_GATHERED ? cells[u].gathered_bytes + keep[u].tail_bytes
                                               : cells[u].unreduced_bytes + cells[u].block_bytes;
    return sum;
}

/* Between the records of its beginning and end an operation may have taken, or not yet given back, some of its buffers:
 * what a lane may hold more than the cells show. Returns how many possibilities there are, 0 among them. */
static int margins_of_lane(const struct progress *at, enum lane lane, enum category category, int64_t margins[])
{
    const struct schedule *ops = &at->plan->ops;
    int count = 1, next = progress_next(at, lane);
    margins[0] = 0;
    if (next >= 0 && !progress_wait(at, next)) { /* taken from first to last */
        const struct op *op = &ops->ops[next];
        int64_t sum = 0;
        for (int t = 0; t < op->take_count; t++) {
            const struct buffer *buffer = &ops->buffers[ops->effects[op->first_take + t]];
            if (buffer->category == category) margins[count++] = sum += buffer->bytes;
        }
    }
    if (at->ended[lane] > 0 && at->begun[lane] == at->ended[lane]) { /* given back: the last ones may still be there */
        const struct op *op = &ops->ops[at->ended[lane] - 1];
        int64_t sum = 0;
        for (int g = op->give_count - 1; g >= 0; g--) {
            const struct buffer *buffer = &ops->buffers[ops->effects[op->first_give + g]];
            if (buffer->category == category) margins[count++] = sum += buffer->bytes;
        }
    }
    return count;
}

struct tally {
    int checks, exact, nonzero;
};

static void cells_agree(const struct run_model *model, int rank, enum category category, struct tally *tally)
{
    const struct progress at = progress_of(model, rank);
    const struct run_memory *memory = &model->rank[rank].tier[TIER_DEVICE].category[category];
    int64_t margins[LANES][64];
    int counts[LANES];
    if (!at.plan || !at.open || !memory->known) return;
    const int64_t more = (int64_t)memory->live_bytes - shown_bytes(&at, category);
    for (int lane = 0; lane < LANES; lane++)
        counts[lane] = margins_of_lane(&at, (enum lane)lane, category, margins[lane]);
    bool possible = false;
    for (int i = 0; i < counts[LANE_COMPUTE]; i++)
        for (int k = 0; k < counts[LANE_COMM]; k++)
            possible |= more == margins[LANE_COMPUTE][i] + margins[LANE_COMM][k];
    tally->checks++;
    tally->exact += more == 0;
    tally->nonzero += memory->live_bytes > 0;
    if (!possible)
        fail_msg("step %u rank %d: %s holds %llu bytes, the cells show %lld", at.step, rank, category_name(category),
                 (unsigned long long)memory->live_bytes, (long long)memory->live_bytes - (long long)more);
}

static void folded_and_checked(struct run_model *model, const struct trace_record *record, struct tally tallies[2])
{
    run_model_fold(model, record);
    if (record->rank >= model->ranks) return;
    cells_agree(model, record->rank, CATEGORY_GATHERED, &tallies[0]);
    cells_agree(model, record->rank, CATEGORY_BUCKETS, &tallies[1]);
}

static void cells_of_run(const char *path, int least)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    struct run_model *model = new_model();
    struct tally tallies[2] = {{0}};
    if (source_open_file(&source, path, &err)) fail_msg("%s", err.text);
    while (source_next(source, &record) == SOURCE_RECORD) folded_and_checked(model, &record, tallies);
    source_close(source);
    for (int i = 0; i < 2; i++) {
        assert_true(tallies[i].checks > 4 * least);
        assert_true(tallies[i].nonzero > least);
        assert_true(tallies[i].exact > tallies[i].checks * 6 / 10);
    }
    run_model_free(model);
}

static void cells_of_a_real_run(void **state)
{
    (void)state;
    cells_of_run(example, 1000);
}

static void cells_of_shard_groups(void **state)
{
    (void)state;
    cells_of_run("tests/reference/hybrid.zlt", 100);
}

static void cells_of_quantized_blocks(void **state)
{
    (void)state;
    cells_of_run("tests/reference/zeropp.zlt", 100);
}

/* A quantized gather brings blocks; a bucket of two hops is one bucket, in flight until the second has ended. */
static void blocks_and_hops_are_told_apart(void **state)
{
    struct run_model *model = new_model();
    struct source *source;
    struct trace_record record;
    struct unit_cell cells[UNITS_MAX];
    struct error err;
    int gathered = 0, dequantized = 0, between = 0, buckets = 0, reductions = 0;
    (void)state;
    if (source_open_file(&source, "tests/reference/zeropp.zlt", &err)) fail_msg("%s", err.text);
    while (source_next(source, &record) == SOURCE_RECORD) {
        run_model_fold(model, &record);
        if (record.kind != TRACE_OP_END || record.op_end.step != 2) continue;
        const struct progress at = progress_of(model, record.rank);
        const struct schedule *ops = &at.plan->ops;
        const struct op *op = &ops->ops[record.op_end.op];
        if (!at.open) continue;
        cells_of(&at, cells, units_of(ops));
        const bool taken = op->unit >= 0 && cells[op->unit].gathered;
        if (op->kind == OP_GATHER && op->group == GROUP_WORLD) {
            gathered++;
            assert_int_equal(cells[op->unit].parameters, CELL_BLOCKS);
            assert_true(!taken && cells[op->unit].block_bytes > 0);
        } else if (op->kind == OP_DEQUANTIZE) {
            dequantized++;
            assert_true(taken && cells[op->unit].parameters == CELL_WHOLE && cells[op->unit].block_bytes == 0);
        } else if (op->kind == OP_REDUCE_SCATTER && op->group == GROUP_NODE) {
            between++;
            assert_int_equal(bucket_second_hop(ops, (int)record.op_end.op), (int)record.op_end.op + 1);
            assert_int_equal(filling_of(&at, (int)record.op_end.op).state, BUCKET_IN_FLIGHT);
            assert_int_not_equal(cells[ops->pieces[op->first_piece].unit].gradient, CELL_REDUCED);
        } else if (op->kind == OP_REDUCE_SCATTER) {
            assert_int_equal(filling_of(&at, (int)record.op_end.op - 1).state, BUCKET_FLUSHED);
        }
    }
    const struct schedule *ops = &run_training(model)->ops;
    for (int op = bucket_after(ops, -1); op >= 0; op = bucket_after(ops, op)) buckets++;
    for (int op = 0; op < ops->op_count; op++) reductions += ops->ops[op].kind == OP_REDUCE_SCATTER;
    assert_true(gathered > 10 && dequantized > 10 && between > 8 && reductions == 2 * buckets && buckets == 4);
    source_close(source);
    run_model_free(model);
}

/* ---- steps that no engine ran, interleaved at random ---- */

struct run {
    struct run_model *model;
    struct schedule schedule;
    struct tally tallies[2];
    uint64_t now_ns, dice;
};

static unsigned roll(struct run *run)
{
    run->dice = run->dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(run->dice >> 33);
}

static void put(struct run *run, struct trace_record record)
{
    record.time_ns = run->now_ns += 1000;
    folded_and_checked(run->model, &record, run->tallies);
}

enum moment { TAKES, BEGINS, ENDS, GIVES };

struct lane_at {
    int op;
    enum moment moment;
    int effect;
};

static void held(struct run *run, int buffer, int sign)
{
    const struct buffer *of = &run->schedule.buffers[buffer];
    const struct run_memory *now = &run->model->rank[0].tier[of->tier].category[of->category];
    const uint64_t bytes = now->live_bytes + (uint64_t)(sign * of->bytes);
    put(run, (struct trace_record){.kind = TRACE_MEMORY,
                                   .memory = {(uint8_t)of->tier, (uint8_t)of->category, bytes, bytes, bytes}});
}

static int next_of_lane(const struct schedule *schedule, enum lane lane, int op)
{
    for (op++; op < schedule->op_count; op++)
        if (schedule->ops[op].lane == lane) return op;
    return op;
}

static bool may_start(const struct schedule *schedule, const struct lane_at at[], int op)
{
    for (int d = 0; d < schedule->ops[op].dependency_count; d++) {
        const int on = schedule->ops[op].dependency[d].op;
        if (at[schedule->ops[on].lane].op <= on) return false;
    }
    return true;
}

/* One record of a lane: a buffer taken, the beginning, the end, a buffer given back. False: it has to wait. */
static bool advance(struct run *run, struct lane_at all[], enum lane lane)
{
    const struct schedule *schedule = &run->schedule;
    struct lane_at *at = &all[lane];
    if (at->op >= schedule->op_count || (at->moment == TAKES && !may_start(schedule, all, at->op))) return false;
    const struct op *op = &schedule->ops[at->op];
    const uint32_t number = (uint32_t)at->op;
    switch (at->moment) {
    case TAKES:
        if (at->effect < op->take_count) {
            held(run, schedule->effects[op->first_take + at->effect++], 1);
            return true;
        }
        put(run, (struct trace_record){.kind = TRACE_OP_BEGIN, .op_begin = {1, 1, number, run->now_ns}});
        at->moment = ENDS;
        return true;
    case BEGINS:
    case ENDS:
        put(run, (struct trace_record){.kind = TRACE_OP_END,
                                       .op_end = {.schedule = 1, .step = 1, .op = number, .started_ns = run->now_ns}});
        at->moment = GIVES;
        at->effect = 0;
        return true;
    case GIVES:
        if (at->effect < op->give_count) {
            held(run, schedule->effects[op->first_give + at->effect++], -1);
            return true;
        }
        *at = (struct lane_at){next_of_lane(schedule, lane, at->op), TAKES, 0};
        return true;
    }
    return false;
}

static void begin_run(struct run *run)
{
    static const char header[] = "{\"ranks\": 1}";
    char *json = schedule_to_json(&run->schedule);
    put(run, (struct trace_record){.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .run = {{header, strlen(header)}}});
    put(run, (struct trace_record){.kind = TRACE_SCHEDULE,
                                   .schedule = {1, PURPOSE_TRAIN, (uint8_t)run->schedule.stage, {json, strlen(json)}}});
    free(json);
    for (int b = 0; b < run->schedule.lasting_count; b++) held(run, b, 1);
    put(run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {1, 1, (uint8_t)run->schedule.stage}});
}

/* All gradients that backward has completed, told by the kinds of operations alone. */
static int64_t completed_elems(const struct schedule *schedule, const struct progress *at, bool last_only)
{
    struct unit_keep keep[UNITS_MAX];
    int64_t sum = 0;
    units_keep(schedule, keep, units_of(schedule));
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const bool completes = op_is(op, OP_BACKWARD, USE_NORM) || op_is(op, OP_BACKWARD, USE_BLOCK) ||
                               op_is(op, OP_BACKWARD, USE_EMBED);
        if (!completes || i >= at->ended[LANE_COMPUTE]) continue;
        if (!last_only || op->micro_step == schedule->micro_steps - 1) sum += keep[op->unit].elems;
    }
    return sum;
}

static void buckets_agree(const struct run *run)
{
    const struct progress at = progress_of(run->model, 0);
    const struct schedule *schedule = &at.plan->ops;
    int64_t filled = 0;
    for (int op = bucket_after(schedule, -1); op >= 0; op = bucket_after(schedule, op)) {
        const struct filling filling = filling_of(&at, op);
        const int second = bucket_second_hop(schedule, op);
        filled += filling.filled_elems;
        assert_true(filling.filled_elems <= filling.elems);
        if (filling.state >= BUCKET_FULL) assert_int_equal(filling.filled_elems, filling.elems);
        assert_true((filling.state == BUCKET_FLUSHED) == ((second < 0 ? op : second) < at.ended[LANE_COMM]));
    }
    assert_int_equal(filled, completed_elems(schedule, &at, schedule->stage < 2));
}

/* Between the two hops of a gather or a refresh its units are still on their way. Returns how often it was so. */
static int hops_agree(const struct run *run)
{
    const struct progress at = progress_of(run->model, 0);
    const struct schedule *schedule = &at.plan->ops;
    struct unit_cell cells[UNITS_MAX];
    const int first = at.ended[LANE_COMM] - 1;
    const struct op *op = &schedule->ops[first < 0 ? 0 : first];
    if (first < 0 || op->group != GROUP_ACROSS || (op->kind != OP_GATHER && op->kind != OP_REFRESH)) return 0;
    cells_of(&at, cells, units_of(schedule));
    const struct unit_cell *cell = &cells[schedule->pieces[op->first_piece].unit];
    if (op->kind == OP_GATHER) assert_int_equal(cell->parameters, CELL_IN_FLIGHT);
    else assert_int_equal(cell->update, CELL_REFRESHING);
    return 1;
}

static int run_one(const struct model *model, const struct config_zero *knobs, int ranks, int micro_steps,
                   uint64_t dice)
{
    struct run run = {.model = new_model(), .dice = dice};
    struct error err = {0};
    const struct schedule_input input = {model, knobs, PURPOSE_TRAIN, ranks, micro_steps, 2, model->shape.context,
                                         1,     false, ranks == 4 ? 2 : 0};
    int between = 0;
    if (schedule_build(&run.schedule, &input, &err)) fail_msg("%s", err.text);
    struct lane_at at[LANES];
    begin_run(&run);
    for (int lane = 0; lane < LANES; lane++)
        at[lane] = (struct lane_at){next_of_lane(&run.schedule, (enum lane)lane, -1), TAKES, 0};
    while (at[0].op < run.schedule.op_count || at[1].op < run.schedule.op_count) {
        const enum lane lane = roll(&run) % 2;
        if (!advance(&run, at, lane)) assert_true(at[!lane].op < run.schedule.op_count); /* the other one can */
        buckets_agree(&run);
        between += hops_agree(&run);
    }
    const struct progress end = progress_of(run.model, 0);
    assert_int_equal(gathered_of(&end).units, 0);
    assert_int_equal(gathered_of(&end).bytes, 0);
    schedule_release(&run.schedule);
    run_model_free(run.model);
    return between;
}

static void cells_of_every_stage_in_any_order(void **state)
{
    static const struct config_model odd = {"odd", 3, 40, 4, 17, 301, .kind = KIND_GPT2};
    struct model model;
    (void)state;
    assert_int_equal(model_init(&model, &odd, DTYPE_BF16, NULL), 0);
    for (int stage = 0; stage <= 3; stage++)
        for (int variant = 0; variant < 16; variant++) {
            const struct config_zero knobs = {.stage = stage,
                                              .hierarchical = true,
                                              .reduce_bucket_elems = variant & 1 ? 5000 : 30000,
                                              .allgather_bucket_elems = 20000,
                                              .overlap_comm = variant & 2,
                                              .prefetch_bucket_elems = variant & 4 ? 20000 : 0,
                                              .max_live_parameters = 1000000000,
                                              .max_reuse_distance = variant & 8 ? 100000 : 0,
                                              .param_persistence_threshold = variant & 8 ? 400 : 0};
            const int ranks = 1 + variant % 5,
                      between = run_one(&model, &knobs, ranks, 1 + variant % 3, (uint64_t)(stage * 16 + variant));
            assert_int_equal(between > 0, ranks == 4 && stage > 0);
        }
    model_release(&model);
}

/* ---- how far a rank is ---- */

/* Folds the example until `stop` says so. */
static struct run_model *example_until(bool (*stop)(const struct run_model *, const struct trace_record *))
{
    struct source *source;
    struct trace_record record;
    struct error err;
    struct run_model *model = new_model();
    if (source_open_file(&source, example, &err)) fail_msg("%s", err.text);
    while (source_next(source, &record) == SOURCE_RECORD) {
        run_model_fold(model, &record);
        if (stop(model, &record)) break;
    }
    source_close(source);
    return model;
}

static bool rank_2_reduces(const struct run_model *model, const struct trace_record *record)
{
    if (record->kind != TRACE_OP_BEGIN || record->rank != 2 || record->op_begin.step != 7) return false;
    const struct run_schedule *plan = run_schedule_numbered(model, record->op_begin.schedule);
    return plan->ops.ops[record->op_begin.op].kind == OP_REDUCE_SCATTER;
}

static bool rank_0_ends_5(const struct run_model *model, const struct trace_record *record)
{
    (void)model;
    return record->kind == TRACE_STEP_END && record->rank == 0 && record->step_end.step == 5;
}

static void lanes_stand_where_their_records_say(void **state)
{
    struct run_model *model = example_until(rank_2_reduces);
    const struct progress at = progress_of(model, 2);
    const int op = progress_running(&at, LANE_COMM);
    (void)state;
    assert_true(at.open && at.step == 7 && at.plan->stage == 3);
    assert_int_equal(at.plan->ops.ops[op].bucket, 0);
    assert_int_equal(progress_state(&at, op), PROGRESS_RUNNING);
    assert_int_equal(filling_of(&at, op).state, BUCKET_IN_FLIGHT);
    assert_int_equal(progress_next(&at, LANE_COMM), -1); /* it runs one */
    for (int i = 0; i < at.plan->ops.op_count; i++) {
        const enum lane lane = at.plan->ops.ops[i].lane;
        const enum progress_state found = progress_state(&at, i);
        assert_true(found != PROGRESS_DROPPED);
        if (lane == LANE_COMM)
            assert_int_equal(found, i < op ? PROGRESS_ENDED : i == op ? PROGRESS_RUNNING : PROGRESS_TO_COME);
        if (found == PROGRESS_ENDED)
            for (int d = 0; d < at.plan->ops.ops[i].dependency_count; d++)
                assert_int_equal(progress_state(&at, at.plan->ops.ops[i].dependency[d].op), PROGRESS_ENDED);
    }
    run_model_free(model);
}

static void between_steps_the_last_one_stands(void **state)
{
    struct run_model *model = example_until(rank_0_ends_5);
    const struct progress at = progress_of(model, 0);
    (void)state;
    assert_true(!at.open && at.step == 5);
    for (int i = 0; i < at.plan->ops.op_count; i++) assert_int_equal(progress_state(&at, i), PROGRESS_ENDED);
    assert_int_equal(progress_next(&at, LANE_COMPUTE), -1);
    run_model_free(model);
}

/* A viewer that comes in the middle of a step has not seen its beginning. */
static void a_step_is_known_by_its_operations(void **state)
{
    struct run_model *model = example_until(rank_2_reduces);
    struct run_model *late = new_model();
    const struct run_schedule *plan = run_training(model);
    char *json = schedule_to_json(&plan->ops);
    const uint32_t op = (uint32_t)bucket_after(&plan->ops, -1);
    (void)state;
    run_model_fold(
        late, &(struct trace_record){.kind = TRACE_SCHEDULE, .schedule = {9, PURPOSE_TRAIN, 3, {json, strlen(json)}}});
    run_model_fold(late, &(struct trace_record){.kind = TRACE_OP_BEGIN, .time_ns = 5, .op_begin = {9, 7, op, 4}});
    struct progress at = progress_of(late, 0);
    assert_true(at.open && at.step == 7);
    assert_int_equal(progress_running(&at, LANE_COMM), op);
    run_model_fold(late, &(struct trace_record){.kind = TRACE_OP_END,
                                                .time_ns = 6,
                                                .op_end = {.schedule = 9, .step = 7, .op = op, .started_ns = 5}});
    run_model_fold(
        late, &(struct trace_record){.kind = TRACE_STEP_END, .time_ns = 7, .step_end = {.step = 7, .schedule = 9}});
    at = progress_of(late, 0);
    assert_true(!at.open && at.step == 7);
    run_model_fold(late,
                   &(struct trace_record){.kind = TRACE_STEP_BEGIN, .time_ns = 8, .step_begin = {7, 9, 3}}); /* again */
    at = progress_of(late, 0);
    assert_true(at.open && at.begun[LANE_COMM] == 0);
    assert_int_equal(progress_state(&at, (int)op), PROGRESS_TO_COME);
    free(json);
    run_model_free(late);
    run_model_free(model);
}

static void a_dropped_step_ends_without_its_tail(void **state)
{
    struct run_model *model = example_until(rank_2_reduces);
    struct run_rank *rank = &model->rank[2];
    const struct run_schedule *plan = run_training(model);
    (void)state;
    for (int i = 0; i < plan->ops.op_count && !plan->ops.ops[i].droppable; i++)
        run_model_fold(model, &(struct trace_record){.kind = TRACE_OP_END,
                                                     .rank = 2,
                                                     .time_ns = model->now_ns + 1,
                                                     .op_end = {.schedule = plan->number,
                                                                .step = 7,
                                                                .op = (uint32_t)i,
                                                                .started_ns = model->now_ns,
                                                                .waited_on = -1}});
    run_model_fold(model, &(struct trace_record){.kind = TRACE_STEP_END,
                                                 .rank = 2,
                                                 .time_ns = model->now_ns + 1,
                                                 .step_end = {.step = 7, .schedule = plan->number, .skipped = 1}});
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        const struct progress at = progress_of(model, 2);
        assert_false(at.open);
        for (int i = 0; i < at.plan->ops.op_count; i++)
            assert_int_equal(progress_state(&at, i),
                             at.plan->ops.ops[i].droppable && at.plan->ops.ops[i].lane == LANE_COMPUTE ? PROGRESS_DROPPED
                                                                                                     : PROGRESS_ENDED);
        memset(rank->lane, 0, sizeof rank->lane); /* as if the lanes had run something else since */
    }
    run_model_free(model);
}

static void nothing_is_said_of_an_unknown_plan(void **state)
{
    struct run_model *model = new_model();
    (void)state;
    run_model_fold(model, &(struct trace_record){.kind = TRACE_OP_BEGIN, .time_ns = 5, .op_begin = {9, 7, 1, 4}});
    assert_null(progress_of(model, 0).plan);
    run_model_fold(model, &(struct trace_record){.kind = TRACE_STEP_BEGIN, .time_ns = 5, .step_begin = {7, 9, 3}});
    assert_null(progress_of(model, 0).plan);
    run_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_a_real_run),
        cmocka_unit_test(cells_of_shard_groups),
        cmocka_unit_test(cells_of_quantized_blocks),
        cmocka_unit_test(blocks_and_hops_are_told_apart),
        cmocka_unit_test(cells_of_every_stage_in_any_order),
        cmocka_unit_test(lanes_stand_where_their_records_say),
        cmocka_unit_test(between_steps_the_last_one_stands),
        cmocka_unit_test(a_step_is_known_by_its_operations),
        cmocka_unit_test(a_dropped_step_ends_without_its_tail),
        cmocka_unit_test(nothing_is_said_of_an_unknown_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
