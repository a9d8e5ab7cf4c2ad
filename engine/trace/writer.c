/* The thread of the writer: about fifty times a second it merges what the rings hold (merge.h), keeps what a late viewer
 * will need (latest_records.h), and hands the records to the trace file (file.h) and to the viewers (viewers.h). In between it
 * sleeps in poll(), where a command line or a stop wakes it. */
#include "engine/trace/writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/file.h"
#include "engine/trace/limit.h"
#include "engine/trace/merge.h"
#include "engine/trace/viewers.h"

enum { PASS_MS = 20, LINGER_MS = 1000 };

struct trace_writer {
    struct merge *merge;
    struct latest_records *latest;
    struct viewers *viewers;
    struct trace_file *file; /* NULL: none, or ended by an error */
    struct trace_limit limit;
    bool told_stop;          /* that recording has stopped */
    bool tell_growth;        /* still to be told */
    uint32_t first_step, last_step;
    uint64_t first_step_ns, first_step_bytes; /* when it began, and how long the file was */
    struct bytes batch;
    atomic_bool lags;
    int wake_fd; /* readable: it is to stop */
    pthread_t thread;
};

static void add(struct trace_writer *writer, const struct trace_record *record)
{
    if (!bytes_reserve(&writer->batch, trace_encoded_bytes(record))) return;
    writer->batch.count += trace_encode(record, writer->batch.at + writer->batch.count);
}

static void say(struct trace_writer *writer, int level, const char *text)
{
    struct trace_record record = {.kind = TRACE_LOG,
                                  .rank = TRACE_RANK_ALL,
                                  .time_ns = clock_ns(),
                                  .log = {.level = (uint8_t)level, .text = {text, strlen(text)}}};
    add(writer, &record);
}

/* ---- how fast the file grows, and where it stops ---- */

static void show_bytes(char out[24], double bytes)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
    snprintf(out, 24, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

/* Of the first seconds, and of two steps at least. */
static void tell_growth(struct trace_writer *writer, uint64_t now_ns)
{
    static const uint64_t after_ns = 3000000000u;
    const uint32_t steps = writer->last_step - writer->first_step;
    if (!writer->tell_growth || !writer->file || writer->limit.stopped || steps < 2 || now_ns < writer->first_step_ns + after_ns) return;
    const double bytes = (double)(trace_file_bytes(writer->file) - writer->first_step_bytes),
                 seconds = (double)(now_ns - writer->first_step_ns) * 1e-9;
    char step[24], hour[24], most[24], text[160];
    show_bytes(step, bytes / steps);
    show_bytes(hour, bytes / seconds * 3600);
    show_bytes(most, (double)writer->limit.most_bytes);
    snprintf(text, sizeof text, "trace: grows by %s a step, %s an hour; %s%s", step, hour,
             writer->limit.most_bytes ? "recording stops at " : "--trace-limit SIZE bounds it",
             writer->limit.most_bytes ? most : "");
    writer->tell_growth = false;
    say(writer, 0, text);
}

static void note_step(struct trace_writer *writer, const struct trace_record *record)
{
    if (record->kind != TRACE_STEP_BEGIN) return;
    if (!writer->first_step) {
        writer->first_step = record->step_begin.step;
        writer->first_step_ns = record->time_ns;
        writer->first_step_bytes = trace_file_bytes(writer->file);
    }
    writer->last_step = record->step_begin.step;
}

/* An event, so that screen, report and the file itself say it. */
static void tell_stop(struct trace_writer *writer)
{
    char json[200];
    const uint32_t before = writer->limit.step ? writer->limit.step - 1 : 0;
    if (!writer->limit.stopped || writer->told_stop) return;
    writer->told_stop = true;
    snprintf(json, sizeof json, "{\"kind\":\"trace_limit\",\"detail\":{\"recorded_until_step\":%u,\"limit_bytes\":%llu}}", before,
             (unsigned long long)writer->limit.most_bytes);
    struct trace_record record = {.kind = TRACE_EVENT,
                                  .rank = TRACE_RANK_ALL,
                                  .time_ns = clock_ns(),
                                  .event = {.step = before, .json = {json, strlen(json)}}};
    add(writer, &record);
}

static int put_gap(struct trace_writer *writer, uint64_t time_ns, struct error *err)
{
    struct trace_record gap = {.kind = TRACE_GAP,
                               .rank = TRACE_RANK_ALL,
                               .time_ns = time_ns,
                               .gap = {.records = writer->limit.left_out, .since_ns = writer->limit.since_ns}};
    if (!writer->limit.left_out) return 0;
    writer->limit.left_out = 0;
    return trace_file_put(writer->file, &gap, err);
}

static int put_record(struct trace_writer *writer, const uint8_t *bytes, struct error *err)
{
    struct trace_record record;
    const uint32_t size = trace_peek(bytes).bytes;
    int status = 0;
    if (!trace_decode(bytes, size, &record)) return trace_file_put_encoded(writer->file, bytes, err);
    note_step(writer, &record);
    if (!trace_limit_takes(&writer->limit, &record, size, trace_file_bytes(writer->file))) return 0;
    if (record.kind == TRACE_END) status = put_gap(writer, record.time_ns, err);
    return status ? status : trace_file_put_encoded(writer->file, bytes, err);
}

/* An error ends the file and is said once, to the viewers: the file cannot hold it. */
static void end_file(struct trace_writer *writer, const struct error *err)
{
    trace_file_close(writer->file, NULL);
    writer->file = NULL;
    say(writer, 1, err->text);
}

static void write_file(struct trace_writer *writer, uint64_t now_ns)
{
    struct error err;
    int status = 0;
    for (size_t at = 0; !status && at < writer->batch.count; at += trace_peek(writer->batch.at + at).bytes)
        status = put_record(writer, writer->batch.at + at, &err);
    const size_t told = writer->batch.count;
    if (!status) tell_stop(writer);
    if (!status && writer->batch.count > told) status = put_record(writer, writer->batch.at + told, &err);
    if (!status) status = trace_file_tick(writer->file, now_ns, &err);
    if (status) end_file(writer, &err);
}

static void pass(struct trace_writer *writer, bool everything)
{
    uint64_t now_ns = clock_ns();
    writer->batch.count = 0;
    merge_pass(writer->merge, now_ns, everything, &writer->batch);
    tell_growth(writer, now_ns);
    for (size_t at = 0; at < writer->batch.count; at += trace_peek(writer->batch.at + at).bytes)
        latest_records_put(writer->latest, writer->batch.at + at);
    if (writer->file) write_file(writer, now_ns);
    viewers_send(writer->viewers, &writer->batch);
    atomic_store(&writer->lags, viewers_lag(writer->viewers));
}

static void *writer_main(void *argument)
{
    struct trace_writer *writer = argument;
    bool stopped = false;
    for (uint64_t next_ns = clock_ns(), now_ns; !stopped;) {
        if ((now_ns = clock_ns()) >= next_ns) {
            pass(writer, false);
            next_ns = now_ns + PASS_MS * 1000000ull;
        }
        now_ns = clock_ns();
        stopped = viewers_poll(writer->viewers, writer->wake_fd,
                               now_ns < next_ns ? (int)((next_ns - now_ns + 999999) / 1000000) : 0);
    }
    pass(writer, true);
    return NULL;
}

static void finish_file(struct trace_writer *writer, int (*finish)(struct trace_file *, struct error *))
{
    struct error err;
    if (writer->file) put_gap(writer, clock_ns(), NULL);
    if (finish(writer->file, &err)) {
        writer->batch.count = 0;
        say(writer, 1, err.text);
        viewers_send(writer->viewers, &writer->batch);
    }
    writer->file = NULL;
}

static void writer_free(struct trace_writer *writer)
{
    trace_file_close(writer->file, NULL);
    viewers_close(writer->viewers, LINGER_MS);
    merge_free(writer->merge);
    latest_records_free(writer->latest);
    bytes_release(&writer->batch);
    if (writer->wake_fd >= 0) close(writer->wake_fd);
    free(writer);
}

/* Signals are for other threads; a file at its size limit then fails with an error instead of killing the run (SIGXFSZ). */
static int start_thread(struct trace_writer *writer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&writer->thread, NULL, writer_main, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return problem;
}

/* A run that goes on does so without its trace, if need be; a run that begins would rather not. */
static int open_file(struct trace_writer *writer, const struct trace_writer_options *options, struct error *err)
{
    struct error why;
    if (!options->handed) return trace_file_create(&writer->file, options->file, err);
    if (trace_file_append(&writer->file, options->file, &why)) say(writer, 1, why.text);
    return STATUS_OK;
}

int trace_writer_start(struct trace_writer **out, const struct trace_writer_options *options, struct error *err)
{
    *out = NULL;
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return error_set(err, STATUS_RUN, "no memory for the trace");
    writer->limit.most_bytes = options->file_limit_bytes;
    writer->tell_growth = options->tell_growth;
    writer->merge = merge_new();
    writer->latest = latest_records_new();
    writer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int status = 0;
    if (!writer->merge || !writer->latest || writer->wake_fd < 0)
        status = error_set(err, STATUS_RUN, "no memory for the trace");
    if (!status && options->file) status = open_file(writer, options, err);
    if (!status) status = viewers_open(&writer->viewers, options, writer->latest, err);
    if (!status) viewers_send(writer->viewers, &writer->batch); /* what was said meanwhile */
    if (!status && start_thread(writer)) status = error_set(err, STATUS_RUN, "no thread for the trace");
    if (status && !writer->viewers && options->adopted_fd >= 0) close(options->adopted_fd);
    if (status) writer_free(writer);
    else *out = writer;
    return status;
}

void trace_writer_add_ring(struct trace_writer *writer, struct trace_ring *ring)
{
    while (!merge_add(writer->merge, ring)) usleep(1000); /* without a ring its lane would go unseen */
}

bool trace_writer_lags(const struct trace_writer *writer)
{
    return atomic_load(&writer->lags);
}

uint64_t trace_writer_processor_ns(const struct trace_writer *writer)
{
    return clock_thread_ns(writer->thread);
}

static void end_thread(struct trace_writer *writer)
{
    eventfd_write(writer->wake_fd, 1);
    pthread_join(writer->thread, NULL);
}

void trace_writer_stop(struct trace_writer *writer)
{
    if (!writer) return;
    end_thread(writer);
    finish_file(writer, trace_file_close);
    writer_free(writer);
}

bool trace_writer_hand_over(struct trace_writer *writer, struct handover *handover)
{
    end_thread(writer);
    bool whole = writer->file != NULL;
    finish_file(writer, trace_file_leave);
    viewers_hand_over(writer->viewers, handover);
    writer_free(writer);
    return whole;
}
