/* A trace of another program: steps, operations and memory with their times, and no schedule. What the records say is known; each
 * view that shows a schedule says that there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/advise/analysis.h"
#include "engine/base/template.h"
#include "engine/observe/flows.h"
#include "engine/observe/totals.h"
#include "engine/trace/file.h"
#include "tui/draw/output.h"
#include "tui/screen/screen.h"
#include "tui/timeline/timeline.h"

enum { RANKS = 2, STEPS = 3, COLUMNS = 80, ROWS = 24 };
static const uint64_t ms = 1000000, step_ns = 10000000;

struct foreign {
    struct run_model *model;
    struct history *history;
    struct trace_file *file; /* NULL: none */
};

static void put(struct foreign *run, struct trace_record record)
{
    run_model_fold(run->model, &record);
    history_fold(run->history, run->model, &record);
    if (run->file) assert_int_equal(trace_file_put(run->file, &record, NULL), STATUS_OK);
}

static void put_memory(struct foreign *run, uint16_t rank, uint64_t time_ns, uint64_t bytes)
{
    put(run, (struct trace_record){.kind = TRACE_MEMORY,
                                   .rank = rank,
                                   .time_ns = time_ns,
                                   .memory = {TIER_DEVICE, CATEGORY_ACTIVATIONS, bytes, bytes, bytes}});
}

/* The schedule that operations name: one that no record tells of, or those that were observed (folded_observed()). */
static uint32_t schedule_named;

static void put_operation(struct foreign *run, uint16_t rank, uint32_t step, uint32_t op, uint64_t from_ns,
                          uint64_t to_ns)
{
    put(run, (struct trace_record){.kind = TRACE_OP_BEGIN,
                                   .rank = rank,
                                   .time_ns = from_ns,
                                   .op_begin = {.schedule = schedule_named, .step = step, .op = op, .issued_ns = from_ns}});
    put(run, (struct trace_record){.kind = TRACE_OP_END,
                                   .rank = rank,
                                   .time_ns = to_ns,
                                   .op_end = {.schedule = schedule_named, .step = step,
                                              .op = op,
                                              .issued_ns = from_ns,
                                              .ready_ns = from_ns,
                                              .started_ns = from_ns,
                                              .waited_on = -1,
                                              .sent_bytes = 1 << 20}});
}

/* In each step memory grows to 100 MB (rank 1: 101 MB) and falls back to 1 MB. */
static void put_step(struct foreign *run, uint16_t rank, uint32_t step)
{
    const uint64_t from_ns = step * step_ns, half_ns = from_ns + step_ns / 2;
    put(run, (struct trace_record){.kind = TRACE_STEP_BEGIN,
                                   .rank = rank,
                                   .time_ns = from_ns,
                                   .step_begin = {.step = step, .stage = TRACE_NO_STAGE}});
    put_operation(run, rank, step, 0, from_ns + ms, half_ns);
    put_memory(run, rank, half_ns, (100 + rank) * 1000000ull);
    put_operation(run, rank, step, 1, half_ns, half_ns + 2 * ms);
    put_memory(run, rank, half_ns + 3 * ms, 1000000);
    put(run, (struct trace_record){
                 .kind = TRACE_STEP_END,
                 .rank = rank,
                 .time_ns = from_ns + step_ns - ms,
                 .step_end = {
                     .step = step, .stage = TRACE_NO_STAGE, .loss = 3.25f, .tokens = 512, .total_ns = step_ns - ms}});
}

static struct foreign folded_into(struct trace_file *file, const char *header)
{
    struct foreign run = {run_model_new(&(struct run_model_options){0}), history_new(0), file};
    if (header)
        put(&run, (struct trace_record){
                      .kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = ms, .run = {{header, strlen(header)}}});
    for (uint32_t step = 1; step <= STEPS; step++)
        for (uint16_t rank = 0; rank < RANKS; rank++) put_step(&run, rank, step);
    return run;
}

static struct foreign folded(const char *header)
{
    return folded_into(NULL, header);
}

static void release(struct foreign *run)
{
    history_free(run->history);
    run_model_free(run->model);
}

static const char header[] =
    "{\"version\":\"other 1.0\",\"ranks\":2,\"model\":{\"name\":\"resnet\",\"parameters\":25000000}}";

/* The same operations, told of: a gather of "h.0" and computing, each in a lane of another program. */
static struct foreign folded_observed(void)
{
    static const char observed[] = "{\"program\":\"other\",\"recognised\":\"ZeRO-3 (likely)\",\"ranks\":2,\"recorded\":2,"
                                   "\"model\":{\"units\":[{\"name\":\"h.0\"}]}}";
    struct foreign run = {run_model_new(&(struct run_model_options){0}), history_new(0), NULL};
    put(&run, (struct trace_record){.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = ms, .run = {{observed, strlen(observed)}}});
    put(&run, (struct trace_record){.kind = TRACE_LANE, .time_ns = ms, .lane = {LANE_COMM_2, {"stream 20", 9}}});
    for (uint32_t op = 0; op < 2; op++)
        put(&run, (struct trace_record){.kind = TRACE_OPERATION,
                                        .rank = TRACE_RANK_ALL,
                                        .time_ns = ms,
                                        .operation = {.op = op,
                                                      .code = (uint8_t)op_words(op ? OP_WORK : OP_GATHER, NULL)->code,
                                                      .lane = op ? LANE_COMPUTE : LANE_COMM_2,
                                                      .phase = PHASE_BACKWARD,
                                                      .unit = op ? TRACE_NO_UNIT : 0,
                                                      .bytes = op ? 0 : 4096,
                                                      .name = {op ? "sgemm" : "all_gather", op ? 5 : 10}}});
    schedule_named = TRACE_OBSERVED;
    for (uint32_t step = 1; step <= STEPS; step++)
        for (uint16_t rank = 0; rank < RANKS; rank++) put_step(&run, rank, step);
    schedule_named = 0;
    return run;
}

/* A file may say of any operation that it ran on any lane: each kind of work is counted as what it is. */
static void any_lane_may_hold_any_work(void **state)
{
    static const struct { enum op_kind kind; enum lane lane; enum busy busy; } ops[] = {
        {OP_ALL_TO_ALL, LANE_COMPUTE, BUSY_OTHER},
        {OP_WORK, LANE_COMM, (enum busy)PHASE_FORWARD},
        {OP_COPY_D2H, LANE_COMM_2, BUSY_D2H},
        {OP_REDUCE_SCATTER, LANE_HOST, BUSY_REDUCE_SCATTER},
        {OP_HOST_WORK, LANE_NVME_READ, (enum busy)PHASE_FORWARD}};
    enum { OPS = sizeof ops / sizeof *ops };
    struct foreign run = {run_model_new(&(struct run_model_options){0}), history_new(0), NULL};
    (void)state;
    put(&run, (struct trace_record){.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = ms, .run = {{header, strlen(header)}}});
    for (uint32_t op = 0; op < OPS; op++)
        put(&run, (struct trace_record){.kind = TRACE_OPERATION,
                                        .rank = TRACE_RANK_ALL,
                                        .time_ns = ms,
                                        .operation = {.op = op,
                                                      .code = (uint8_t)op_words(ops[op].kind, NULL)->code,
                                                      .lane = ops[op].lane,
                                                      .unit = TRACE_NO_UNIT,
                                                      .name = {"work", 4}}});
    schedule_named = TRACE_OBSERVED;
    for (uint32_t op = 0; op < OPS; op++) put_operation(&run, 0, 1, op, step_ns * (op + 1), step_ns * (op + 1) + ms * (op + 1));
    schedule_named = 0;
    for (uint32_t op = 0; op < OPS; op++) {
        struct history_load load;
        history_load(run.history, 0, ops[op].lane, 0, UINT64_MAX, &load);
        for (enum busy busy = 0; busy < BUSY_KINDS; busy++)
            assert_int_equal(load.busy_ns[busy], busy == ops[op].busy ? ms * (op + 1) : 0);
        for (enum stall why = STALL_NONE; why < STALLS; why++) assert_int_equal(load.waited_ns[why], 0);
        assert_true(mark_of_busy(ops[op].busy) == mark_of_op(ops[op].kind, PHASE_FORWARD, false));
    }
    release(&run);
}

/* The screen of a view as text; the caller frees. */
static char *screen_of(const struct foreign *run, enum view_id view)
{
    struct surface surface;
    struct view_state state = {
        .view = view, .focus = VIEW_EVENTS, .cursor_ns = run->model->now_ns, .newest_ns = run->model->now_ns};
    assert_true(surface_init(&surface, COLUMNS, ROWS, THEME_MONO, true));
    view_draw(run->model, run->history, &state, &surface);
    char *text = surface_to_text(&surface);
    surface_release(&surface);
    return text;
}

/* ---- what the records say is known ---- */

static void memory_and_steps_are_known(void **state)
{
    const char *const headers[] = {header, NULL};
    (void)state;
    for (int h = 0; h < 2; h++) {
        struct foreign run = folded(headers[h]);
        const struct run_step *step = run_last_step(run.model);
        assert_non_null(step);
        assert_int_equal(step->step, STEPS);
        assert_int_equal(step->stage, RUN_UNKNOWN);
        assert_int_equal(step->total_ns, step_ns - ms);
        assert_int_equal(step->memory[TIER_DEVICE].peak_bytes, 101000000);
        for (int rank = 0; rank < RANKS; rank++) {
            const struct run_tier *tier = &run.model->rank[rank].tier[TIER_DEVICE];
            assert_true(tier->step_peak.known);
            assert_int_equal(tier->step_peak.live_bytes, (100 + rank) * 1000000);
            assert_int_equal(tier->now.live_bytes, 1000000);
        }
        assert_int_equal(run.model->problem[0], '\0');
        release(&run);
    }
}

static void what_needs_a_schedule_is_unknown(void **state)
{
    struct foreign run = folded(header);
    struct totals totals;
    uint64_t bytes;
    (void)state;
    assert_null(run_training(run.model));
    assert_null(run_op(NULL, 0));
    assert_false(run_predicted_peak(run.model, TIER_DEVICE, &bytes));
    assert_int_equal(run_last_step(run.model)->timed, 0);
    totals_of(&totals, run.history, run.model, 0, step_ns, 2 * step_ns, 0);
    assert_false(totals.known);
    assert_int_equal(run_lane_count(run.model), 2);
    assert_false(flow_is_used(run.model, FLOW_D2H));
    release(&run);
}

static void an_analysis_says_that_no_stage_is_known(void **state)
{
    char path[] = "/tmp/zerolab-test-no-schedule.XXXXXX", *text;
    struct analysis analysis;
    struct trace_file *file;
    struct error err;
    size_t bytes;
    (void)state;
    close(mkstemp(path));
    assert_int_equal(trace_file_create(&file, path, &err), STATUS_OK);
    struct foreign run = folded_into(file, header);
    assert_int_equal(trace_file_close(file, &err), STATUS_OK);
    release(&run);
    assert_int_equal(analysis_read(&analysis, path, &(struct analysis_options){0}, &err), STATUS_OK);
    FILE *out = open_memstream(&text, &bytes);
    cJSON *facts = analysis_facts(&analysis);
    template_print(out, analysis_page, facts);
    fclose(out);
    assert_non_null(strstr(text, "ZeRO stage n/a, steps 1 to 3"));
    assert_non_null(strstr(text, "101,000,000"));
    free(text);
    text = json_lines(template_strip(facts));
    assert_non_null(strstr(text, "\"stage\":\tnull"));
    free(text);
    analysis_release(&analysis);
    unlink(path);
}

/* ---- views ---- */

/* What a view of a trace without a schedule must say, and must not. */
static const struct expected {
    enum view_id view;
    const char *says, *never;
} expected[] = {
    {VIEW_OVERVIEW, "100.0 MB", "waiting for the first record"},
    {VIEW_WHITEBOARD, "no schedule has come", NULL},
    {VIEW_TIMELINE, "no totals: no schedule is known", "were lost"},
    {VIEW_MEMORY, "101.0 MB", "all alike"},
    {VIEW_TIERS, "n/a: no schedule is known", "this plan keeps"},
    {VIEW_BUCKETS, "no schedule has come", NULL},
    {VIEW_SHARDS, "no schedule has come", NULL},
    {VIEW_SCHEDULE, "no schedule has come", NULL},
    {VIEW_WHY, "does not hold the configuration", NULL},
    {VIEW_KNOBS, "does not hold its configuration", NULL},
    {VIEW_COLLECTIVES, "n/a, no schedule is known", "not kept in full"},
    {VIEW_LOSS, "3.2500", NULL},
    {VIEW_STEPS, "n/a   3.2500", NULL},
    {VIEW_TEXT, "none yet", NULL},
    {VIEW_EVENTS, "nothing yet", NULL},
    {VIEW_MOMENTS, "not marked", NULL},
    {VIEW_SHORTAGE, "has not run out of memory", NULL},
    {VIEW_HELP, "All keys", NULL},
};
_Static_assert(sizeof expected / sizeof expected[0] == VIEWS, "a row for each view");

static void every_view_says_what_it_lacks(void **state)
{
    struct foreign run = folded(header);
    (void)state;
    for (int i = 0; i < VIEWS; i++) {
        char *text = screen_of(&run, expected[i].view);
        if (!strstr(text, expected[i].says))
            fail_msg("%s does not say \"%s\":\n%s", view_of(expected[i].view)->name, expected[i].says, text);
        if (expected[i].never && strstr(text, expected[i].never))
            fail_msg("%s says \"%s\":\n%s", view_of(expected[i].view)->name, expected[i].never, text);
        assert_non_null(strstr(text, "STATE N/A"));
        free(text);
    }
    release(&run);
}

/* What was observed is known by its names, in its lanes; of what a schedule would say nothing is. */
static void observed_operations_are_shown(void **state)
{
    static const struct { enum view_id view; const char *says; } shows[] = {
        {VIEW_WHITEBOARD, "all_gather h.0"}, {VIEW_WHITEBOARD, "no schedule"}, {VIEW_TIMELINE, "com2"},     {VIEW_OVERVIEW, "ZeRO-3 (likely)"},
        {VIEW_SCHEDULE, "no schedule"},      {VIEW_BUCKETS, "no schedule"},    {VIEW_WHY, "compute of backward"}, {VIEW_COLLECTIVES, "all_gather"}};
    struct foreign run = folded_observed();
    (void)state;
    assert_null(run_training(run.model));
    assert_string_equal(run_lane_name(run.model, LANE_COMM_2), "stream 20");
    const struct run_step *step = run_last_step(run.model);
    assert_int_equal(step->timed, RANKS);
    assert_int_equal(step->split.phase_ns[PHASE_BACKWARD], RANKS * 2 * ms);
    assert_int_equal(step->split.exposed_ns, RANKS * 4 * ms);
    for (size_t i = 0; i < sizeof shows / sizeof shows[0]; i++) {
        char *text = screen_of(&run, shows[i].view);
        if (!strstr(text, shows[i].says)) fail_msg("%s does not say \"%s\":\n%s", view_of(shows[i].view)->name, shows[i].says, text);
        free(text);
    }
    release(&run);
}

/* Every key of every view, in a run with a header and in one without, and with operations that were observed: the sanitizers watch. */
static void every_key_is_harmless(void **state)
{
    const char *const headers[] = {header, NULL};
    (void)state;
    for (int h = 0; h < 3; h++) {
        struct foreign run = h < 2 ? folded(headers[h]) : folded_observed();
        for (enum view_id id = 0; id < VIEWS; id++) {
            struct view_state view_state = {.view = id, .focus = VIEW_EVENTS, .cursor_ns = run.model->now_ns};
            const struct scene scene = {run.model, run.history, &view_state};
            for (int key = 0; view_of(id)->act && key < key_count; key++) {
                struct surface surface;
                view_of(id)->act(&view_state, &scene, &key_table[key]);
                assert_true(surface_init(&surface, COLUMNS, ROWS, THEME_MONO, true));
                view_draw(run.model, run.history, &view_state, &surface);
                surface_release(&surface);
            }
        }
        release(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_lane_may_hold_any_work),
        cmocka_unit_test(memory_and_steps_are_known),
        cmocka_unit_test(what_needs_a_schedule_is_unknown),
        cmocka_unit_test(an_analysis_says_that_no_stage_is_known),
        cmocka_unit_test(every_view_says_what_it_lacks),
        cmocka_unit_test(observed_operations_are_shown),
        cmocka_unit_test(every_key_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
