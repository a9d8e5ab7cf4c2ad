/* A job as a trace: streams of moments (each lane's begins and ends, a rank's memory, its steps) merged by time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/tier.h"
#include "engine/base/version.h"
#include "engine/import/job.h"
#include "engine/plan/architecture.h"
#include "engine/plan/footprint.h"
#include "engine/trace/file.h"

/* What comes first at one instant: an end before a begin, memory between; the step around them. */
enum moment { MOMENT_OP_END, MOMENT_MEMORY, MOMENT_STEP_END, MOMENT_STEP_BEGIN, MOMENT_OP_BEGIN };

enum { STREAM_MEMORY = LANES, STREAM_STEPS, STREAMS };

/* A lane, the memory or the steps of a rank, at its next moment. */
struct stream {
    int rank, what, at;
    bool inside; /* of a span or a step: the next moment is its end */
    enum moment moment;
    int64_t time_ns;
};

struct sums {
    uint64_t count[TRAFFIC_KINDS], sent_bytes[TRAFFIC_KINDS], busy_ns[TRAFFIC_KINDS], peak_bytes, now_bytes,
        now_reserved;
};

struct writing {
    const struct job *job;
    struct trace_file *file;
    struct stream *heap;
    int count;
    struct sums *sums; /* by rank: of its step */
    int64_t origin_ns, now_ns;
    int status;
    struct error *err;
};

/* ---- the next moment of each stream, the earliest on top of a heap ---- */

static bool comes_before(const struct stream *a, const struct stream *b)
{
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    if (a->moment != b->moment) return a->moment < b->moment;
    return a->rank < b->rank;
}

static void sink_down(struct writing *w, int at)
{
    for (int child; (child = 2 * at + 1) < w->count; at = child) {
        if (child + 1 < w->count && comes_before(&w->heap[child + 1], &w->heap[child])) child++;
        if (!comes_before(&w->heap[child], &w->heap[at])) return;
        const struct stream swap = w->heap[child];
        w->heap[child] = w->heap[at];
        w->heap[at] = swap;
    }
}

/* Sets time and kind of the stream's next moment; false: it has no more. */
static bool look(const struct job *job, struct stream *stream)
{
    const struct job_rank *rank = &job->ranks[stream->rank];
    if (stream->what == STREAM_MEMORY) {
        if (stream->at >= rank->memory.count) return false;
        stream->moment = MOMENT_MEMORY;
        stream->time_ns = rank->memory.at[stream->at].time_ns;
    } else if (stream->what == STREAM_STEPS) {
        if (stream->at >= rank->steps.count) return false;
        const struct job_step *step = &rank->steps.at[stream->at];
        stream->moment = stream->inside ? MOMENT_STEP_END : MOMENT_STEP_BEGIN;
        stream->time_ns = stream->inside ? step->ended_ns : step->begun_ns;
    } else {
        const struct job_lane *lane = &rank->lane[stream->what];
        if (stream->at >= lane->count) return false;
        stream->moment = stream->inside ? MOMENT_OP_END : MOMENT_OP_BEGIN;
        stream->time_ns = stream->inside ? lane->at[stream->at].ended_ns : lane->at[stream->at].started_ns;
    }
    return true;
}

static bool open_streams(struct writing *w)
{
    w->heap = calloc((size_t)w->job->rank_count * STREAMS + 1, sizeof *w->heap);
    w->sums = calloc((size_t)w->job->rank_count + 1, sizeof *w->sums);
    for (int r = 0; w->heap && r < w->job->rank_count; r++)
        for (int what = 0; what < STREAMS; what++) {
            struct stream stream = {.rank = r, .what = what};
            if (look(w->job, &stream)) w->heap[w->count++] = stream;
        }
    for (int i = w->count / 2 - 1; i >= 0; i--) sink_down(w, i);
    return w->heap && w->sums;
}

static void advance(struct writing *w)
{
    struct stream *top = w->heap;
    const bool ended = top->inside || top->what == STREAM_MEMORY;
    top->inside = !ended;
    top->at += ended;
    if (!look(w->job, top)) *top = w->heap[--w->count];
    sink_down(w, 0);
}

/* ---- records ---- */

static void put(struct writing *w, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = (uint64_t)(w->now_ns - w->origin_ns) + 1;
    if (!w->status) w->status = trace_file_put(w->file, &record, w->err);
}

#define PUT(w, rank, ID, name, ...) put(w, rank, (struct trace_record){.kind = TRACE_##ID, .name = {__VA_ARGS__}})

static uint64_t in_trace(const struct writing *w, int64_t time_ns)
{
    return time_ns < w->origin_ns ? 1 : (uint64_t)(time_ns - w->origin_ns) + 1;
}

static void put_header(struct writing *w)
{
    const struct job *job = w->job;
    cJSON *json = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(json, "model");
    int recorded = 0;
    for (int r = 0; r < job->rank_count; r++) recorded += job->ranks[r].present;
    json_put(json, TEXT("version", ZEROLAB_VERSION), TEXT("program", job->program), NUMBER("ranks", job->rank_count),
             NUMBER("recorded", recorded), NUMBER("world", job->world ? job->world : (uint32_t)job->rank_count),
             TRUTH("sent_by_formula", job->by_formula), NUMBER("matched", (double)job->matched),
             NUMBER("apart_ns", (double)job->apart_ns));
    if (job->recognised[0]) json_put(json, TEXT("recognised", job->recognised));
    if (job->model[0]) json_put(model, TEXT("name", job->model));
    if (job->parameters >= 0) json_put(model, NUMBER("parameters", (double)job->parameters));
    cJSON *units = cJSON_AddArrayToObject(model, "units");
    for (int u = 0; u < job->unit_count; u++) {
        cJSON *unit = json_item(units);
        json_put(unit, TEXT("name", job->units[u].name));
        if (job->units[u].elems >= 0) json_put(unit, NUMBER("elems", (double)job->units[u].elems));
    }
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (text) PUT(w, TRACE_RANK_ALL, RUN, run, TEXT_OF(text));
    else w->status = error_set(w->err, STATUS_RUN, "no memory for the header of a trace");
    free(text);
}

static bool several_hosts(const struct job *job)
{
    const char *first = NULL;
    for (int r = 0; r < job->rank_count; r++) {
        const char *host = job->ranks[r].host;
        if (first && *host && strcmp(first, host)) return true;
        if (*host && !first) first = host;
    }
    return false;
}

static void put_hosts(struct writing *w)
{
    uint32_t machine = 0;
    const char *before = NULL;
    for (int r = 0; r < w->job->rank_count && several_hosts(w->job); r++) {
        const struct job_rank *rank = &w->job->ranks[r];
        if (!rank->present) continue;
        machine += before && strcmp(before, rank->host);
        before = rank->host;
        PUT(w, r, HOST, host, machine, TEXT_OF(rank->host));
        if (rank->offset_ns) PUT(w, r, CLOCK, clock, machine, rank->offset_ns, (uint64_t)w->job->apart_ns, 0);
    }
}

static void put_lanes_and_operations(struct writing *w)
{
    const struct job *job = w->job;
    for (int r = 0; r < job->rank_count; r++)
        for (int l = 0; l < LANES; l++)
            if (job->ranks[r].lane[l].name[0]) PUT(w, r, LANE, lane, (uint8_t)l, TEXT_OF(job->ranks[r].lane[l].name));
    for (int i = 0; i < job->op_count; i++) {
        const struct job_op *op = &job->ops[i];
        PUT(w, TRACE_RANK_ALL, OPERATION, operation, (uint32_t)i, (uint8_t)op_words(op->kind, NULL)->code,
            (uint8_t)op->lane, (uint8_t)op->phase, op->prefetch, op->unit < 0 ? TRACE_NO_UNIT : (uint32_t)op->unit,
            op->ranks, op->bytes, TEXT_OF(op->name));
    }
}

/* What the import says of the whole, once: a line for the log, so that a reader of the trace finds it. */
static void put_remarks(struct writing *w)
{
    char text[256];
    for (int r = 0; r < w->job->rank_count; r++)
        for (int l = 0; l < LANES; l++) {
            const struct job_lane *lane = &w->job->ranks[r].lane[l];
            if (!lane->left_out) continue;
            snprintf(text, sizeof text, "rank %d, %s: %d operations overlap another one and are left out", r,
                     lane->name[0] ? lane->name : lane_name((enum lane)l), lane->left_out);
            PUT(w, TRACE_RANK_ALL, LOG, log, 1, TEXT_OF(text));
        }
    if (w->job->by_formula)
        PUT(w, TRACE_RANK_ALL, LOG, log, 0,
            TEXT_OF("bytes sent are not measured: they follow from each payload, as in a ring"));
}

/* ---- moments ---- */

static uint32_t number_of(const struct job_rank *rank, const struct job_span *span)
{
    return span->step < (uint32_t)rank->steps.count ? rank->steps.at[span->step].number : 0;
}

static void put_op_begin(struct writing *w, int r, const struct job_rank *rank, const struct job_span *span)
{
    PUT(w, r, OP_BEGIN, op_begin, TRACE_OBSERVED, number_of(rank, span), span->op,
        in_trace(w, span->started_ns - span->issued_ns));
}

static void put_op_end(struct writing *w, int r, const struct job_rank *rank, const struct job_span *span)
{
    const struct job_op *op = &w->job->ops[span->op];
    const enum traffic kind = op_traffic(op->kind);
    const uint64_t sent_bytes = kind == TRAFFIC_KINDS ? 0 : job_sent_bytes(w->job, op);
    if (kind != TRAFFIC_KINDS) {
        w->sums[r].count[kind]++;
        w->sums[r].sent_bytes[kind] += sent_bytes;
        w->sums[r].busy_ns[kind] += (uint64_t)(span->ended_ns - span->started_ns);
    }
    const uint64_t issued_ns = in_trace(w, span->started_ns - span->issued_ns),
                   started_ns = in_trace(w, span->started_ns);
    PUT(w, r, OP_END, op_end, .schedule = TRACE_OBSERVED, .step = number_of(rank, span), .op = span->op,
        .issued_ns = issued_ns, .ready_ns = started_ns, .started_ns = started_ns, .waited_on = -1,
        .peers_ns = span->peers_ns, .sent_bytes = sent_bytes);
}

static void put_memory(struct writing *w, int r, const struct job_memory *memory)
{
    struct sums *sums = &w->sums[r];
    sums->now_bytes = memory->live_bytes;
    sums->now_reserved = memory->reserved_bytes;
    if (memory->live_bytes > sums->peak_bytes) sums->peak_bytes = memory->live_bytes;
    PUT(w, r, MEMORY, memory, TIER_DEVICE, TRACE_UNATTRIBUTED, memory->live_bytes, memory->reserved_bytes,
        sums->peak_bytes);
}

static void put_step_begin(struct writing *w, int r, const struct job_step *step)
{
    struct sums *sums = &w->sums[r];
    memset(sums, 0, offsetof(struct sums, peak_bytes));
    PUT(w, r, STEP_BEGIN, step_begin, step->number, TRACE_OBSERVED, TRACE_NO_STAGE);
    if (w->job->ranks[r].memory.count)
        PUT(w, r, MEMORY, memory, TIER_DEVICE, TRACE_UNATTRIBUTED, sums->now_bytes, sums->now_reserved,
            sums->peak_bytes);
}

static void put_step_end(struct writing *w, int r, const struct job_step *step, bool far)
{
    const struct sums *sums = &w->sums[r];
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const enum link near = traffic_link((enum traffic)kind), link = near == LINK_INTRA && far ? LINK_INTER : near;
        if (!sums->count[kind]) continue;
        PUT(w, r, TRAFFIC, traffic, step->number, (uint8_t)kind, (uint8_t)link, (uint32_t)sums->count[kind],
            sums->sent_bytes[kind], sums->busy_ns[kind]);
    }
    if (w->job->ranks[r].memory.count)
        PUT(w, r, TIER_PEAK, tier_peak, TIER_DEVICE, sums->now_bytes, sums->now_reserved, sums->peak_bytes,
            sums->now_reserved);
    PUT(w, r, STEP_END, step_end, .step = step->number, .schedule = TRACE_OBSERVED, .stage = TRACE_NO_STAGE,
        .loss = step->loss, .grad_norm = NAN, .learning_rate = NAN, .loss_scale = NAN,
        .total_ns = (uint64_t)(step->ended_ns - step->begun_ns));
}

static void put_moment(struct writing *w, const struct stream *at, bool far)
{
    const struct job_rank *rank = &w->job->ranks[at->rank];
    w->now_ns = at->time_ns;
    switch (at->moment) {
    case MOMENT_OP_BEGIN: put_op_begin(w, at->rank, rank, &rank->lane[at->what].at[at->at]); return;
    case MOMENT_OP_END: put_op_end(w, at->rank, rank, &rank->lane[at->what].at[at->at]); return;
    case MOMENT_MEMORY: put_memory(w, at->rank, &rank->memory.at[at->at]); return;
    case MOMENT_STEP_BEGIN: put_step_begin(w, at->rank, &rank->steps.at[at->at]); return;
    case MOMENT_STEP_END: put_step_end(w, at->rank, &rank->steps.at[at->at], far); return;
    }
}

static int write_all(struct writing *w)
{
    const bool far = several_hosts(w->job);
    w->origin_ns = w->now_ns = w->heap[0].time_ns;
    put_header(w);
    put_hosts(w);
    put_lanes_and_operations(w);
    put_remarks(w);
    PUT(w, TRACE_RANK_ALL, STATE, state, 0, RUN_RUNNING, TEXT_OF(""));
    for (; w->count && !w->status; advance(w)) put_moment(w, &w->heap[0], far);
    PUT(w, TRACE_RANK_ALL, STATE, state, 0, RUN_ENDED, TEXT_OF(""));
    PUT(w, TRACE_RANK_ALL, END, end, OUTCOME_FINISHED, TEXT_OF(""));
    return w->status;
}

int job_write(const struct job *job, const char *path, struct error *err)
{
    struct writing w = {.job = job, .err = err};
    int status =
        job_failed(job) || !open_streams(&w) ? error_set(err, STATUS_RUN, "no memory for what was read") : STATUS_OK;
    if (!status && !w.count)
        status = error_set(err, STATUS_INPUT, "no operation, step or memory of a job was found in it");
    if (!status) status = trace_file_create(&w.file, path, err);
    if (!status) {
        status = write_all(&w);
        const int closed = trace_file_close(w.file, status ? NULL : err);
        if (!status) status = closed;
    }
    free(w.heap);
    free(w.sums);
    return status;
}
