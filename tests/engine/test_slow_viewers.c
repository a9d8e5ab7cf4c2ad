/* Viewers that read too slowly, or not at all: none is cut off, none is waited for, what waits for one is bounded, and once it
 * reads again it has the present state and knows what it missed. And a connection that breaks. */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "engine/trace/thin.h"
#include "tests/support/live_run.h"

enum { OPS = 50, QUEUE_MOST = THIN_REST_BYTES + 2 * RING_BYTES };

/* How often this thread has gone to sleep: what it waited for others, however long they took. */
static long slept(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* What was read from a viewer's connection. */
struct heard {
    size_t bytes;
    uint64_t records, missing;
    uint32_t steps, last_step, ops, logs, samples, gaps, begun_gaps;
    uint64_t live_bytes;
    unsigned state;
    bool in_order; /* each step once, one after the other */
};

static void hear(struct heard *heard, struct source *source, const struct trace_record *record)
{
    heard->bytes += trace_peek(source_encoded(source)).bytes;
    heard->records++;
    heard->ops += record->kind == TRACE_OP_END;
    heard->logs += record->kind == TRACE_LOG;
    heard->samples += record->kind == TRACE_SAMPLE;
    if (record->kind == TRACE_MEMORY) heard->live_bytes = record->memory.live_bytes;
    if (record->kind == TRACE_STATE) heard->state = record->state.state;
    if (record->kind == TRACE_GAP) {
        heard->gaps++;
        heard->begun_gaps += !record->gap.records;
        heard->missing += record->gap.records;
    }
    if (record->kind != TRACE_STEP_END) return;
    heard->in_order = record->step_end.step == heard->last_step + 1 && (heard->in_order || !heard->steps);
    heard->last_step = record->step_end.step;
    heard->steps++;
}

static void hear_what_came(struct heard *heard, struct source *source)
{
    struct trace_record record;
    while (source_next(source, &record) == SOURCE_RECORD) hear(heard, source, &record);
}

/* ... and waits for more, until the condition holds. */
#define HEAR_UNTIL(heard, source, condition)                                                                           \
    for (struct trace_record record_; !(condition);) {                                                                 \
        assert_int_equal(next(source, &record_), SOURCE_RECORD);                                                       \
        hear(heard, source, &record_);                                                                                 \
    }

/* Returns how many records. */
static uint64_t emit_step(struct run *run, uint32_t step)
{
    emit(run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = step}});
    for (uint32_t op = 0; op < OPS; op++) emit_op(run, step, op);
    emit_memory(run, 1, step);
    emit(run, (struct trace_record){.kind = TRACE_STEP_END, .step_end = {.step = step, .loss = (float)step}});
    return 2 * OPS + 3;
}

static uint64_t emit_page(struct run *run, enum trace_kind kind)
{
    static char page[4096];
    memset(page, 'x', sizeof page);
    struct trace_text text = {page, sizeof page};
    emit(run, kind == TRACE_LOG ? (struct trace_record){.kind = kind, .log.text = text}
                                : (struct trace_record){.kind = kind, .sample.text = text});
    return 1;
}

/* A stalled viewer, which came first and so drives, and one that reads everything. */
struct stage {
    struct run run;
    struct source *stalled, *reader;
    struct heard reader_heard, stalled_heard;
    uint64_t sent;
    uint32_t steps;
};

static void open_stage(struct stage *stage, bool wants_all)
{
    *stage = (struct stage){0};
    start(&stage->run, false, -1);
    stage->stalled = attach(&stage->run);
    if (wants_all) assert_int_equal(source_want_all(stage->stalled, NULL), 0);
    stage->reader = attach(&stage->run);
    emit_text(&stage->run, TRACE_RUN, "{}");
    stage->sent = 1;
    HEAR_UNTIL(&stage->reader_heard, stage->reader, stage->reader_heard.records);
}

static void close_stage(struct stage *stage)
{
    source_close(stage->stalled);
    source_close(stage->reader);
    stop(&stage->run);
}

/* So many steps of 7.5 KB; the reader keeps up. */
static void emit_steps(struct stage *stage, int count)
{
    for (int i = 0; i < count; i++) {
        stage->sent += emit_step(&stage->run, ++stage->steps);
        if (i % 96 == 95 || i == count - 1)
            HEAR_UNTIL(&stage->reader_heard, stage->reader, stage->reader_heard.last_step == stage->steps);
    }
}

static void emit_pages(struct stage *stage, enum trace_kind kind, int count)
{
    for (int i = 0; i < count; i++) {
        stage->sent += emit_page(&stage->run, kind);
        if (i % 192 == 191 || i == count - 1)
            HEAR_UNTIL(&stage->reader_heard, stage->reader, stage->reader_heard.records == stage->sent);
    }
}

/* Operations are left out first; steps and their losses still come, each once. */
static void a_stalled_viewer_gets_every_step_without_operations(void **state)
{
    enum { STEPS = 1600 };
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    const long before = slept();
    emit_step(&stage.run, ++stage.steps);
    stage.sent += 2 * OPS + 3;
    assert_int_equal(slept(), before); /* nobody waits for the stalled one */
    emit_steps(&stage, STEPS - 1);     /* 12 MB */
    assert_int_equal(stage.reader_heard.records, stage.sent);
    assert_int_equal(stage.reader_heard.missing, 0);

    struct heard *heard = &stage.stalled_heard;
    HEAR_UNTIL(heard, stage.stalled, heard->gaps == 2);
    assert_int_equal(stage.run.drivers_gone, 0);
    assert_true(source_drives(stage.stalled));
    assert_true(heard->bytes < QUEUE_MOST);
    assert_true(heard->in_order);
    assert_int_equal(heard->last_step, STEPS);
    assert_int_equal(heard->live_bytes, STEPS); /* what stands is said again */
    assert_true(heard->ops > 100 && heard->ops < OPS * STEPS / 2);
    assert_int_equal(heard->begun_gaps, 1);
    assert_int_equal(heard->records - heard->gaps - 1 + heard->missing, stage.sent); /* 1: the memory, once more */
    emit_steps(&stage, 3);
    const uint32_t ops = heard->ops;
    HEAR_UNTIL(heard, stage.stalled, heard->last_step == STEPS + 3);
    assert_int_equal(heard->ops, ops + 3 * OPS);
    assert_true(heard->in_order);
    print_message("           12 MB became %zu KB\n", heard->bytes >> 10);
    close_stage(&stage);
}

/* Then steps, then the log; at the end it has the last of each, and a gap. */
static void nothing_accumulates_for_one_that_reads_nothing(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    emit_steps(&stage, 700);
    emit_pages(&stage, TRACE_SAMPLE, 2500); /* 10 MB */
    emit_steps(&stage, 10);
    emit_pages(&stage, TRACE_LOG, 3000); /* 12 MB */
    emit(&stage.run, (struct trace_record){.kind = TRACE_STATE, .state = {.state = RUN_PAUSED}});
    stage.sent++;
    HEAR_UNTIL(&stage.reader_heard, stage.reader, stage.reader_heard.records == stage.sent);

    struct heard *heard = &stage.stalled_heard;
    HEAR_UNTIL(heard, stage.stalled, heard->missing);
    print_message("           27 MB became %zu KB\n", heard->bytes >> 10);
    assert_true(heard->bytes < QUEUE_MOST);
    assert_int_equal(heard->state, RUN_PAUSED); /* said again, although it was left out */
    assert_int_equal(heard->last_step, 710);
    assert_int_equal(heard->live_bytes, 710);
    assert_true(heard->missing > 2000);
    assert_int_equal(stage.run.drivers_gone, 0);
    emit_text(&stage.run, TRACE_LOG, "the last word");
    const uint32_t logs = heard->logs;
    HEAR_UNTIL(heard, stage.stalled, heard->logs > logs);
    close_stage(&stage);
}

static void wait_until_lags(const struct stage *stage, bool lags)
{
    const uint64_t deadline_ns = clock_ns() + PATIENCE_MS * 1000000ull;
    while (trace_writer_lags(stage->run.writer) != lags && clock_ns() < deadline_ns) poll(NULL, 0, 1);
    assert_int_equal(trace_writer_lags(stage->run.writer), lags);
}

/* The front end of a run without a screen: its report is made of the records. The run waits for it instead. */
static void who_asks_for_everything_gets_it(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, true);
    assert_false(trace_writer_lags(stage.run.writer));
    emit_steps(&stage, 3200); /* 20 MB */
    wait_until_lags(&stage, true);
    HEAR_UNTIL(&stage.stalled_heard, stage.stalled, stage.stalled_heard.records == stage.sent);
    assert_int_equal(stage.stalled_heard.missing, 0);
    wait_until_lags(&stage, false);
    close_stage(&stage);
}

/* An end that is only queued is waited for, or the owner could not say what became of its run. */
static void the_end_reaches_a_driver_that_was_stalled(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    emit_steps(&stage, 200);
    emit(&stage.run, (struct trace_record){.kind = TRACE_END, .rank = TRACE_RANK_ALL});
    pthread_t thread;
    void *(*const ending)(void *) = (void *(*)(void *))(void (*)(void))trace_writer_stop;
    assert_int_equal(pthread_create(&thread, NULL, ending, stage.run.writer), 0);
    poll(NULL, 0, 1500); /* longer than others are waited for */
    next_of(stage.stalled, TRACE_END);
    struct trace_record record;
    enum source_result result;
    while ((result = next(stage.stalled, &record)) == SOURCE_RECORD) continue;
    assert_int_equal(result, SOURCE_END);
    pthread_join(thread, NULL);
    hear_what_came(&stage.reader_heard, stage.reader);
    source_close(stage.stalled);
    source_close(stage.reader);
    free(stage.run.ring);
}

/* ---- a connection that breaks --------------------------------------------------------------------------------------- */

static void a_connection_that_breaks_is_opened_again(void **state)
{
    (void)state;
    struct run run;
    start(&run, false, -1);
    struct source *source = attach(&run);
    struct heard heard = {0};
    emit_text(&run, TRACE_RUN, "{}");
    emit_step(&run, 1);
    HEAR_UNTIL(&heard, source, heard.last_step == 1);
    const int fd = source_fd(source);
    shutdown(fd, SHUT_RDWR);
    const struct trace_record gap = next_of(source, TRACE_GAP), log = next_of(source, TRACE_LOG);
    assert_true(says(log.log.text, "broke"));
    assert_true(gap.time_ns > gap.gap.since_ns);
    wait_for(&run.drivers_gone, 1);
    emit_step(&run, 2);
    const uint32_t ops = heard.ops;
    HEAR_UNTIL(&heard, source, heard.last_step == 2);
    assert_true(heard.in_order); /* nothing that it has had is said again */
    assert_int_equal(heard.ops, ops + OPS);
    assert_int_equal(source_fd(source), fd);
    assert_true(source_drives(source));
    wait_for(&run.drivers, 2);
    assert_int_equal(source_send(source, "pause", NULL), 0);
    wait_for(&run.commands, 1);
    stop(&run);
    struct trace_record record;
    enum source_result result;
    while ((result = next(source, &record)) == SOURCE_RECORD) continue;
    assert_int_equal(result, SOURCE_END); /* nobody listens any more */
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stalled_viewer_gets_every_step_without_operations),
        cmocka_unit_test(nothing_accumulates_for_one_that_reads_nothing),
        cmocka_unit_test(who_asks_for_everything_gets_it),
        cmocka_unit_test(the_end_reaches_a_driver_that_was_stalled),
        cmocka_unit_test(a_connection_that_breaks_is_opened_again),
    };
    return cmocka_run_group_tests_name("slow viewers", tests, make_folder, remove_folder);
}
