/* The thread of the writer: about fifty times a second it merges the rings (merge.h) and passes the records to its
 * sinks (sink.h): those of its options, the trace file, and the viewers (viewers.c). The viewers come last, so that
 * they also get the log records that other sinks append. In between it sleeps in poll(); a command line or a stop wakes
 * it. */
#include "engine/trace/writer.h"

#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { PASS_MS = 20, PUMP_MS = 5 };

struct trace_writer {
    struct merge *merge;
    struct inlet *inlet; /* records of other machines; NULL: none */
    struct viewers *viewers;
    struct sink sinks[WRITER_SINKS_MAX + 2]; /* the given ones, the file, the viewers. end NULL: an error ended it */
    int sink_count;
    int file; /* its place; -1: none */
    struct bytes batch;
    atomic_bool lags;
    int wake_fd; /* readable: it is to stop */
    pthread_t thread;
};

/* ---- sinks ---- */

static void add_sink(struct trace_writer *writer, struct sink sink)
{
    writer->sinks[writer->sink_count++] = sink;
}

static void say(struct trace_writer *writer, const struct error *err)
{
    const struct trace_record log = trace_log(1, err->text, clock_ns());
    trace_append(&writer->batch, &log);
}

static void end_sink(struct trace_writer *writer, struct sink *sink, bool goes_on)
{
    struct error err;
    if (sink->end && sink->end(sink->self, goes_on, &err)) say(writer, &err);
    sink->end = NULL;
}

/* Adds the error's text to the batch as a LOG record, for the sinks after this one. */
static void put_into(struct trace_writer *writer, struct sink *sink, uint64_t now_ns)
{
    struct error err;
    if (!sink->end || !sink->put(sink->self, &writer->batch, now_ns, &err)) return;
    say(writer, &err);
    sink->end(sink->self, false, NULL);
    sink->end = NULL;
}

/* All sinks but the viewers, which get the log records of errors. */
static void end_sinks(struct trace_writer *writer, bool goes_on)
{
    writer->batch.count = 0;
    for (int i = 0; i < writer->sink_count - 1; i++) end_sink(writer, &writer->sinks[i], goes_on);
    put_into(writer, &writer->sinks[writer->sink_count - 1], clock_ns());
}

static void pass(struct trace_writer *writer, bool everything)
{
    const uint64_t now_ns = clock_ns();
    writer->batch.count = 0;
    merge_pass(writer->merge, now_ns, everything, &writer->batch);
    for (int i = 0; i < writer->sink_count; i++) put_into(writer, &writer->sinks[i], now_ns);
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
        int wait_ms = now_ns < next_ns ? (int)((next_ns - now_ns + 999999) / 1000000) : 0;
        if (writer->inlet && wait_ms > PUMP_MS) wait_ms = PUMP_MS;
        stopped = viewers_poll(writer->viewers, writer->wake_fd, wait_ms);
        if (writer->inlet) inlet_pump(writer->inlet);
    }
    if (writer->inlet) inlet_finish(writer->inlet);
    pass(writer, true);
    return NULL;
}

static void writer_free(struct trace_writer *writer)
{
    for (int i = 0; i < writer->sink_count; i++) end_sink(writer, &writer->sinks[i], false);
    inlet_free(writer->inlet);
    merge_free(writer->merge);
    bytes_release(&writer->batch);
    if (writer->wake_fd >= 0) close(writer->wake_fd);
    free(writer);
}

/* If the file cannot be opened, a relaunched run continues without its trace; a new run does not start. */
static int add_file(struct trace_writer *writer, const struct trace_writer_options *options, struct error *err)
{
    const struct file_sink_options of_file = {.path = options->file,
                                              .append = options->handed,
                                              .tell_growth = options->tell_growth,
                                              .most_bytes = options->file_limit_bytes};
    struct sink sink;
    const int status = file_sink_open(&sink, &of_file, err);
    if (status && !options->handed) return status;
    if (status) say(writer, err);
    else add_sink(writer, sink), writer->file = writer->sink_count - 1;
    return STATUS_OK;
}

static int add_sinks(struct trace_writer *writer, const struct trace_writer_options *options, struct error *err)
{
    int status = options->file ? add_file(writer, options, err) : STATUS_OK;
    if (!status) status = viewers_open(&writer->viewers, options, err);
    if (status) return status;
    add_sink(writer, viewers_sink(writer->viewers));
    put_into(writer, &writer->sinks[writer->sink_count - 1], clock_ns()); /* what was said meanwhile */
    return STATUS_OK;
}

/* Ends the sinks and closes the connection given to a writer that cannot start. */
static int refuse(const struct trace_writer_options *options, int status)
{
    for (int i = 0; i < options->sink_count; i++) options->sinks[i].end(options->sinks[i].self, false, NULL);
    if (options->adopted_fd >= 0) close(options->adopted_fd);
    return status;
}

int trace_writer_start(struct trace_writer **out, const struct trace_writer_options *options, struct error *err)
{
    *out = NULL;
    if (options->sink_count > WRITER_SINKS_MAX)
        return refuse(options, error_set(err, STATUS_USAGE, "%d sinks for the trace; give it at most %d",
                                         options->sink_count, WRITER_SINKS_MAX));
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer) return refuse(options, error_set(err, STATUS_RUN, "no memory for the trace"));
    for (int i = 0; i < options->sink_count; i++) add_sink(writer, options->sinks[i]);
    writer->file = -1;
    writer->merge = merge_new();
    writer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (writer->merge && options->port) writer->inlet = inlet_new(options->port, writer->merge);
    const bool whole = writer->merge && writer->wake_fd >= 0 && (!options->port || writer->inlet);
    int status = whole ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for the trace");
    if (!status) status = add_sinks(writer, options, err);
    if (!status && !merge_start_thread(&writer->thread, writer_main, writer))
        status = error_set(err, STATUS_RUN, "no thread for the trace");
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
    end_sinks(writer, false);
    writer_free(writer);
}

bool trace_writer_hand_over(struct trace_writer *writer, struct handover *handover)
{
    end_thread(writer);
    const bool whole = writer->file >= 0 && writer->sinks[writer->file].end;
    end_sinks(writer, true);
    viewers_hand_over(writer->viewers, handover);
    writer_free(writer);
    return whole;
}
