#include "engine/import/records.h"

#include <math.h>

#include "engine/base/json.h"
#include "engine/base/version.h"
#include "engine/plan/architecture.h"
#include "engine/plan/footprint.h"

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

void records_push_memory(struct records *r, int rank, uint64_t time_ns, int category, uint64_t live_bytes,
                         uint64_t reserved_bytes)
{
    records_push(r, rank, time_ns,
                 RECORD(MEMORY, memory, TIER_DEVICE, (uint8_t)category, live_bytes, reserved_bytes, 0));
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
    for (int i = 0; i < r->queued; i++)
        if (r->queue[i].record.time_ns < time_ns) time_ns = r->queue[i].record.time_ns;
    r->given_ns = time_ns;
    if (text) records_tell(r, RECORD(RUN, run, TEXT_OF(text)));
    else r->job->failed = true;
    free(text);
    records_tell(r, RECORD(STATE, state, 0, RUN_RUNNING, TEXT_OF("")));
}

void records_free(struct records *r)
{
    free(r->queue);
    free(r->ranks);
    bytes_release(&r->out);
}
