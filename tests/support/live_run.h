/* A run without an engine, for tests of its viewers: a writer with one ring and a socket in a folder of its own, records that
 * are emitted by hand, and reading that waits for a record to come. */
#pragma once

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/trace/source.h"
#include "engine/trace/writer.h"

enum { RING_BYTES = 1 << 20, PATIENCE_MS = 100000 };

static char folder[] = "/tmp/zerolab-test-live.XXXXXX";

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* A run: a writer with one ring, a socket, and what its callbacks were told. */
struct run {
    char socket[96], file[96];
    struct trace_writer *writer;
    struct trace_ring *ring;
    atomic_int commands, drivers, drivers_gone;
    char last_command[1024]; /* written before `commands` is counted up */
};

static inline void on_command(void *user, const char *line)
{
    struct run *run = user;
    snprintf(run->last_command, sizeof run->last_command, "%s", line);
    atomic_fetch_add(&run->commands, 1);
}

static inline void on_driver(void *user)
{
    atomic_fetch_add(&((struct run *)user)->drivers, 1);
}

static inline void on_driver_gone(void *user)
{
    atomic_fetch_add(&((struct run *)user)->drivers_gone, 1);
}

static inline void start_with(struct run *run, struct trace_writer_options options)
{
    struct error err;
    *run = (struct run){0};
    snprintf(run->socket, sizeof run->socket, "%s/socket", folder);
    snprintf(run->file, sizeof run->file, "%s/file", folder);
    if (options.file) options.file = run->file;
    void *memory = aligned_alloc(64, RING_BYTES);
    memset(memory, 0, RING_BYTES); /* pages that come with a record could have to be waited for */
    run->ring = trace_ring_init(memory, RING_BYTES);
    options.socket = run->socket;
    options.on_command = on_command;
    options.on_driver = on_driver;
    options.on_driver_gone = on_driver_gone;
    options.user = run;
    assert_int_equal(trace_writer_start(&run->writer, &options, &err), 0);
    trace_writer_add_ring(run->writer, run->ring);
}

/* Its file, if it has one, is run->file. */
static inline void start(struct run *run, bool with_file, int adopted_fd)
{
    start_with(run, (struct trace_writer_options){.file = with_file ? "" : NULL, .adopted_fd = adopted_fd});
}

static inline void stop(struct run *run)
{
    trace_writer_stop(run->writer);
    assert_int_equal(access(run->socket, F_OK), -1);
    unlink(run->file);
    free(run->ring);
}

static inline struct source *attach(const struct run *run)
{
    struct source *source;
    struct error err;
    assert_int_equal(source_open_socket(&source, run->socket, false, &err), 0);
    return source;
}

/* Waits for the next record; SOURCE_WAIT: none came in PATIENCE_MS. */
static inline enum source_result next(struct source *source, struct trace_record *record)
{
    enum source_result result;
    while ((result = source_next(source, record)) == SOURCE_WAIT)
        if (poll(&(struct pollfd){.fd = source_fd(source), .events = POLLIN}, 1, PATIENCE_MS) <= 0) break;
    return result;
}

/* Reads on until a record of this kind comes. */
static inline struct trace_record next_of(struct source *source, enum trace_kind kind)
{
    struct trace_record record;
    do assert_int_equal(next(source, &record), SOURCE_RECORD);
    while (record.kind != kind);
    return record;
}

static inline void wait_for(atomic_int *counter, int value)
{
    uint64_t deadline = clock_ns() + PATIENCE_MS * 1000000ull;
    while (atomic_load(counter) < value && clock_ns() < deadline) poll(NULL, 0, 1);
    assert_int_equal(atomic_load(counter), value);
}

static inline bool says(struct trace_text text, const char *what)
{
    return memmem(text.at, text.bytes, what, strlen(what)) != NULL;
}

/* --- emitting ------------------------------------------------------------------------------------------------------- */

static inline void emit(struct run *run, struct trace_record record)
{
    record.time_ns = clock_ns();
    trace_emit(run->ring, &record);
}

static inline void emit_text(struct run *run, enum trace_kind kind, const char *text)
{
    struct trace_text at = {text, strlen(text)};
    if (kind == TRACE_RUN) emit(run, (struct trace_record){.kind = kind, .rank = TRACE_RANK_ALL, .run.json = at});
    else emit(run, (struct trace_record){.kind = kind, .log.text = at});
}

static inline void emit_schedule(struct run *run, uint32_t schedule)
{
    emit(run, (struct trace_record){.kind = TRACE_SCHEDULE, .schedule = {.schedule = schedule, .json = {"[]", 2}}});
    emit(run, (struct trace_record){.kind = TRACE_PREDICTED,
                                    .predicted = {.schedule = schedule, .category = 1, .peak_bytes = schedule}});
    emit(run, (struct trace_record){.kind = TRACE_THEORY, .theory = {.schedule = schedule, .sent_bytes = schedule}});
}

static inline void emit_op(struct run *run, uint32_t step, uint32_t op)
{
    emit(run, (struct trace_record){.kind = TRACE_OP_BEGIN, .op_begin = {.step = step, .op = op}});
    emit(run, (struct trace_record){.kind = TRACE_OP_END, .op_end = {.step = step, .op = op}});
}

static inline void emit_memory(struct run *run, uint8_t category, uint64_t live_bytes)
{
    emit(run, (struct trace_record){.kind = TRACE_MEMORY, .memory = {.category = category, .live_bytes = live_bytes}});
}
