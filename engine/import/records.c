#include "engine/import/records.h"

#include <math.h>

#include "engine/base/json.h"
#include "engine/base/version.h"
#include "engine/plan/architecture.h"
#include "engine/plan/footprint.h"
#include "engine/trace/file.h"

/* ---- the queue ---- */

/* What comes first at one instant: an end before a begin, memory between; the step around them. */
static int place_of(const struct trace_record *record)
{
    switch ((unsigned)record->kind) {
    case TRACE_OP_END: return record->op_end.started_ns < record->time_ns ? 0 : 4; /* else after its begin */
    case TRACE_STEP_END: return 2;
    case TRACE_STEP_BEGIN: return 3;
    case TRACE_OP_BEGIN: return 4;
    default: return 1;
    }
}

struct moment *records_push(struct records *r, int rank, uint64_t time_ns, struct trace_record record)
{
    if (time_ns < r->given_ns) time_ns = r->given_ns;
    if (!array_grow((void **)&r->queue, r->queued, &r->room, sizeof *r->queue)) return r->job->failed = true, NULL;
    record.rank = (uint16_t)rank;
    record.time_ns = time_ns;
    r->queue[r->queued] = (struct moment){r->arrived++, 0, place_of(&record), record};
    return &r->queue[r->queued++];
}

/* Where it is kept who came last to a collective. A later number takes the place of an earlier one. */
static struct meeting *meeting_of(struct records *r, uint64_t number, uint32_t op)
{
    const struct job_op *of = &r->job->ops[op];
    struct meeting *at = &r->meetings[number % MEETINGS_KEPT];
    if (at->number != number || at->bytes != of->bytes || at->kind != of->kind)
        *at = (struct meeting){number, of->bytes, 0, of->kind};
    return at;
}

/* Of what began before the newest record, the end tells when. */
void records_push_op(struct records *r, int rank, const struct records_op *op)
{
    if (op->started_ns >= r->given_ns)
        records_push(r, rank, op->started_ns,
                     RECORD(OP_BEGIN, op_begin, TRACE_OBSERVED, op->step, op->op, op->issued_ns));
    struct moment *end = records_push(r, rank, op->ended_ns,
                                      RECORD(OP_END, op_end, .schedule = TRACE_OBSERVED, .step = op->step, .op = op->op,
                                             .issued_ns = op->issued_ns, .ready_ns = op->started_ns,
                                             .started_ns = op->started_ns, .waited_on = -1, .peers_ns = op->peers_ns,
                                             .sent_bytes = job_sent_bytes(r->job, &r->job->ops[op->op])));
    if (!end || !op->meeting) return;
    end->meeting = op->meeting;
    struct meeting *meeting = meeting_of(r, op->meeting, op->op);
    if (op->issued_ns > meeting->last_ns) meeting->last_ns = op->issued_ns;
}

void records_push_step_end(struct records *r, int rank, uint32_t step, uint64_t begun_ns, uint64_t ended_ns,
                           uint32_t micro_steps, float loss)
{
    records_push(r, rank, ended_ns,
                 RECORD(STEP_END, step_end, .step = step, .schedule = TRACE_OBSERVED, .stage = TRACE_NO_STAGE,
                        .loss = loss, .grad_norm = NAN, .learning_rate = NAN, .loss_scale = NAN,
                        .micro_steps = micro_steps, .total_ns = ended_ns - begun_ns));
}

static int by_time(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->record.time_ns != b->record.time_ns) return a->record.time_ns < b->record.time_ns ? -1 : 1;
    if (a->place != b->place) return a->place - b->place;
    return a->number < b->number ? -1 : 1;
}

/* ---- giving ---- */

static void give(struct records *r, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = r->given_ns;
    if (!trace_append(&r->out, &record)) r->job->failed = true;
}

void records_tell(struct records *r, struct trace_record record)
{
    give(r, TRACE_RANK_ALL, record);
}

static void tell_operations(struct records *r)
{
    for (; r->ops_told < r->job->op_count; r->ops_told++) {
        const struct job_op *op = &r->job->ops[r->ops_told];
        records_tell(r, RECORD(OPERATION, operation, (uint32_t)r->ops_told, (uint8_t)op_words(op->kind, NULL)->code,
                               (uint8_t)op->lane, (uint8_t)op->phase, op->prefetch,
                               op->unit < 0 ? TRACE_NO_UNIT : (uint32_t)op->unit, op->ranks, op->bytes,
                               TEXT_OF(op->name)));
    }
}

/* What ended before, between steps, belongs to none. */
static void begin_step(struct records_rank *rank, uint32_t step)
{
    memset(rank, 0, offsetof(struct records_rank, peak_bytes));
    rank->step = step;
}

/* In a collective a rank waits until the last has come. By now all that is known of it has been pushed. */
static void give_op_end(struct records *r, struct moment *moment)
{
    struct trace_record *record = &moment->record;
    struct trace_of_op_end *end = &record->op_end;
    struct records_rank *rank = &r->ranks[record->rank];
    const enum traffic kind = op_traffic(r->job->ops[end->op].kind);
    if (moment->meeting) {
        const uint64_t last_ns = meeting_of(r, moment->meeting, end->op)->last_ns,
                       until_ns = last_ns < record->time_ns ? last_ns : record->time_ns;
        if (until_ns > end->started_ns) end->peers_ns = until_ns - end->started_ns;
    }
    if (end->step > rank->step) begin_step(rank, end->step);
    if (kind == TRAFFIC_KINDS || end->step < rank->step) return;
    rank->count[kind]++;
    rank->sent_bytes[kind] += end->sent_bytes;
    rank->busy_ns[kind] += record->time_ns - end->started_ns;
}

/* Whether the job tells memory as a whole, and the rank has any. */
static bool has_memory(const struct records *r, int rank)
{
    return rank < r->job->rank_count && r->job->ranks[rank].lane[JOB_MEMORY].count;
}

static void give_memory(struct records *r, struct trace_record *record)
{
    struct records_rank *rank = &r->ranks[record->rank];
    uint64_t *peak_bytes = &rank->peak_bytes[record->memory.category];
    if (record->memory.live_bytes > *peak_bytes) *peak_bytes = record->memory.live_bytes;
    record->memory.peak_bytes = *peak_bytes;
    rank->memory = record->memory;
}

static void give_memory_again(struct records *r, int rank)
{
    const struct trace_of_memory *newest = &r->ranks[rank].memory;
    give(r, rank,
         RECORD(MEMORY, memory, TIER_DEVICE, TRACE_UNATTRIBUTED, newest->live_bytes, newest->reserved_bytes,
                newest->peak_bytes));
}

static void give_step_end(struct records *r, struct trace_record *record)
{
    struct trace_of_step_end *end = &record->step_end;
    const struct records_rank *rank = &r->ranks[record->rank];
    for (int kind = 0; kind < TRAFFIC_KINDS && rank->step == end->step; kind++) {
        const enum link near = traffic_link((enum traffic)kind),
                        link = near == LINK_INTRA && r->far ? LINK_INTER : near;
        if (rank->count[kind])
            give(r, record->rank,
                 RECORD(TRAFFIC, traffic, end->step, (uint8_t)kind, (uint8_t)link, rank->count[kind],
                        rank->sent_bytes[kind], rank->busy_ns[kind]));
    }
    const struct trace_of_memory *memory = &rank->memory;
    if (has_memory(r, record->rank))
        give(r, record->rank,
             RECORD(TIER_PEAK, tier_peak, TIER_DEVICE, memory->live_bytes, memory->reserved_bytes, memory->peak_bytes,
                    memory->reserved_bytes));
    if (r->loss.step != end->step) r->loss.step = end->step, r->loss.count = 0, r->loss.sum = 0;
    if (!isnan(end->loss)) r->loss.count++, r->loss.sum += (double)end->loss;
    if (r->loss.count) end->loss = (float)(r->loss.sum / r->loss.count);
}

void records_release(struct records *r, uint64_t until_ns, size_t most_bytes)
{
    int given = 0;
    if (r->queued) qsort(r->queue, (size_t)r->queued, sizeof *r->queue, by_time);
    for (; given < r->queued && r->queue[given].record.time_ns <= until_ns && r->out.count < most_bytes; given++) {
        struct trace_record *record = &r->queue[given].record;
        r->given_ns = record->time_ns;
        tell_operations(r);
        if (record->kind == TRACE_STEP_BEGIN) begin_step(&r->ranks[record->rank], record->step_begin.step);
        if (record->kind == TRACE_OP_END) give_op_end(r, &r->queue[given]);
        if (record->kind == TRACE_MEMORY) give_memory(r, record);
        if (record->kind == TRACE_STEP_END) give_step_end(r, record);
        give(r, record->rank, *record);
        if (record->kind == TRACE_STEP_BEGIN && has_memory(r, record->rank)) give_memory_again(r, record->rank);
    }
    r->queued -= given;
    if (given) memmove(r->queue, r->queue + given, (size_t)r->queued * sizeof *r->queue);
}

/* ---- the whole ---- */

static char *header_of(const struct job *job, uint64_t recorded)
{
    cJSON *json = json_object(
        TEXT("version", ZEROLAB_VERSION), TEXT("program", job->program),
        NUMBER("ranks", job->rank_count ? job->rank_count : (int)job->world), NUMBER("recorded", recorded),
        NUMBER("world", job->world ? job->world : (uint32_t)job->rank_count), TRUTH("sent_by_formula", job->by_formula),
        TEXT_SOME("recognised", job->recognised), TEXT_SOME("precision", job->precision));
    cJSON *model = cJSON_AddObjectToObject(json, "model"), *units = cJSON_AddArrayToObject(model, "units");
    if (job->rank_count) json_put(json, NUMBER("matched", job->matched), NUMBER("apart_ns", job->apart_ns));
    if (job->parameters >= 0) json_put(model, NUMBER("parameters", job->parameters));
    for (int u = 0; u < job->unit_count; u++) {
        cJSON *unit = json_put(json_item(units), TEXT("name", job->units[u].name));
        if (job->units[u].elems >= 0) json_put(unit, NUMBER("elems", job->units[u].elems));
    }
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

void records_begin(struct records *r, uint64_t recorded, uint64_t time_ns)
{
    char *text = header_of(r->job, recorded);
    r->ranks = calloc(r->job->rank_count ? (size_t)r->job->rank_count : r->job->world, sizeof *r->ranks);
    for (int i = 0; i < r->queued; i++)
        if (r->queue[i].record.time_ns < time_ns) time_ns = r->queue[i].record.time_ns;
    r->given_ns = time_ns;
    if (text) records_tell(r, RECORD(RUN, run, TEXT_OF(text)));
    r->job->failed |= !text || !r->ranks;
    free(text);
    records_tell(r, RECORD(STATE, state, 0, RUN_RUNNING, TEXT_OF("")));
}

void records_free(struct records *r)
{
    free(r->queue);
    free(r->ranks);
    bytes_release(&r->out);
}

/* ---- a settled job as a trace ---- */

/* Of the item that lies `ahead` items after what was pushed; INT64_MAX: there are not so many. */
static int64_t begin_of(const struct job_lane *lane, int ahead)
{
    return lane->pushed + ahead < lane->count ? lane->at[lane->pushed + ahead].started_ns : INT64_MAX;
}

/* Of any rank and lane. */
static int64_t earliest(const struct job *job, int ahead)
{
    int64_t time_ns = INT64_MAX;
    for (int r = 0; r < job->rank_count; r++)
        for (int l = 0; l < JOB_LANES; l++) {
            const int64_t at_ns = begin_of(&job->ranks[r].lane[l], ahead);
            if (at_ns < time_ns) time_ns = at_ns;
        }
    return time_ns;
}

static uint64_t in_trace(const struct records *r, int64_t time_ns)
{
    return time_ns < r->origin_ns ? 1 : (uint64_t)(time_ns - r->origin_ns) + 1;
}

/* ---- what came first in the trace ---- */

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

static void push_hosts(struct records *r)
{
    uint32_t machine = 0;
    const char *before = NULL;
    for (int n = 0; n < r->job->rank_count && r->far; n++) {
        const struct job_rank *rank = &r->job->ranks[n];
        if (!rank->present) continue;
        machine += before && strcmp(before, rank->host);
        before = rank->host;
        records_push(r, n, 1, RECORD(HOST, host, machine, TEXT_OF(rank->host)));
        if (rank->offset_ns)
            records_push(r, n, 1, RECORD(CLOCK, clock, machine, rank->offset_ns, (uint64_t)r->job->apart_ns, 0));
    }
}

/* What the import says of the whole, once: a line for the log, so that a reader of the trace finds it. */
static void push_lanes_and_remarks(struct records *r)
{
    char text[256];
    for (int n = 0; n < r->job->rank_count; n++)
        for (int l = 0; l < LANES; l++) {
            const struct job_lane *lane = &r->job->ranks[n].lane[l];
            if (lane->name[0]) records_push(r, n, 1, RECORD(LANE, lane, (uint8_t)l, TEXT_OF(lane->name)));
            if (!lane->left_out) continue;
            snprintf(text, sizeof text, "rank %d, %s: %d operations overlap another one and are left out", n,
                     lane->name[0] ? lane->name : lane_name((enum lane)l), lane->left_out);
            records_tell(r, RECORD(LOG, log, 1, TEXT_OF(text)));
        }
    snprintf(text, sizeof text, "bytes sent are not measured: they follow from each payload, as in a ring");
    if (r->job->by_formula) records_tell(r, RECORD(LOG, log, 0, TEXT_OF(text)));
}

/* ---- what ranks did ---- */

static void push_span(struct records *r, int rank, int lane, const struct job_span *span)
{
    const uint64_t begun_ns = in_trace(r, span->started_ns), ended_ns = in_trace(r, span->ended_ns);
    if (lane == JOB_MEMORY) {
        records_push(
            r, rank, begun_ns,
            RECORD(MEMORY, memory, TIER_DEVICE, TRACE_UNATTRIBUTED, span->live_bytes, span->reserved_bytes, 0));
    } else if (lane == JOB_STEPS) {
        records_push(r, rank, begun_ns, RECORD(STEP_BEGIN, step_begin, span->number, TRACE_OBSERVED, TRACE_NO_STAGE));
        records_push_step_end(r, rank, span->number, begun_ns, ended_ns, 0, span->loss);
    } else {
        const struct job_lane *steps = &r->job->ranks[rank].lane[JOB_STEPS];
        const uint32_t step = span->step < (uint32_t)steps->count ? steps->at[span->step].number : 0;
        const uint64_t issued_ns = in_trace(r, span->started_ns - span->issued_ns);
        records_push_op(r, rank,
                        &(struct records_op){step, span->op, issued_ns, begun_ns, ended_ns, span->peers_ns, 0});
    }
}

static int put_out(struct bytes *out, struct trace_file *file, struct error *err)
{
    int status = STATUS_OK;
    for (size_t at = 0; at < out->count && !status; at += trace_peek(out->at + at).bytes)
        status = trace_file_put_encoded(file, out->at + at, err);
    out->count = 0;
    return status;
}

/* In rounds, so that memory holds few records: a round ends where the first lane has had AT_ONCE items. */
static int write_all(struct records *r, struct trace_file *file, struct error *err)
{
    enum { AT_ONCE = 4096 };
    struct job *job = r->job;
    int status = STATUS_OK;
    records_begin(r, (uint64_t)job_recorded(job), 1);
    push_lanes_and_remarks(r);
    push_hosts(r);
    while (!status && !job->failed && earliest(job, 0) < INT64_MAX) {
        const int64_t later_ns = earliest(job, AT_ONCE), until_ns = later_ns < INT64_MAX ? later_ns : INT64_MAX - 1;
        for (int rank = 0; rank < job->rank_count; rank++)
            for (int l = 0; l < JOB_LANES; l++)
                for (struct job_lane *lane = &job->ranks[rank].lane[l]; begin_of(lane, 0) <= until_ns; lane->pushed++)
                    push_span(r, rank, l, &lane->at[lane->pushed]);
        records_release(r, later_ns < INT64_MAX ? in_trace(r, until_ns) : UINT64_MAX, SIZE_MAX);
        status = put_out(&r->out, file, err);
    }
    records_tell(r, RECORD(STATE, state, 0, RUN_ENDED, TEXT_OF("")));
    records_tell(r, RECORD(END, end, OUTCOME_FINISHED, TEXT_OF("")));
    if (!status) status = put_out(&r->out, file, err);
    return status || !job->failed ? status : error_set(err, STATUS_RUN, "no memory for the trace of a job");
}

int job_write(struct job *job, const char *path, struct error *err)
{
    struct records records = {.job = job, .far = several_hosts(job), .origin_ns = earliest(job, 0)};
    struct trace_file *file;
    if (job->failed) return error_set(err, STATUS_RUN, "no memory for what was read");
    if (records.origin_ns == INT64_MAX)
        return error_set(err, STATUS_INPUT, "no operation, step or memory of a job was found in it");
    int status = trace_file_create(&file, path, err);
    if (status) return status;
    status = write_all(&records, file, err);
    records_free(&records);
    const int closed = trace_file_close(file, status ? NULL : err);
    return status ? status : closed;
}
