/* A source and a sink of a test's own, plugged into what the program reads and writes traces with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/observe/questions.h"
#include "engine/trace/record_buffer.h"
#include "engine/trace/source_kind.h"
#include "engine/trace/writer.h"

enum { STEPS = 4, RING_BYTES = 64 << 10 };

static struct trace_record step_begin(uint32_t step)
{
    return (struct trace_record){.kind = TRACE_STEP_BEGIN, .time_ns = step * 1000ull, .step_begin = {.step = step}};
}

static struct trace_record step_end(uint32_t step)
{
    return (struct trace_record){.kind = TRACE_STEP_END,
                                 .time_ns = step * 1000ull + 500,
                                 .step_end = {.step = step, .loss = 2.0f, .total_ns = 500}};
}

/* ---- a source that computes its records, a step a block ---- */

struct computed {
    struct bytes block;
    uint32_t step, last;
    bool fails;
    int *closed;
};

static enum source_result next_step(void *self, struct source_block *block)
{
    struct computed *computed = self;
    if (computed->fails && computed->step > 2) return source_fail(block, "step %u cannot be computed", computed->step);
    if (computed->step > computed->last) return SOURCE_END;
    const struct trace_record records[] = {step_begin(computed->step), step_end(computed->step)};
    computed->block.count = 0;
    for (int i = 0; i < 2; i++) assert_true(trace_append(&computed->block, &records[i]));
    computed->step++;
    block->records = computed->block.at;
    block->bytes = computed->block.count;
    return SOURCE_RECORD;
}

static int go_to(void *self, uint32_t step, struct error *err)
{
    struct computed *computed = self;
    if (step > computed->last) return error_set(err, STATUS_INPUT, "there is no step %u", step);
    computed->step = step;
    return STATUS_OK;
}

static void close_computed(void *self)
{
    struct computed *computed = self;
    ++*computed->closed;
    bytes_release(&computed->block);
    free(computed);
}

static const struct source_kind computed_kind = {.next = next_step, .seek = go_to, .close = close_computed};

static struct source *computed_source(bool fails, int *closed)
{
    struct computed *computed = calloc(1, sizeof *computed);
    struct source *source;
    struct error err;
    *computed = (struct computed){.step = 1, .last = STEPS, .fails = fails, .closed = closed};
    assert_int_equal(source_open(&source, &computed_kind, computed, &err), STATUS_OK);
    return source;
}

static void a_source_of_ones_own_is_read_and_sought(void **state)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct trace_record record;
    struct error err;
    int closed = 0;
    struct source *source = computed_source(false, &closed);
    (void)state;
    while (source_next(source, &record) == SOURCE_RECORD) run_model_fold(model, &record);
    assert_int_equal(source_next(source, &record), SOURCE_END);
    assert_int_equal(run_last_step(model)->step, STEPS);
    assert_int_equal(source_resume_step(source, 2, &err), STATUS_OK);
    assert_int_equal(source_next(source, &record), SOURCE_RECORD);
    assert_int_equal(record.step_begin.step, 2);
    assert_int_equal(trace_peek(source_encoded(source)).kind, TRACE_STEP_BEGIN);
    assert_int_equal(source_resume_step(source, STEPS + 1, &err), STATUS_INPUT);
    assert_int_equal(source_send(source, "pause", &err), STATUS_USAGE);
    assert_int_equal(source_fd(source), -1);
    source_close(source);
    assert_int_equal(closed, 1);
    run_model_free(model);
}

static void a_source_that_fails_says_why(void **state)
{
    struct trace_record record;
    struct error err;
    int closed = 0, records = 0;
    struct source *source = computed_source(true, &closed);
    (void)state;
    for (; source_next(source, &record) == SOURCE_RECORD; records++) continue;
    assert_int_equal(records, 4);
    assert_int_equal(source_next(source, &record), SOURCE_BAD);
    assert_string_equal(source_error(source), "step 3 cannot be computed");
    source_close(source);
    assert_int_equal(closed, 1);
    assert_int_equal(source_open(&source, &computed_kind, NULL, &err), STATUS_RUN); /* no memory for it */
    assert_null(source);
}

/* ---- a sink that counts, and one that fails ---- */

struct counter {
    int steps, ends, logs, appended, ended;
    bool goes_on;
    int fails_at; /* the STEP_BEGIN with this number; 0: never */
};

static int count_records(void *self, struct bytes *records, uint64_t now_ns, struct error *err)
{
    struct counter *counter = self;
    const size_t given = records->count;
    for (size_t at = 0; at < given; at += trace_peek(records->at + at).bytes) {
        const struct trace_head head = trace_peek(records->at + at);
        counter->steps += head.kind == TRACE_STEP_BEGIN;
        counter->ends += head.kind == TRACE_STEP_END;
        counter->logs += head.kind == TRACE_LOG;
        if (counter->fails_at && counter->steps == counter->fails_at)
            return error_set(err, STATUS_RUN, "the counter is full");
    }
    if (!counter->fails_at && counter->steps == STEPS && !counter->appended++) {
        const struct trace_record log = trace_log(0, "all steps were counted", now_ns);
        trace_append(records, &log);
    }
    return STATUS_OK;
}

static int end_counter(void *self, bool goes_on, struct error *err)
{
    struct counter *counter = self;
    (void)err;
    counter->ended++;
    counter->goes_on = goes_on;
    return STATUS_OK;
}

static int logs_of(struct source *source, const char *text)
{
    struct trace_record record;
    int found = 0;
    while (source_next(source, &record) == SOURCE_RECORD)
        found += record.kind == TRACE_LOG && record.log.text.bytes == strlen(text) &&
                 !memcmp(record.log.text.at, text, record.log.text.bytes);
    source_close(source);
    return found;
}

/* A buffer of records as a sink: the caller still owns it. */
static int keep_records(void *self, struct bytes *records, uint64_t now_ns, struct error *err)
{
    (void)now_ns;
    for (size_t at = 0; at < records->count; at += trace_peek(records->at + at).bytes)
        if (!record_buffer_put(self, records->at + at)) return error_set(err, STATUS_RUN, "no memory to keep records");
    return STATUS_OK;
}

static int leave_buffer(void *self, bool goes_on, struct error *err)
{
    (void)self, (void)goes_on, (void)err;
    return STATUS_OK;
}

/* Every sink gets every record; one that fails is ended and the others are told; what a sink appends reaches those after it. */
static void the_writer_feeds_every_sink_of_its_list(void **state)
{
    static _Alignas(64) char memory[RING_BYTES];
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    struct counter full = {.fails_at = 2}, counter = {0};
    struct record_buffer *buffer = record_buffer_new(0);
    char path[] = "/tmp/zerolab-test-sinks.XXXXXX";
    const struct sink sinks[] = {
        {count_records, end_counter, &full}, {count_records, end_counter, &counter}, {keep_records, leave_buffer, buffer}};
    struct trace_writer *writer;
    struct source *source;
    struct error err;
    (void)state;
    close(mkstemp(path));
    assert_int_equal(
        trace_writer_start(
            &writer, &(struct trace_writer_options){.file = path, .sinks = sinks, .sink_count = 3, .adopted_fd = -1},
            &err),
        STATUS_OK);
    trace_writer_add_ring(writer, ring);
    for (uint32_t step = 1; step <= STEPS; step++) {
        const struct trace_record begin = step_begin(step), end = step_end(step);
        trace_emit(ring, &begin);
        trace_emit(ring, &end);
    }
    trace_writer_stop(writer);
    assert_int_equal(full.ended, 1);
    assert_int_equal(counter.ended, 1);
    assert_false(counter.goes_on);
    assert_int_equal(counter.steps, STEPS);
    assert_int_equal(counter.ends, STEPS);
    assert_int_equal(counter.logs, 1); /* of the one that failed before it */
    assert_int_equal(source_open_buffer(&source, buffer, &err), STATUS_OK);
    assert_int_equal(logs_of(source, "all steps were counted"), 1);
    assert_int_equal(source_open_file(&source, path, &err), STATUS_OK);
    assert_int_equal(logs_of(source, "the counter is full"), 1);
    assert_int_equal(source_open_file(&source, path, &err), STATUS_OK);
    assert_int_equal(logs_of(source, "all steps were counted"), 1);
    record_buffer_free(buffer);
    unlink(path);
}

static void sinks_are_ended_where_the_writer_cannot_start(void **state)
{
    struct counter counter = {0};
    const struct sink sink = {count_records, end_counter, &counter};
    struct trace_writer *writer;
    struct error err;
    (void)state;
    const struct trace_writer_options options = {
        .file = "/nowhere/at/all.zlt", .sinks = &sink, .sink_count = 1, .adopted_fd = -1};
    assert_int_equal(trace_writer_start(&writer, &options, &err), STATUS_USAGE);
    assert_null(writer);
    assert_int_equal(counter.ended, 1);
}

/* A sink that cannot be held is not dropped silently: nothing starts, and all that was given is ended and closed. */
static void more_sinks_than_the_writer_holds_are_refused(void **state)
{
    struct counter counter = {0};
    struct sink sinks[WRITER_SINKS_MAX + 1];
    struct trace_writer *writer;
    struct error err;
    int ends[2];
    char byte;
    (void)state;
    for (int i = 0; i < WRITER_SINKS_MAX + 1; i++) sinks[i] = (struct sink){count_records, end_counter, &counter};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const struct trace_writer_options options = {
        .sinks = sinks, .sink_count = WRITER_SINKS_MAX + 1, .adopted_fd = ends[1]};
    assert_int_equal(trace_writer_start(&writer, &options, &err), STATUS_USAGE);
    assert_string_equal(err.text, "5 sinks for the trace; give it at most 4");
    assert_null(writer);
    assert_int_equal(counter.ended, WRITER_SINKS_MAX + 1);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the other end is closed */
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_of_ones_own_is_read_and_sought),
        cmocka_unit_test(a_source_that_fails_says_why),
        cmocka_unit_test(the_writer_feeds_every_sink_of_its_list),
        cmocka_unit_test(sinks_are_ended_where_the_writer_cannot_start),
        cmocka_unit_test(more_sinks_than_the_writer_holds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
