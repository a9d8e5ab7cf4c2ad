/* The figures of one step of a trace, counted a second time: truth FILE STEP prints a line "name value" for each. Screens and
 * `zerolab analyze` are held against it, so it shares nothing with them but the reader of traces and the names of kinds, and
 * goes the plain way: it keeps every operation of the step and asks every question of all of them.
 *
 *     step.*            as all ranks reported it; times of the slowest rank
 *     rankR.* mean.*    where the time went, ns; counts of waits
 *     traffic.KIND.*    of a rank: count, payload_bytes, sent_bytes, busy_ns (means over ranks), algbw, busbw (bytes/s)
 *     memory.rankR.TIER.CATEGORY.*  live_bytes when the step had ended, peak_bytes and at_peak_bytes (of the tier's peak) so far,
 *                                   fullest_bytes at the step's fullest instant
 *     memory.rankR.TIER.*           fullest_bytes of the step; peak_bytes so far, by the allocator */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/tier.h"
#include "engine/trace/source.h"

enum { RANKS = 64, PLANS = 64, OPS = 1 << 14, DEPENDENCIES = 8, STILL = -1 };
enum { COMPUTE, COMM, LANE_COUNT };
enum { FORWARD, BACKWARD, OPTIMIZER, PHASE_COUNT };
static const char *const phase_names[] = {"forward", "backward", "optimizer"};

static const struct {
    const char *name;
    int lane;
} kinds[] = {
#define OP(ID, name, lane, phase, help) {name, lane},
#include "engine/plan/ops.def"
#undef OP
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct plan_op {
    int kind, phase, unit, prefetch, flush, waits;
    int64_t bytes;
    int on[DEPENDENCIES], why[DEPENDENCIES];
};
struct plan {
    uint32_t number;
    int purpose, count;
    struct plan_op *ops;
};
struct done {
    int rank, op;
    const struct plan *plan;
    struct trace_of_op_end end;
    uint64_t ended_ns;
};

static struct plan plans[PLANS];
static int plan_count, ranks;
static struct done *done;
static int done_count;
static uint64_t live[RANKS][TIERS][CATEGORIES], peak[RANKS][TIERS][CATEGORIES];
static uint64_t at_peak[RANKS][TIERS][CATEGORIES];
static bool has_memory[RANKS][TIERS][CATEGORIES];

/* Of the step that was asked for. */
static uint32_t wanted;
static bool in_step[RANKS], ended[RANKS];
static struct trace_of_step_end step_end[RANKS];
static uint64_t live_then[RANKS][TIERS][CATEGORIES], peak_then[RANKS][TIERS][CATEGORIES],
    fullest[RANKS][TIERS][CATEGORIES];
static uint64_t fullest_sum[RANKS][TIERS], tier_peak[RANKS][TIERS];

static bool named(int kind, const char *name)
{
    return strcmp(kinds[kind].name, name) == 0;
}

/* ---- plans: the fields of an operation stand in the order in which schedule_io.c writes them ---- */

static double at(const cJSON *array, int place)
{
    const cJSON *item = cJSON_GetArrayItem(array, place);
    return item ? item->valuedouble : STILL;
}

static void read_op(struct plan_op *op, const cJSON *from)
{
    const cJSON *dependencies = cJSON_GetArrayItem(from, 18);
    *op = (struct plan_op){.kind = (int)at(from, 0),
                           .phase = (int)at(from, 1),
                           .unit = (int)at(from, 3),
                           .prefetch = (int)at(from, 7),
                           .flush = (int)at(from, 8),
                           .bytes = (int64_t)at(from, 9)};
    for (int i = 0; i + 1 < cJSON_GetArraySize(dependencies) && op->waits < DEPENDENCIES; i += 2, op->waits++) {
        op->on[op->waits] = (int)at(dependencies, i);
        op->why[op->waits] = (int)at(dependencies, i + 1);
    }
}

static void read_plan(const struct trace_of_schedule *from)
{
    cJSON *json = cJSON_ParseWithLength(from->json.at, from->json.bytes);
    const cJSON *list = cJSON_GetObjectItem(json, "ops"), *item;
    struct plan *plan = &plans[plan_count++ % PLANS];
    free(plan->ops);
    *plan = (struct plan){from->schedule, from->purpose, 0,
                          calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *plan->ops)};
    cJSON_ArrayForEach(item, list) read_op(&plan->ops[plan->count++], item);
    cJSON_Delete(json);
}

static const struct plan *plan_numbered(uint32_t number)
{
    for (int i = plan_count - 1; i >= 0 && i >= plan_count - PLANS; i--)
        if (plans[i % PLANS].number == number) return &plans[i % PLANS];
    return NULL;
}

/* ---- reading ---- */

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
    has_memory[rank][from->tier][from->category] = true;
    note_fullest(rank, from->tier);
}

/* A step taken again counts from its new beginning. */
static void begin_step(int rank)
{
    int kept = 0;
    for (int i = 0; i < done_count; i++)
        if (done[i].rank != rank) done[kept++] = done[i];
    done_count = kept;
    in_step[rank] = true;
    ended[rank] = false;
    memset(fullest_sum[rank], 0, sizeof fullest_sum[rank]);
    for (int tier = 0; tier < TIERS; tier++) note_fullest(rank, tier);
}

static void end_step(int rank, const struct trace_of_step_end *from)
{
    in_step[rank] = false;
    ended[rank] = true;
    step_end[rank] = *from;
    memcpy(live_then[rank], live[rank], sizeof live_then[rank]);
    memcpy(peak_then[rank], peak[rank], sizeof peak_then[rank]);
}

static void read_op_end(int rank, const struct trace_record *record)
{
    const struct plan *plan = plan_numbered(record->op_end.schedule);
    if (!in_step[rank] || !plan || plan->purpose != 0 || record->op_end.op >= (uint32_t)plan->count ||
        done_count == OPS)
        return;
    done[done_count++] = (struct done){rank, (int)record->op_end.op, plan, record->op_end, record->time_ns};
}

/* False: what was asked for is behind. */
static bool read_record(const struct trace_record *record)
{
    int rank = record->rank;
    if (record->kind == TRACE_SCHEDULE) read_plan(&record->schedule);
    if (rank >= RANKS) return true;
    if (rank >= ranks) ranks = rank + 1;
    switch (record->kind) {
    case TRACE_STEP_BEGIN:
        if (record->step_begin.step > wanted) return false;
        if (record->step_begin.step == wanted) begin_step(rank);
        break;
    case TRACE_STEP_END:
        if (record->step_end.step == wanted) end_step(rank, &record->step_end);
        break;
    case TRACE_OP_END: read_op_end(rank, record); break;
    case TRACE_MEMORY: read_memory(rank, &record->memory); break;
    case TRACE_TIER_PEAK: tier_peak[rank][record->tier_peak.tier] = record->tier_peak.peak_bytes; break;
    case TRACE_TENANT: at_peak[rank][record->tenant.tier][record->tenant.category] = record->tenant.bytes; break;
    default: break;
    }
    return true;
}

/* ---- where the time went ---- */

static const struct plan_op *planned(const struct done *op)
{
    return &op->plan->ops[op->op];
}

static bool busy(int rank, int lane, uint64_t from_ns, uint64_t to_ns)
{
    for (int i = 0; i < done_count; i++)
        if (done[i].rank == rank && kinds[planned(&done[i])->kind].lane == lane && done[i].end.started_ns <= from_ns &&
            done[i].ended_ns >= to_ns)
            return true;
    return false;
}

static int by_value(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

struct split {
    double window, compute, communication, overlapped, exposed, idle, phase[PHASE_COUNT];
};

/* Between two neighbouring beginnings or ends nothing changes. */
static struct split split_of(int rank)
{
    struct split split = {0};
    uint64_t *edge = calloc(2 * (size_t)done_count + 1, sizeof *edge);
    int edges = 0;
    for (int i = 0; i < done_count; i++) {
        if (done[i].rank != rank) continue;
        edge[edges++] = done[i].end.started_ns;
        edge[edges++] = done[i].ended_ns;
        if (kinds[planned(&done[i])->kind].lane == COMPUTE)
            split.phase[planned(&done[i])->phase] += (double)(done[i].ended_ns - done[i].end.started_ns);
    }
    qsort(edge, (size_t)edges, sizeof *edge, by_value);
    for (int i = 0; i + 1 < edges; i++) {
        double ns = (double)(edge[i + 1] - edge[i]);
        bool computes = busy(rank, COMPUTE, edge[i], edge[i + 1]),
             communicates = busy(rank, COMM, edge[i], edge[i + 1]);
        split.window += ns;
        split.compute += computes ? ns : 0;
        split.communication += communicates ? ns : 0;
        split.overlapped += computes && communicates ? ns : 0;
        split.exposed += communicates && !computes ? ns : 0;
        split.idle += !computes && !communicates ? ns : 0;
    }
    free(edge);
    return split;
}

static void print_split(const char *who, const struct split *split, double parts)
{
    printf("%s.window_ns %.0f\n%s.compute_ns %.0f\n%s.communication_ns %.0f\n", who, split->window / parts, who,
           split->compute / parts, who, split->communication / parts);
    printf("%s.overlapped_ns %.0f\n%s.exposed_ns %.0f\n%s.idle_ns %.0f\n", who, split->overlapped / parts, who,
           split->exposed / parts, who, split->idle / parts);
    printf("%s.overlap_percent %.1f\n", who,
           split->communication > 0 ? 100 * split->overlapped / split->communication : 0);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        printf("%s.%s_ns %.0f\n", who, phase_names[phase], split->phase[phase] / parts);
}

static void print_splits(void)
{
    struct split sum = {0};
    for (int rank = 0; rank < ranks; rank++) {
        char who[16];
        struct split split = split_of(rank);
        snprintf(who, sizeof who, "rank%d", rank);
        print_split(who, &split, 1);
        double *to = (double *)&sum, *from = (double *)&split;
        for (size_t i = 0; i < sizeof sum / sizeof *to; i++) to[i] += from[i];
    }
    print_split("mean", &sum, ranks);
}

/* ---- waits of the compute lane ---- */

static const char *cause_of(const struct done *op)
{
    const struct plan_op *self = planned(op);
    int64_t on = op->end.waited_on;
    if (on < 0 || on >= op->plan->count) return NULL;
    const struct plan_op *other = &op->plan->ops[on];
    int why = 0; /* data; 1: memory, 2: limit */
    for (int i = 0; i < self->waits; i++)
        if (self->on[i] == on) why = self->why[i];
    bool gather = named(other->kind, "gather");
    if (why == 2 && !(gather && other->unit == self->unit)) return "no_overlap";
    if (gather) return "gather";
    if (named(other->kind, "reduce") || named(other->kind, "allreduce")) return "bucket";
    return named(other->kind, "refresh") ? "refresh" : named(other->kind, "agree") ? "agreement" : "other";
}

static void print_waits(void)
{
    static const char *const causes[] = {"gather", "bucket", "refresh", "no_overlap", "agreement", "other"};
    for (size_t c = 0; c < sizeof causes / sizeof causes[0]; c++) {
        double ns = 0, times = 0;
        for (int i = 0; i < done_count; i++) {
            const char *cause = kinds[planned(&done[i])->kind].lane == COMPUTE ? cause_of(&done[i]) : NULL;
            if (!cause || strcmp(cause, causes[c]) != 0 || done[i].end.ready_ns <= done[i].end.issued_ns) continue;
            ns += (double)(done[i].end.ready_ns - done[i].end.issued_ns);
            times++;
        }
        printf("mean.waited.%s_ns %.0f\nmean.waited.%s_times %.4g\n", causes[c], ns / ranks, causes[c], times / ranks);
    }
    double peers_ns = 0;
    for (int i = 0; i < done_count; i++) peers_ns += (double)done[i].end.peers_ns;
    printf("mean.waited.peers_ns %.0f\n", peers_ns / ranks);
}

/* ---- what moved ---- */

static const struct {
    const char *name, *kind[2];
    double bus;
    int of_ranks;
} collectives[] = {
    {"all_gather", {"gather", "refresh"}, 1, 1},
    {"reduce_scatter", {"reduce", "reduce"}, 1, 1},
    {"all_reduce", {"allreduce", "allreduce"}, 2, 1},
    {"control", {"agree", "agree"}, 1, 0},
};

static void print_collective(int c)
{
    double count = 0, bytes = 0, sent = 0, ns = 0,
           bus = collectives[c].bus * (collectives[c].of_ranks ? (ranks - 1.0) / ranks : 1);
    for (int i = 0; i < done_count; i++) {
        const struct plan_op *op = planned(&done[i]);
        if (!named(op->kind, collectives[c].kind[0]) && !named(op->kind, collectives[c].kind[1])) continue;
        count++;
        bytes += (double)op->bytes;
        sent += (double)done[i].end.sent_bytes;
        ns += (double)(done[i].ended_ns - done[i].end.started_ns);
    }
    printf("traffic.%s.count %.4g\n", collectives[c].name, count / ranks);
    printf("traffic.%s.payload_bytes %.0f\n", collectives[c].name, bytes / ranks);
    printf("traffic.%s.sent_bytes %.0f\n", collectives[c].name, sent / ranks);
    printf("traffic.%s.busy_ns %.0f\n", collectives[c].name, ns / ranks);
    if (ns > 0 && bytes > 0)
        printf("traffic.%s.algbw %.0f\ntraffic.%s.busbw %.0f\n", collectives[c].name, bytes * 1e9 / ns,
               collectives[c].name, bytes * 1e9 / ns * bus);
}

/* Of rank 0: all ranks run the same list. */
static void print_gathers_and_flushes(void)
{
    int gathers = 0, prefetched = 0, units = 0, flushes = 0, full = 0, at_end = 0;
    bool seen[1024] = {false};
    for (int i = 0; i < done_count; i++) {
        const struct plan_op *op = planned(&done[i]);
        if (done[i].rank != 0) continue;
        if (named(op->kind, "gather")) {
            gathers++;
            prefetched += op->prefetch;
            if (op->unit >= 0 && op->unit < 1024 && !seen[op->unit]) seen[op->unit] = true, units++;
        }
        flushes += op->flush != 0;
        full += op->flush == 1;
        at_end += op->flush == 2;
    }
    printf("gathers %d\ngathers.prefetched %d\ngathers.units %d\nflushes %d\nflushes.full %d\nflushes.end_of_backward "
           "%d\n",
           gathers, prefetched, units, flushes, full, at_end);
}

/* ---- the step and its memory ---- */

static void print_step(void)
{
    const struct trace_of_step_end *step = &step_end[0];
    uint64_t total_ns = 0, paused_ns = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (step_end[rank].total_ns > total_ns) total_ns = step_end[rank].total_ns;
        if (step_end[rank].paused_ns > paused_ns) paused_ns = step_end[rank].paused_ns;
    }
    printf("step.number %u\nstep.stage %d\nstep.skipped %d\nstep.loss %.6f\nstep.grad_norm %.6f\n", step->step,
           step->stage, step->skipped, (double)step->loss, (double)step->grad_norm);
    printf("step.learning_rate %g\nstep.tokens %u\nstep.micro_steps %u\n", (double)step->learning_rate, step->tokens,
           step->micro_steps);
    printf("step.total_ns %" PRIu64 "\nstep.paused_ns %" PRIu64 "\nstep.tokens_per_second %.0f\n", total_ns, paused_ns,
           total_ns ? step->tokens * 1e9 / (double)total_ns : 0);
}

static void print_memory(int rank, int tier)
{
    bool any = false;
    for (int c = 0; c < CATEGORIES; c++) {
        if (!has_memory[rank][tier][c]) continue;
        any = true;
        printf("memory.rank%d.%s.%s.live_bytes %" PRIu64 "\n", rank, tier_name(tier), category_name(c),
               live_then[rank][tier][c]);
        printf("memory.rank%d.%s.%s.peak_bytes %" PRIu64 "\n", rank, tier_name(tier), category_name(c),
               peak_then[rank][tier][c]);
        printf("memory.rank%d.%s.%s.at_peak_bytes %" PRIu64 "\n", rank, tier_name(tier), category_name(c),
               at_peak[rank][tier][c]);
        printf("memory.rank%d.%s.%s.fullest_bytes %" PRIu64 "\n", rank, tier_name(tier), category_name(c),
               fullest[rank][tier][c]);
    }
    if (!any) return;
    printf("memory.rank%d.%s.live_bytes %" PRIu64 "\n", rank, tier_name(tier), sum_of(live_then[rank][tier]));
    printf("memory.rank%d.%s.fullest_bytes %" PRIu64 "\n", rank, tier_name(tier), fullest_sum[rank][tier]);
    printf("memory.rank%d.%s.peak_bytes %" PRIu64 "\n", rank, tier_name(tier), tier_peak[rank][tier]);
}

int main(int argc, char **argv)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    if (argc != 3) return fprintf(stderr, "usage: truth FILE STEP\n"), STATUS_USAGE;
    if (source_open_file(&source, argv[1], &err)) return fprintf(stderr, "truth: %s\n", err.text), STATUS_INPUT;
    wanted = (uint32_t)strtoul(argv[2], NULL, 10);
    done = calloc(OPS, sizeof *done);
    while (source_next(source, &record) == SOURCE_RECORD && read_record(&record)) {}
    source_close(source);
    for (int rank = 0; rank < ranks; rank++)
        if (!ended[rank]) return fprintf(stderr, "truth: not every rank ended step %u\n", wanted), STATUS_CHECK;
    print_step();
    print_splits();
    print_waits();
    for (int c = 0; c < (int)(sizeof collectives / sizeof collectives[0]); c++) print_collective(c);
    print_gathers_and_flushes();
    for (int rank = 0; rank < ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++) print_memory(rank, tier);
    for (int i = 0; i < PLANS; i++) free(plans[i].ops);
    free(done);
    return STATUS_OK;
}
