/* Operations: an open span when one begins, completed when it ends. A lane runs its operations in order, so its spans
 * are sorted by time, which every query relies on; a span that would break it is dropped, its time unknown. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/order.h"
#include "engine/observe/history_parts.h"

enum { SPANS_SHARE = 2, SPANS_LEAST = 64 }; /* half of all bytes */

static const struct run_schedule *schedule_of(struct history *history, const struct run_model *model, uint32_t number)
{
    if (history->schedule < model->schedule_count && model->schedules[history->schedule].number == number)
        return &model->schedules[history->schedule];
    const struct run_schedule *found = run_schedule_numbered(model, number);
    if (found) history->schedule = (int)(found - model->schedules);
    return found;
}

uint64_t history_spans_from(const struct history_lane *lane)
{
    if (lane->spans.first == 0) return 0;
    const struct span *oldest = ring_at(&lane->spans, lane->spans.first);
    return oldest ? oldest->issued_ns : UINT64_MAX;
}

static struct span *push(struct history *history, struct history_lane *lane, enum lane which, int ranks)
{
    if (!lane->spans.item_bytes) {
        /* The lanes of a run make 16; a trace of another program may ask for more, and `left` bounds it. */
        static const int sixteenths[LANES] = {[LANE_COMPUTE] = 6, [LANE_COMM] = 5, [LANE_D2H] = 1, [LANE_H2D] = 1, [LANE_HOST] = 1,
                                              [LANE_NVME_READ] = 1, [LANE_NVME_WRITE] = 1, [LANE_COMPUTE_2] = 1, [LANE_COMM_2] = 3,
                                              [LANE_COMM_3] = 1, [LANE_HOST_2] = 1};
        int64_t share =
            (int64_t)(history->bytes / SPANS_SHARE / sizeof(struct span)) / (ranks ? ranks : 1) * sixteenths[which] / 16;
        ring_init(&lane->spans, sizeof(struct span), share > SPANS_LEAST ? share : SPANS_LEAST);
    }
    int64_t first = lane->spans.first;
    struct span *span = ring_push(&lane->spans, &history->left);
    if (!span || lane->spans.first != first) history_dropped_before(history, span ? history_spans_from(lane) : UINT64_MAX);
    return span;
}

static struct span *open_span(const struct history_lane *lane)
{
    struct span *newest = ring_newest(&lane->spans);
    return newest && !newest->ended_ns ? newest : NULL;
}

/* Drops the open span, whose end was lost, and records a gap. */
static void forget_open(struct history *history, uint16_t rank, struct history_lane *lane, uint64_t until_ns)
{
    const struct span *span = open_span(lane);
    if (!span) return;
    history_gap_add(history, rank, span->started_ns, until_ns);
    lane->spans.count--;
}

static void describe(struct span *span, const struct run_schedule *schedule, const struct op *op)
{
    span->purpose = schedule->purpose;
    span->kind = op->kind;
    span->use = op->use;
    span->phase = op->phase;
    span->unit = op->unit;
    span->bucket = op->bucket;
    span->micro_step = op->micro_step;
    span->prefetch = op->prefetch;
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

void history_op_begin(struct history *history, struct history_rank *rank, const struct run_model *model,
                   const struct trace_record *record)
{
    const struct trace_of_op_begin *from = &record->op_begin;
    const struct run_schedule *schedule = schedule_of(history, model, from->schedule);
    const struct op *op = run_op(schedule, from->op);
    if (!op || record->time_ns < rank->lane[op->lane].ended_ns) return;
    struct history_lane *lane = &rank->lane[op->lane];
    forget_open(history, record->rank, lane, record->time_ns);
    struct span *span = push(history, lane, op->lane, model->ranks);
    if (!span) return;
    *span = (struct span){.issued_ns = within(from->issued_ns, lane->ended_ns, record->time_ns),
                          .started_ns = record->time_ns,
                          .schedule = from->schedule,
                          .step = from->step,
                          .op = from->op,
                          .waited_on = -1};
    describe(span, schedule, op);
}

/* The span that this record ends; one whose beginning was lost is made now. NULL: it cannot be placed. */
static struct span *ending(struct history *history, struct history_lane *lane, enum lane which, int ranks,
                           const struct trace_record *record)
{
    const struct trace_of_op_end *from = &record->op_end;
    struct span *span = open_span(lane);
    if (span && span->schedule == from->schedule && span->step == from->step && span->op == from->op)
        return record->time_ns >= span->started_ns ? span : NULL;
    if (from->started_ns < lane->ended_ns || from->started_ns > record->time_ns) return NULL;
    forget_open(history, record->rank, lane, from->started_ns);
    span = push(history, lane, which, ranks);
    if (span)
        *span = (struct span){
            .started_ns = from->started_ns, .schedule = from->schedule, .step = from->step, .op = from->op};
    return span;
}

void history_op_end(struct history *history, struct history_rank *rank, const struct run_model *model,
                 const struct trace_record *record)
{
    const struct trace_of_op_end *from = &record->op_end;
    const struct run_schedule *schedule = schedule_of(history, model, from->schedule);
    const struct op *op = run_op(schedule, from->op);
    if (!op) {
        history_gap_add(history, record->rank, from->started_ns, record->time_ns);
        return;
    }
    struct history_lane *lane = &rank->lane[op->lane];
    struct span *span = ending(history, lane, op->lane, model->ranks, record);
    if (!span) return;
    span->issued_ns = within(from->issued_ns, lane->ended_ns, span->started_ns);
    span->ready_ns = within(from->ready_ns, span->issued_ns, span->started_ns);
    span->ended_ns = lane->ended_ns = record->time_ns;
    span->peers_ns = within(from->peers_ns, 0, span->ended_ns - span->started_ns);
    span->paced_ns = from->paced_ns;
    span->sent_bytes = from->sent_bytes;
    span->waited_on = from->waited_on >= 0 && from->waited_on < schedule->ops.op_count ? (int32_t)from->waited_on : -1;
    describe(span, schedule, op);
    span->stall = stall_before(schedule, span).why;
    sums_span(history, rank, op->lane, model->ranks, span);
}

/* At most one IO record per span. A record that cannot be kept is unknown. */
void history_io_add(struct history *history, struct history_rank *rank, const struct run_model *model,
                 const struct trace_record *record)
{
    const struct trace_of_io *from = &record->io;
    const struct op *op = run_op(schedule_of(history, model, from->schedule), from->op);
    if (!op || !op_swaps(op->kind)) return;
    struct history_lane *lane = &rank->lane[op->lane];
    if (!lane->io.item_bytes)
        ring_init(&lane->io, sizeof(struct history_io_at),
                  lane->spans.most > SPANS_LEAST ? lane->spans.most : SPANS_LEAST);
    const struct history_io_at *newest = ring_newest(&lane->io);
    if (newest && record->time_ns < newest->time_ns) return; /* questions rely on their order */
    struct history_io_at *at = ring_push(&lane->io, &history->left);
    if (!at) return;
    *at = (struct history_io_at){record->time_ns, *from};
}

/* ---- questions ---- */

static const struct history_lane *lane_at(const struct history *history, int rank, enum lane lane)
{
    const struct history_rank *at = history_rank_at(history, rank);
    return at && lane < LANES ? &at->lane[lane] : NULL;
}

void history_spans(const struct history *history, int rank, enum lane lane, uint64_t from_ns, uint64_t to_ns, int64_t *first,
                int64_t *end)
{
    const struct history_lane *at = lane_at(history, rank, lane);
    *first = *end = 0;
    if (!at) return;
    struct ring ended = at->spans;
    ended.count -= open_span(at) != NULL;
    *first = ring_find(&ended, offsetof(struct span, ended_ns), from_ns + (from_ns < UINT64_MAX));
    *end = ring_find(&at->spans, offsetof(struct span, started_ns), to_ns);
    if (*end < *first) *end = *first;
}

const struct span *history_span(const struct history *history, int rank, enum lane lane, int64_t number)
{
    const struct history_lane *at = lane_at(history, rank, lane);
    return at ? ring_at(&at->spans, number) : NULL;
}

int64_t history_span_of(const struct history *history, int rank, enum lane lane, uint32_t step, uint32_t op)
{
    const struct history_lane *at = lane_at(history, rank, lane);
    if (!at) return -1;
    int64_t low = at->spans.first, high = ring_end(&at->spans);
    while (low < high) { /* the first of a later step */
        int64_t middle = low + (high - low) / 2;
        if (((const struct span *)ring_item(&at->spans, middle))->step <= step) low = middle + 1;
        else high = middle;
    }
    for (int64_t number = low - 1; number >= at->spans.first; number--) {
        const struct span *span = ring_item(&at->spans, number);
        if (span->step != step) break;
        if (span->op == op && span->purpose == PURPOSE_TRAIN) return number;
    }
    return -1;
}

bool history_io(const struct history *history, int rank, enum lane lane, const struct span *span, struct trace_of_io *out)
{
    const struct history_lane *at = lane_at(history, rank, lane);
    if (!at || !at->io.count) return false;
    int64_t number = ring_find(&at->io, offsetof(struct history_io_at, time_ns), span->started_ns);
    for (const struct history_io_at *found; (found = ring_at(&at->io, number)); number++) {
        if (span->ended_ns && found->time_ns > span->ended_ns) return false;
        *out = found->io;
        if (out->step == span->step && out->op == span->op) return true;
    }
    return false;
}

/* ---- moments ---- */

/* The operations that have begun on some ranks of a step, from number first_op on. */
struct moments {
    const struct history *history;
    const struct history_step *step;
    uint64_t until_ns,
        *times; /* times[2 * (op - first_op)]: the earliest begin, behind it the latest end; UINT64_MAX: one has not ended */
    int64_t newest_op, first_op, ops;
};

static void find_newest(struct moments *of, int rank)
{
    for (enum lane lane = 0; lane < LANES; lane++) {
        int64_t first, end;
        history_spans(of->history, rank, lane, of->step->begun_ns, of->until_ns + 1, &first, &end);
        const struct span *span = end > first ? history_span(of->history, rank, lane, end - 1) : NULL;
        if (span && span->step == of->step->step && span->op > of->newest_op) of->newest_op = span->op;
    }
}

static void add_moments(struct moments *of, int rank)
{
    for (enum lane lane = 0; lane < LANES; lane++) {
        int64_t first, end;
        history_spans(of->history, rank, lane, of->step->begun_ns, of->until_ns + 1, &first, &end);
        for (int64_t number = first; number < end; number++) {
            const struct span *span = history_span(of->history, rank, lane, number);
            if (!span || span->step != of->step->step || span->op < of->first_op || span->op >= of->first_op + of->ops)
                continue;
            uint64_t *at = &of->times[2 * (span->op - of->first_op)],
                     ended_ns = span->ended_ns ? span->ended_ns : UINT64_MAX;
            if (!at[0] || span->started_ns < at[0]) at[0] = span->started_ns;
            if (ended_ns > at[1]) at[1] = ended_ns;
        }
    }
}

int history_moments(const struct history *history, int rank, const struct history_step *step, uint64_t until_ns,
                    uint64_t times[], int room)
{
    struct moments of = {history, step, until_ns, times, .newest_op = -1, .ops = room / 2};
    const int from = rank < 0 ? 0 : rank,
              end = rank < 0 ? history_ranks(history, step->begun_ns, UINT64_MAX) : rank + 1;
    int found = 0, count = 0;
    memset(times, 0, (size_t)room * sizeof *times);
    for (int r = from; r < end; r++) find_newest(&of, r);
    if (of.newest_op >= of.ops) of.first_op = of.newest_op - of.ops + 1;
    for (int r = from; r < end; r++) add_moments(&of, r);
    for (int i = 0; i < room; i++)
        if (times[i] && times[i] <= until_ns) times[found++] = times[i];
    qsort(times, (size_t)found, sizeof *times, ascending_u64);
    for (int i = 0; i < found; i++)
        if (!count || times[i] != times[count - 1]) times[count++] = times[i];
    return count;
}
