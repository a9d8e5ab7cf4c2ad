/* The trace file as a sink: reports how fast the file grows, and stops it at its limit.
 *
 * A file with a limit stops between two steps, before the step that might not fit. From there on it leaves out the
 * ranks' records, and headers and schedules of later parts. While they fit, it still takes records about the whole run
 * (events, answers, log, validation loss, hash, sample), and always the END. So the file replays up to the last whole
 * step and says how the run ended; a GAP record before the end, and an event `trace_limit`, say from which step on
 * nothing is known. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/trace/file.h"
#include "engine/trace/sink.h"

enum { LIMIT_RESERVE_BYTES = 64 << 10 };

struct trace_limit {
    uint64_t most_bytes; /* 0: no limit */
    /* State. */
    bool stopped;
    uint32_t step; /* the one that began last; stopped: the first that is left out */
    uint64_t step_began_bytes,
        step_most_bytes;         /* size of the file then; the most that a step took, uncompressed at its end */
    uint64_t left_out, since_ns; /* records, and the time of the first */
    uint8_t rank_is_past[(TRACE_RANK_ALL + 8) / 8]; /* by rank, a bit: it has begun a step that is left out */
};

struct file_sink {
    struct trace_file *file;
    struct trace_limit limit;
    bool told_stop;   /* that recording has stopped */
    bool tell_growth; /* still to be told */
    uint32_t step;    /* the last one that began */
    struct {
        uint64_t bytes, ns;
        uint32_t step;
    } first;              /* the first whole chunk: length of the file, when it was written, and the step then */
    uint64_t whole_bytes; /* of the file when growth was looked at last */
};

/* ---- which records still go into a file with a limit ---- */

static bool leave_out(struct trace_limit *limit, const struct trace_record *record)
{
    if (!limit->left_out++) limit->since_ns = record->time_ns;
    return false;
}

/* Another step is recorded only if 1.5 times the largest step so far still fits. */
static void begin_step(struct trace_limit *limit, uint32_t step, uint64_t file_bytes)
{
    if (step == limit->step || limit->stopped) return;
    limit->step = step;
    limit->step_began_bytes = file_bytes;
    limit->stopped = file_bytes + limit->step_most_bytes * 3 / 2 + LIMIT_RESERVE_BYTES > limit->most_bytes;
}

/* Whether a record goes into a file that would be at most `file_bytes` long if it were closed now. */
static bool limit_takes(struct trace_limit *limit, const struct trace_record *record, uint64_t encoded_bytes,
                        uint64_t file_bytes)
{
    uint8_t *is_past = &limit->rank_is_past[record->rank / 8], bit = (uint8_t)(1u << record->rank % 8);
    const uint64_t reserve = record->kind == TRACE_END ? 0 : LIMIT_RESERVE_BYTES / 4,
                   after_bytes = file_bytes + encoded_bytes;
    const bool news = trace_kind_traits(record->kind) & TRACE_NEWS;
    if (!limit->most_bytes) return true;
    if (record->kind == TRACE_STEP_BEGIN) begin_step(limit, record->step_begin.step, file_bytes);
    if (!limit->stopped && limit->step && after_bytes > limit->step_began_bytes + limit->step_most_bytes)
        limit->step_most_bytes = after_bytes - limit->step_began_bytes;
    if (!news && after_bytes + LIMIT_RESERVE_BYTES / 2 > limit->most_bytes) limit->stopped = true;
    if (after_bytes + reserve > limit->most_bytes) return leave_out(limit, record);
    if (!limit->stopped || news) return true;
    if (record->kind == TRACE_STEP_BEGIN) *is_past |= bit;
    if (record->rank == TRACE_RANK_ALL || *is_past & bit) return leave_out(limit, record);
    return after_bytes + LIMIT_RESERVE_BYTES / 2 <= limit->most_bytes || leave_out(limit, record);
}

/* ---- what it says ---- */

static void show_bytes(char out[24], double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
    snprintf(out, 24, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

/* The rate is taken over the first seconds and over at least two steps, from one written chunk to another: an open chunk
 * is not compressed yet. */
static void tell_growth(struct file_sink *sink, struct bytes *records, uint64_t now_ns)
{
    static const uint64_t after_ns = 3000000000u;
    const uint64_t whole_bytes = trace_file_whole_bytes(sink->file);
    if (!sink->tell_growth || sink->limit.stopped || !sink->step || whole_bytes == sink->whole_bytes) return;
    sink->whole_bytes = whole_bytes;
    if (!sink->first.bytes) sink->first.bytes = whole_bytes, sink->first.ns = now_ns, sink->first.step = sink->step;
    const uint32_t steps = sink->step - sink->first.step;
    if (steps < 2 || now_ns < sink->first.ns + after_ns) return;
    const double bytes = (double)(whole_bytes - sink->first.bytes), seconds = (double)(now_ns - sink->first.ns) * 1e-9;
    char step[24], hour[24], most[24], text[160];
    show_bytes(step, bytes / steps);
    show_bytes(hour, bytes / seconds * 3600);
    show_bytes(most, (double)sink->limit.most_bytes);
    snprintf(text, sizeof text, "trace: grows by %s a step, %s an hour; %s%s", step, hour,
             sink->limit.most_bytes ? "recording stops at " : "--trace-limit SIZE bounds it",
             sink->limit.most_bytes ? most : "");
    sink->tell_growth = false;
    const struct trace_record log = trace_log(0, text, now_ns);
    trace_append(records, &log);
}

/* Written as an event, so that the screen, the report and the file itself have it. */
static void tell_stop(struct file_sink *sink, struct bytes *records)
{
    char json[200];
    const uint32_t before = sink->limit.step ? sink->limit.step - 1 : 0;
    if (!sink->limit.stopped || sink->told_stop) return;
    sink->told_stop = true;
    snprintf(json, sizeof json,
             "{\"kind\":\"trace_limit\",\"detail\":{\"recorded_until_step\":%u,\"limit_bytes\":%llu}}", before,
             (unsigned long long)sink->limit.most_bytes);
    struct trace_record record = {.kind = TRACE_EVENT,
                                  .rank = TRACE_RANK_ALL,
                                  .time_ns = clock_ns(),
                                  .event = {.step = before, .json = {json, strlen(json)}}};
    trace_append(records, &record);
}

static int put_gap(struct file_sink *sink, uint64_t time_ns, struct error *err)
{
    const struct trace_limit *limit = &sink->limit;
    const struct trace_record gap = trace_gap(TRACE_RANK_ALL, limit->left_out, limit->since_ns, time_ns);
    if (!sink->limit.left_out) return 0;
    sink->limit.left_out = 0;
    return trace_file_put(sink->file, &gap, err);
}

static int put_record(struct file_sink *sink, const uint8_t *bytes, struct error *err)
{
    const struct trace_head head = trace_peek(bytes);
    struct trace_record record = {.kind = head.kind, .rank = head.rank, .time_ns = head.time_ns};
    int status = 0;
    if (head.kind == TRACE_STEP_BEGIN && !trace_decode(bytes, head.bytes, &record))
        return trace_file_put_encoded(sink->file, bytes, err);
    if (record.kind == TRACE_STEP_BEGIN) sink->step = record.step_begin.step;
    if (!limit_takes(&sink->limit, &record, head.bytes, trace_file_bytes(sink->file))) return 0;
    if (record.kind == TRACE_END) status = put_gap(sink, record.time_ns, err);
    return status ? status : trace_file_put_encoded(sink->file, bytes, err);
}

static int put_records(struct file_sink *sink, const struct bytes *records, size_t from, struct error *err)
{
    int status = STATUS_OK;
    for (size_t at = from; !status && at < records->count; at += trace_peek(records->at + at).bytes)
        status = put_record(sink, records->at + at, err);
    return status;
}

static int put(void *self, struct bytes *records, uint64_t now_ns, struct error *err)
{
    struct file_sink *sink = self;
    tell_growth(sink, records, now_ns);
    int status = put_records(sink, records, 0, err);
    const size_t told = records->count;
    if (!status) tell_stop(sink, records);
    if (!status) status = put_records(sink, records, told, err);
    return status ? status : trace_file_tick(sink->file, now_ns, err);
}

static int end(void *self, bool goes_on, struct error *err)
{
    struct file_sink *sink = self;
    put_gap(sink, clock_ns(), NULL);
    const int status = goes_on ? trace_file_leave(sink->file, err) : trace_file_close(sink->file, err);
    free(sink);
    return status;
}

int file_sink_open(struct sink *out, const struct file_sink_options *options, struct error *err)
{
    struct file_sink *sink = calloc(1, sizeof *sink);
    if (!sink) return error_set(err, STATUS_RUN, "no memory for the trace");
    sink->limit.most_bytes = options->most_bytes;
    sink->tell_growth = options->tell_growth;
    int status = options->append ? trace_file_append(&sink->file, options->path, err)
                                 : trace_file_create(&sink->file, options->path, err);
    if (status) free(sink);
    else *out = (struct sink){put, end, sink};
    return status;
}
