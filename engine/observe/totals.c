/* Totals of a window from the spans of a history, in one pass over each lane; then the same for the mean of all ranks. */
#include "engine/observe/totals.h"

#include <stdlib.h>

/* State while one rank's window is summed. */
struct window {
    struct totals *out;
    const struct history *history;
    const struct run_model *model;
    uint32_t step;                                   /* only operations of this step; 0: of any */
    int64_t first[LANES], end[LANES];                /* spans in it */
    struct intervals compute, communication, moving; /* training operations, clipped; lane by lane in order */
};

static const struct span *span_at(const struct window *window, enum lane lane, int64_t number)
{
    const struct span *span = history_span(window->history, window->out->rank, lane, number);
    return span && span->purpose == PURPOSE_TRAIN && span->ended_ns && (!window->step || span->step == window->step) ? span
                                                                                                                    : NULL;
}

static struct interval clipped(const struct totals *totals, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns < totals->from_ns) from_ns = totals->from_ns;
    if (to_ns > totals->to_ns) to_ns = totals->to_ns;
    return (struct interval){from_ns, to_ns > from_ns ? to_ns : from_ns};
}

static uint64_t length(struct interval interval)
{
    return interval.to_ns - interval.from_ns;
}

static bool ends_in(const struct totals *totals, const struct span *span)
{
    return span->ended_ns > totals->from_ns && span->ended_ns <= totals->to_ns;
}

/* ---- waits ---- */

static void add_stall(struct totals *out, enum stall why, uint64_t wait_ns)
{
    if (why == STALL_NONE || wait_ns == 0) return;
    out->stall_ns[why] += wait_ns;
    out->stall_count[why]++;
}

/* The operation after the window may have waited within it. */
static void sum_waits(struct window *window)
{
    struct totals *out = window->out;
    for (enum lane lane = 0; lane < LANES; lane++)
        for (int64_t number = window->first[lane]; number <= window->end[lane]; number++) {
            const struct span *span = span_at(window, lane, number);
            if (!span) continue;
            const uint64_t waited_ns = length(clipped(out, span->issued_ns, span->ready_ns));
            if (lane == LANE_COMPUTE) add_stall(out, span->stall, waited_ns);
            if (lane >= LANE_D2H) out->lane_stall_ns[lane][span->stall] += waited_ns;
            add_stall(out, STALL_PEERS, length(clipped(out, span->started_ns, span->started_ns + span->peers_ns)));
        }
    out->prefetch.stalled_ns = out->stall_ns[STALL_GATHER];
    out->prefetch.stalls = out->stall_count[STALL_GATHER];
}

static uint64_t last_end(struct intervals list)
{
    uint64_t last_ns = 0;
    for (int i = 0; i < list.count; i++)
        if (list.at[i].to_ns > last_ns) last_ns = list.at[i].to_ns;
    return last_ns;
}

/* ---- gathers ---- */

int gather_user(const struct schedule *schedule, uint32_t gather)
{
    for (int op = (int)gather + 1; op < schedule->op_count; op++)
        if (schedule->ops[op].lane == LANE_COMPUTE && schedule->ops[op].unit == schedule->ops[gather].unit) return op;
    return -1;
}

static const struct span *user_of(const struct window *window, const struct span *gather)
{
    const struct run_schedule *schedule = run_schedule_numbered(window->model, gather->schedule);
    int user = schedule && schedule->has_ops ? gather_user(&schedule->ops, gather->op) : -1;
    int64_t number =
        user < 0 ? -1 : history_span_of(window->history, window->out->rank, LANE_COMPUTE, gather->step, (uint32_t)user);
    const struct span *span = history_span(window->history, window->out->rank, LANE_COMPUTE, number);
    return span && span->started_ns >= gather->ended_ns ? span : NULL; /* else: of another attempt */
}

static void add_gather(struct window *window, const struct span *gather, uint64_t busy_ns, uint64_t hidden_ns)
{
    struct prefetch_totals *prefetch = &window->out->prefetch;
    const struct span *user = user_of(window, gather);
    prefetch->gathers++;
    prefetch->prefetched += gather->prefetch;
    prefetch->busy_ns += busy_ns;
    prefetch->hidden_ns += hidden_ns;
    if (!user || user->issued_ns <= gather->ended_ns) return;
    prefetch->early_ns += user->issued_ns - gather->ended_ns;
    prefetch->early_count++;
}

/* ---- lanes ---- */

/* Finds the spans of every lane, and room for all of them in each list: one block, freed with the first list. */
static bool window_open(struct window *window)
{
    struct totals *out = window->out;
    int64_t spans = 0;
    for (enum lane lane = 0; lane < LANES; lane++) {
        history_spans(window->history, out->rank, lane, out->from_ns, out->to_ns, &window->first[lane],
                      &window->end[lane]);
        spans += window->end[lane] - window->first[lane];
    }
    struct interval *room = malloc((size_t)(3 * spans + 1) * sizeof *room);
    if (!room) return false;
    window->compute.at = room;
    window->communication.at = room + spans;
    window->moving.at = room + 2 * spans;
    return true;
}

static void collect(struct window *window, enum lane lane)
{
    for (int64_t number = window->first[lane]; number < window->end[lane]; number++) {
        const struct span *span = span_at(window, lane, number);
        if (!span) continue;
        struct interval busy = clipped(window->out, span->started_ns, span->ended_ns);
        window->out->busy_ns[lane] += length(busy);
        if (span->kind == OP_HOST_WORK) continue; /* HTA counts what runs on the device */
        if (lane_kind(lane) == LANE_COMPUTE && span->kind != OP_COPY) {
            window->compute.at[window->compute.count++] = busy;
            window->out->phase_ns[span->phase] += length(busy);
            continue;
        }
        if (lane_kind(lane) == LANE_COMM) window->communication.at[window->communication.count++] = busy;
        window->moving.at[window->moving.count++] = busy;
    }
}

/* How much of `busy` compute covers. Spans come in order, so *at, the place in compute's intervals, only moves on. */
static uint64_t covered(const struct window *window, struct interval busy, int *at)
{
    const struct interval *compute = window->compute.at;
    uint64_t sum_ns = 0;
    while (*at < window->compute.count && compute[*at].to_ns <= busy.from_ns) ++*at;
    for (int i = *at; i < window->compute.count && compute[i].from_ns < busy.to_ns; i++) {
        uint64_t from_ns = compute[i].from_ns > busy.from_ns ? compute[i].from_ns : busy.from_ns;
        uint64_t to_ns = compute[i].to_ns < busy.to_ns ? compute[i].to_ns : busy.to_ns;
        sum_ns += to_ns - from_ns;
    }
    return sum_ns;
}

double bus_share(enum traffic kind, int ranks)
{
    double part = ranks > 0 ? (double)(ranks - 1) / ranks : 0;
    switch (kind) {
    case TRAFFIC_ALL_GATHER:
    case TRAFFIC_REDUCE_SCATTER:
    case TRAFFIC_ALL_TO_ALL: return part;
    case TRAFFIC_ALL_REDUCE: return 2 * part;
    default: return 1;
    }
}

static void add_collective(struct window *window, const struct span *span, uint64_t busy_ns, uint64_t hidden_ns)
{
    struct collective_totals *sum = &window->out->traffic[traffic_of_op(span->kind)];
    const struct run_schedule *schedule = run_schedule_numbered(window->model, span->schedule);
    sum->busy_ns += busy_ns;
    sum->exposed_ns += busy_ns - hidden_ns;
    if (!ends_in(window->out, span)) return;
    sum->count++;
    if (schedule && schedule->has_ops) {
        const struct op *op = &schedule->ops.ops[span->op];
        const double share = bus_share(traffic_of_op(op->kind), op_ranks(&schedule->ops, op));
        sum->bytes += (uint64_t)op->bytes;
        sum->bus_bytes += (uint64_t)((double)op->bytes * share + 0.5);
    }
    sum->sent_bytes += span->sent_bytes;
    sum->peers_ns += span->peers_ns;
    sum->paced_ns += span->paced_ns;
    if (span->kind == OP_GATHER && span->schedule != TRACE_OBSERVED) add_gather(window, span, busy_ns, hidden_ns);
}

static void add_io(struct window *window, enum lane lane, const struct span *span)
{
    struct collective_totals *sum = &window->out->traffic[traffic_of_op(span->kind)];
    struct io_most *most = &window->out->most[traffic_of_op(span->kind)];
    struct trace_of_io io;
    if (!ends_in(window->out, span) || !history_io(window->history, window->out->rank, lane, span, &io)) return;
    sum->io_bytes += io.bytes;
    sum->requests += io.requests;
    sum->io_ns += io.busy_ns;
    sum->latency_ns += io.latency_ns;
    if (io.longest_ns > most->longest_ns) most->longest_ns = io.longest_ns;
    if (io.deepest > most->deepest) most->deepest = io.deepest;
}

static void sum_moving(struct window *window, enum lane lane)
{
    int at = 0;
    for (int64_t number = window->first[lane]; number < window->end[lane]; number++) {
        const struct span *span = span_at(window, lane, number);
        if (!span) continue;
        const struct interval busy = clipped(window->out, span->started_ns, span->ended_ns);
        if (span->kind == OP_HOST_WORK) continue;
        const uint64_t hidden_ns = covered(window, busy, &at);
        if (lane == LANE_HOST) window->out->host_exposed_ns += length(busy) - hidden_ns;
        else add_collective(window, span, length(busy), hidden_ns);
        if (op_swaps(span->kind)) add_io(window, lane, span);
    }
}

double per_second(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes * 1e9 / (double)ns : 0;
}

/* ---- adding totals up ---- */

void sums_add(void *sum, const void *part, size_t bytes)
{
    uint64_t *into = sum;
    for (size_t i = 0; i < bytes / sizeof *into; i++) into[i] += ((const uint64_t *)part)[i];
}

enum { SUMS_BYTES = sizeof(struct totals) - offsetof(struct totals, temporal) };

void totals_add(struct totals *sum, const struct totals *one)
{
    sums_add(&sum->temporal, &one->temporal, SUMS_BYTES);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct io_most *most = &one->most[kind];
        if (most->longest_ns > sum->most[kind].longest_ns) sum->most[kind].longest_ns = most->longest_ns;
        if (most->deepest > sum->most[kind].deepest) sum->most[kind].deepest = most->deepest;
    }
}

void totals_share(struct totals *sum, uint64_t parts)
{
    uint64_t *values = (uint64_t *)&sum->temporal;
    for (size_t i = 0; i < SUMS_BYTES / sizeof *values; i++) values[i] = (values[i] + parts / 2) / parts;
}

/* ---- one rank, and the mean of all ---- */

/* True: the window has operations of this rank. */
static bool totals_of_rank(struct totals *out, const struct history *history, const struct run_model *model, int rank,
                           uint32_t step)
{
    struct window window = {.out = out, .history = history, .model = model, .step = step};
    out->rank = rank;
    bool opened = window_open(&window);
    if (opened) {
        for (int lane = 0; lane < LANES; lane++) collect(&window, (enum lane)lane);
        sum_waits(&window);
        if (window.end[LANE_COMPUTE_2] > window.first[LANE_COMPUTE_2]) intervals_unite(&window.compute);
        for (int lane = LANE_COMPUTE + 1; lane < LANES; lane++)
            if (lane_kind((enum lane)lane) != LANE_COMPUTE) sum_moving(&window, (enum lane)lane);
        const uint64_t compute_ns = last_end(window.compute), others_ns = last_end(window.moving);
        out->done_ns = compute_ns && others_ns > compute_ns ? others_ns - compute_ns : 0;
        temporal_of(&out->temporal, window.compute, window.communication, window.moving); /* last: it reorders */
    }
    free(window.compute.at);
    return opened && out->temporal.window_ns > 0;
}

void totals_of(struct totals *out, const struct history *history, const struct run_model *model, int rank,
               uint64_t from_ns, uint64_t to_ns, uint32_t step)
{
    const int first = rank < 0 ? 0 : rank, ranks = history_ranks(history, from_ns, to_ns),
              end = rank < 0 ? ranks : rank + 1;
    int seen = rank < 0 ? model->header.missing : 0;
    const int missing = seen;
    *out = (struct totals){.rank = rank < 0 ? -1 : rank, .from_ns = from_ns, .to_ns = to_ns};
    for (int r = first; r < end; r++) {
        struct totals one = {.from_ns = from_ns, .to_ns = to_ns};
        seen += totals_of_rank(&one, history, model, r, step);
        totals_add(out, &one);
    }
    if (seen - missing > 1) totals_share(out, (uint64_t)(seen - missing));
    out->known = seen == end - first && seen > missing && from_ns >= history_whole_from(history) &&
                 !history_has_gap(history, -1, from_ns, to_ns);
}

double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

double prefetch_hidden_share(const struct prefetch_totals *prefetch)
{
    return prefetch->busy_ns ? (double)prefetch->hidden_ns / (double)prefetch->busy_ns : -1;
}

/* ---- one operation of a step on all ranks ---- */

static void add_rank(struct op_times *times, const struct span *span, int rank)
{
    const uint64_t took_ns = span->ended_ns - span->started_ns;
    times->mean_ns += took_ns;
    times->waited_ns += span->ready_ns > span->issued_ns ? span->ready_ns - span->issued_ns : 0;
    times->peers_ns += span->peers_ns;
    times->paced_ns += span->paced_ns;
    if (!times->ranks || took_ns > times->longest_ns) {
        times->longest_ns = took_ns;
        times->slowest = rank;
    }
    if (!times->ranks || span->started_ns < times->first_ns) times->first_ns = span->started_ns;
    if (!times->ranks || span->started_ns > times->last_ns) {
        times->last_ns = span->started_ns;
        times->last_rank = rank;
    }
    times->ranks++;
}

struct op_times op_times_of(const struct history *history, const struct run_schedule *plan, uint32_t step, int op,
                            uint64_t until_ns, int of)
{
    struct op_times times = {0};
    const enum lane lane = plan->ops.ops[op].lane;
    const struct process_group group = schedule_group(&plan->ops, plan->ops.ops[op].group, of < 0 ? 0 : of);
    for (int rank = 0; rank < history_ranks(history, 0, UINT64_MAX); rank++) {
        if (of >= 0 && !group_has(&group, rank)) continue;
        const int64_t number = history_span_of(history, rank, lane, step, (uint32_t)op);
        const struct span *span = number >= 0 ? history_span(history, rank, lane, number) : NULL;
        if (!span || span->schedule != plan->number || !span->ended_ns || span->ended_ns > until_ns) continue;
        add_rank(&times, span, rank);
    }
    if (!times.ranks) return times;
    times.mean_ns /= (uint64_t)times.ranks;
    times.waited_ns /= (uint64_t)times.ranks;
    times.peers_ns /= (uint64_t)times.ranks;
    times.paced_ns /= (uint64_t)times.ranks;
    return times;
}
