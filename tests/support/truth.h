/* What a trace says of the steps up to one, read the plain way for truth.c: every operation of every step is kept. Shares
 * nothing with the program but the reader of traces and the names of kinds. */
#pragma once

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/tier.h"
#include "engine/trace/source.h"

enum { RANKS = 64, PLANS = 64, STEPS = 4096, DEPENDENCIES = 8, STILL = -1, ALL_CATEGORIES = 255 };
enum { COMPUTE, COMM, D2H, H2D, HOST, NVME_READ, NVME_WRITE, LANE_COUNT };
enum { FORWARD, BACKWARD, OPTIMIZER, PHASE_COUNT };

static const struct { const char *name; int lane; } kinds[] = {
#define OP(ID, code, name, lane, phase, help) [code] = {name, lane},
#include "engine/plan/ops.def"
#undef OP
#define USED(use, kind, code, name, help) [code] = {name, COMPUTE},
#include "engine/plan/gpt2_ops.def"
#undef USED
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct plan_op {
    int kind, phase, unit, bucket, prefetch, flush, waits;
    int64_t bytes;
    int first_take, takes, first_give, gives; /* in the plan's effects, which are numbers of buffers */
    int on[DEPENDENCIES], why[DEPENDENCIES];
};
struct plan_buffer { int category, unit; int64_t bytes; };
struct plan {
    uint32_t number;
    int purpose, count, buffer_count, lasting;
    struct plan_op *ops;
    struct plan_buffer *buffers;
    int *effects;
};
/* What was planned under a schedule; ranks may say it before the schedule itself has come. */
struct forecast {
    uint64_t memory[TIERS][CATEGORIES], at_peak[TIERS][CATEGORIES], peak[TIERS], resting[TIERS];
    double sent[TRAFFIC_KINDS], theory; /* sent: sums over ranks; theory: the paper's, of one */
};
struct done {
    int rank, op;
    uint32_t step;
    const struct plan *plan;
    struct trace_of_op_end end;
    uint64_t ended_ns;
};
struct step { bool known; uint32_t schedule, tokens; bool skipped; uint64_t total_ns; int ended; }; /* total: slowest rank */

static struct plan plans[PLANS];
static struct forecast forecasts[PLANS * 4]; /* by the schedule's number */
static int plan_count, ranks;
static struct done *done;
static size_t done_count, done_room;
static struct step steps[STEPS];
static uint64_t live[RANKS][TIERS][CATEGORIES], peak[RANKS][TIERS][CATEGORIES], reserved[RANKS][TIERS][CATEGORIES];
static uint64_t at_peak[RANKS][TIERS][CATEGORIES], tier_peak[RANKS][TIERS];
static bool has_memory[RANKS][TIERS][CATEGORIES];

/* Of the step that was asked for, and of the operation in it on rank 0 (STILL: its end). */
static uint32_t wanted;
static int64_t wanted_op = STILL;
static bool come, in_step[RANKS], ended[RANKS], begun[RANKS][1 << 14];
static struct trace_of_step_end step_end[RANKS];
static uint64_t live_then[RANKS][TIERS][CATEGORIES], peak_then[RANKS][TIERS][CATEGORIES], fullest[RANKS][TIERS][CATEGORIES];
static uint64_t fullest_sum[RANKS][TIERS], busy_ns[RANKS][TRAFFIC_KINDS];

static bool named(int kind, const char *name)
{
    return strcmp(kinds[kind].name, name) == 0;
}

/* ---- plans: fields stand in the order in which schedule_io.c writes them ---- */

static double at(const cJSON *array, int place)
{
    const cJSON *item = cJSON_GetArrayItem(array, place);
    return item ? item->valuedouble : STILL;
}

static void read_op(struct plan_op *op, const cJSON *from)
{
    const cJSON *dependencies = cJSON_GetArrayItem(from, 18);
    *op = (struct plan_op){.kind = (int)at(from, 0), .phase = (int)at(from, 1), .unit = (int)at(from, 3), .bucket = (int)at(from, 4),
                           .prefetch = (int)at(from, 7), .flush = (int)at(from, 8), .bytes = (int64_t)at(from, 9),
                           .first_take = (int)at(from, 13), .takes = (int)at(from, 14), .first_give = (int)at(from, 15),
                           .gives = (int)at(from, 16)};
    for (int i = 0; i + 1 < cJSON_GetArraySize(dependencies) && op->waits < DEPENDENCIES; i += 2, op->waits++) {
        op->on[op->waits] = (int)at(dependencies, i);
        op->why[op->waits] = (int)at(dependencies, i + 1);
    }
}

static const cJSON *list_of(const cJSON *json, const char *name, size_t size, void *out)
{
    const cJSON *list = cJSON_GetObjectItem(json, name);
    *(void **)out = calloc((size_t)cJSON_GetArraySize(list) + 1, size);
    return list;
}

static void free_plan(struct plan *plan)
{
    free(plan->ops);
    free(plan->buffers);
    free(plan->effects);
}

static void read_plan(const struct trace_of_schedule *from)
{
    cJSON *json = cJSON_ParseWithLength(from->json.at, from->json.bytes);
    struct plan *plan = &plans[plan_count++ % PLANS];
    const cJSON *item;
    int effects = 0;
    free_plan(plan);
    *plan = (struct plan){.number = from->schedule, .purpose = from->purpose};
    plan->lasting = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(json, "lasting"));
    const cJSON *ops = list_of(json, "ops", sizeof *plan->ops, &plan->ops),
                *buffers = list_of(json, "buffers", sizeof *plan->buffers, &plan->buffers),
                *touched = list_of(json, "effects", sizeof *plan->effects, &plan->effects);
    cJSON_ArrayForEach(item, ops) read_op(&plan->ops[plan->count++], item);
    cJSON_ArrayForEach(item, buffers) plan->buffers[plan->buffer_count++] =
        (struct plan_buffer){(int)at(item, 2), (int)at(item, 5), (int64_t)at(item, 6)};
    cJSON_ArrayForEach(item, touched) plan->effects[effects++] = item->valueint;
    cJSON_Delete(json);
}

static struct plan *plan_numbered(uint32_t number)
{
    for (int i = plan_count - 1; i >= 0 && i >= plan_count - PLANS; i--)
        if (plans[i % PLANS].number == number) return &plans[i % PLANS];
    return NULL;
}

static struct forecast *forecast_of(uint32_t schedule)
{
    return &forecasts[schedule % (PLANS * 4)];
}

static void read_predicted(const struct trace_of_predicted *from)
{
    struct forecast *forecast = forecast_of(from->schedule);
    if (from->category == ALL_CATEGORIES) {
        forecast->peak[from->tier] = from->peak_bytes;
        forecast->resting[from->tier] = from->resting_bytes;
    } else {
        forecast->memory[from->tier][from->category] = from->peak_bytes;
        forecast->at_peak[from->tier][from->category] = from->at_peak_bytes;
    }
}

static void read_theory(const struct trace_of_theory *from)
{
    struct forecast *forecast = forecast_of(from->schedule);
    forecast->sent[from->traffic] += (double)from->sent_bytes;
    if (from->theory_bytes) forecast->theory = (double)from->theory_bytes;
}

/* ---- memory ---- */

static uint64_t sum_of(const uint64_t bytes[CATEGORIES])
{
    uint64_t sum = 0;
    for (int c = 0; c < CATEGORIES; c++) sum += bytes[c];
    return sum;
}

static void note_fullest(int rank, int tier)
{
    if (!in_step[rank] || sum_of(live[rank][tier]) <= fullest_sum[rank][tier]) return;
    fullest_sum[rank][tier] = sum_of(live[rank][tier]);
    memcpy(fullest[rank][tier], live[rank][tier], sizeof fullest[rank][tier]);
}

static void read_memory(int rank, const struct trace_of_memory *from)
{
    live[rank][from->tier][from->category] = from->live_bytes;
    peak[rank][from->tier][from->category] = from->peak_bytes;
    reserved[rank][from->tier][from->category] = from->reserved_bytes;
    has_memory[rank][from->tier][from->category] = true;
    note_fullest(rank, from->tier);
}

/* ---- the model ---- */

static double parameters; /* of the model */
static int node_ranks;    /* 0: there is one node */

static void read_run(const struct trace_of_run *from)
{
    cJSON *json = cJSON_ParseWithLength(from->json.at, from->json.bytes);
    const cJSON *count = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "model"), "parameters");
    if (cJSON_IsNumber(count)) parameters = count->valuedouble;
    node_ranks = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(json, "ranks_per_node"));
    cJSON_Delete(json);
}

/* ---- steps ---- */

/* A step taken again counts from its new beginning. */
static void begin_step(int rank, uint32_t step)
{
    size_t kept = 0;
    for (size_t i = 0; i < done_count; i++)
        if (done[i].rank != rank || done[i].step != step) done[kept++] = done[i];
    done_count = kept;
    if (step != wanted) return;
    in_step[rank] = true;
    ended[rank] = false;
    memset(begun[rank], 0, sizeof begun[rank]);
    memset(fullest_sum[rank], 0, sizeof fullest_sum[rank]);
    memset(busy_ns[rank], 0, sizeof busy_ns[rank]);
    for (int tier = 0; tier < TIERS; tier++) note_fullest(rank, tier);
}

static void end_step(int rank, const struct trace_of_step_end *from)
{
    if (from->step < STEPS) {
        struct step *step = &steps[from->step];
        uint64_t longest_ns = step->known && step->total_ns > from->total_ns ? step->total_ns : from->total_ns;
        *step = (struct step){true, from->schedule, from->tokens, from->skipped, longest_ns, step->ended + 1};
    }
    if (from->step != wanted) return;
    in_step[rank] = false;
    ended[rank] = true;
    step_end[rank] = *from;
    memcpy(live_then[rank], live[rank], sizeof live_then[rank]);
    memcpy(peak_then[rank], peak[rank], sizeof peak_then[rank]);
}

static void begin_op(int rank, const struct trace_of_op_begin *from)
{
    const struct plan *plan = plan_numbered(from->schedule);
    if (plan && plan->purpose == 0 && from->step == wanted && from->op < sizeof begun[rank]) begun[rank][from->op] = true;
}

static void end_op(int rank, const struct trace_record *record)
{
    const struct plan *plan = plan_numbered(record->op_end.schedule);
    if (!plan || plan->purpose != 0 || record->op_end.op >= (uint32_t)plan->count) return;
    if (done_count == done_room) {
        done_room = done_room ? 2 * done_room : 4096;
        done = realloc(done, done_room * sizeof *done);
        if (!done) abort();
    }
    done[done_count++] = (struct done){rank, (int)record->op_end.op, record->op_end.step, plan, record->op_end, record->time_ns};
    come |= rank == 0 && record->op_end.step == wanted && record->op_end.op == wanted_op;
}

/* False: what was asked for is behind. What an operation gives back is said just after its end. */
static bool read_record(const struct trace_record *record)
{
    int rank = record->rank;
    if (come && (rank != 0 || record->kind != TRACE_MEMORY)) return false;
    if (record->kind == TRACE_RUN) read_run(&record->run);
    if (record->kind == TRACE_SCHEDULE) read_plan(&record->schedule);
    if (record->kind == TRACE_PREDICTED) read_predicted(&record->predicted);
    if (record->kind == TRACE_THEORY) read_theory(&record->theory);
    if (rank >= RANKS) return true;
    if (rank >= ranks) ranks = rank + 1;
    switch (record->kind) {
    case TRACE_STEP_BEGIN:
        if (record->step_begin.step > wanted) return false;
        begin_step(rank, record->step_begin.step);
        break;
    case TRACE_STEP_END: end_step(rank, &record->step_end); break;
    case TRACE_OP_BEGIN: begin_op(rank, &record->op_begin); break;
    case TRACE_OP_END: end_op(rank, record); break;
    case TRACE_MEMORY: read_memory(rank, &record->memory); break;
    case TRACE_TIER_PEAK: tier_peak[rank][record->tier_peak.tier] = record->tier_peak.peak_bytes; break;
    case TRACE_TENANT: at_peak[rank][record->tenant.tier][record->tenant.category] = record->tenant.bytes; break;
    case TRACE_TRAFFIC:
        if (record->traffic.step == wanted) busy_ns[rank][record->traffic.traffic] += record->traffic.busy_ns;
        break;
    default: break;
    }
    return true;
}
