/* Sums of the whole run, kept when details are dropped: per interval, each lane's busy time by kind (enum busy) and its
 * waits by reason, and each tier's fullest instant. All share one grid of intervals; when a run has filled it, pairs of
 * neighbours merge and intervals are twice as long. history_load() takes what it can from the sums (whole intervals),
 * and only the edges of a window from spans: a column of a picture of any width costs about the same. */
#include "engine/observe/history_parts.h"

#include <string.h>

enum { SUMS_SHARE = 4, INTERVALS_MOST = 4096, INTERVALS_LEAST = 256 }; /* a quarter of all bytes */

/* ---- the grid ---- */

static int grid_count(const struct history *history, int ranks)
{
    size_t per_rank = LANES * sizeof(struct lane_sum) + TIERS * sizeof(struct tier_sum);
    size_t fits = history->bytes / SUMS_SHARE / (per_rank * (size_t)(ranks ? ranks : 1));
    int count = INTERVALS_LEAST;
    while (count < INTERVALS_MOST && 2 * (size_t)count <= fits) count *= 2;
    return count;
}

static void merge_lane(struct lane_sum *sums, int count)
{
    for (int i = 0; i < count / 2; i++) {
        const struct lane_sum left = sums[2 * i], right = sums[2 * i + 1];
        for (int kind = 0; kind < BUSY_KINDS; kind++) sums[i].busy[kind] = left.busy[kind] + right.busy[kind];
        for (int why = 0; why < STALLS; why++) sums[i].waited[why] = left.waited[why] + right.waited[why];
    }
    memset(sums + count / 2, 0, (size_t)(count / 2) * sizeof *sums);
}

static void merge_tier(struct history_tier *tier, int count)
{
    for (int i = 0; i < count / 2; i++) {
        const struct tier_sum left = tier->sums[2 * i], right = tier->sums[2 * i + 1];
        tier->sums[i] = right.live_bytes > left.live_bytes || !left.when_ns ? right : left;
    }
    memset(tier->sums + count / 2, 0, (size_t)(count / 2) * sizeof *tier->sums);
    tier->summed /= 2;
}

static void merge_all(struct history *history)
{
    for (int r = 0; r < history->rank_room; r++) {
        struct history_rank *rank = history->ranks[r];
        for (int lane = 0; rank && lane < LANES; lane++)
            if (rank->lane[lane].sums) merge_lane(rank->lane[lane].sums, history->grid.count);
        for (int tier = 0; rank && tier < TIERS; tier++)
            if (rank->tier[tier].sums) merge_tier(&rank->tier[tier], history->grid.count);
    }
    history->grid.shift++;
}

/* Makes the grid reach time_ns. */
static void sums_reach(struct history *history, uint64_t time_ns)
{
    while ((time_ns - history->grid.origin_ns) >> history->grid.shift >= (uint64_t)history->grid.count) merge_all(history);
}

static int sums_place(const struct sum_grid *grid, uint64_t time_ns)
{
    return (int)((time_ns - grid->origin_ns) >> grid->shift);
}

static uint64_t interval_begin(const struct sum_grid *grid, int place)
{
    return grid->origin_ns + ((uint64_t)place << grid->shift);
}

/* End of the interval that contains from_ns, or to_ns if that is earlier; the grid may reach past 64 bits. */
static uint64_t piece_end(const struct sum_grid *grid, int place, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t end_ns = interval_begin(grid, place + 1);
    return end_ns > from_ns && end_ns < to_ns ? end_ns : to_ns;
}

/* ---- adding ---- */

/* Adds [from_ns, to_ns) to one field of the intervals it lies in. */
static void spread(const struct history *history, struct lane_sum *sums, size_t field, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns < history->grid.origin_ns) from_ns = history->grid.origin_ns;
    for (int place = sums_place(&history->grid, from_ns); from_ns < to_ns; place++) {
        uint64_t end_ns = piece_end(&history->grid, place, from_ns, to_ns);
        *(float *)((char *)&sums[place] + field) += (float)(end_ns - from_ns);
        from_ns = end_ns;
    }
}

static size_t waited_field(enum stall why)
{
    return offsetof(struct lane_sum, waited) + (size_t)why * sizeof(float);
}

enum busy busy_of_op(enum op_kind kind, enum phase phase, bool prefetch)
{
    static const enum busy of_kind[OP_KINDS] = {
        [OP_SECONDARY] = BUSY_SECONDARY,   [OP_QUANTIZE] = BUSY_QUANTIZE,             [OP_DEQUANTIZE] = BUSY_DEQUANTIZE,
        [OP_GATHER] = BUSY_GATHER,         [OP_REDUCE_SCATTER] = BUSY_REDUCE_SCATTER, [OP_ALL_REDUCE] = BUSY_ALL_REDUCE,
        [OP_REFRESH] = BUSY_REFRESH,       [OP_AGREE] = BUSY_AGREE,                   [OP_BROADCAST] = BUSY_OTHER,
        [OP_ALL_TO_ALL] = BUSY_OTHER,      [OP_EXCHANGE] = BUSY_OTHER};
    static const enum busy of_lane[LANES] = {[LANE_D2H] = BUSY_D2H, [LANE_H2D] = BUSY_H2D,
                                             [LANE_NVME_READ] = BUSY_NVME_READ, [LANE_NVME_WRITE] = BUSY_NVME_WRITE};
    if (kind == OP_GATHER && prefetch) return BUSY_GATHER_AHEAD;
    if (of_kind[kind]) return of_kind[kind];
    return of_lane[op_lane(kind)] ? of_lane[op_lane(kind)] : (enum busy)phase; /* what computes */
}

static size_t busy_field(const struct span *span)
{
    return offsetof(struct lane_sum, busy) + busy_of_op(span->kind, span->phase, span->prefetch) * sizeof(float);
}

void sums_span(struct history *history, struct history_rank *rank, enum lane lane, int ranks, const struct span *span)
{
    struct lane_sum **sums = &rank->lane[lane].sums;
    if (!history->grid.count) history->grid.count = grid_count(history, ranks);
    if (!*sums) *sums = history_alloc(history, (size_t)history->grid.count * sizeof **sums);
    if (!*sums || span->ended_ns <= history->grid.origin_ns) return;
    sums_reach(history, span->ended_ns);
    spread(history, *sums, busy_field(span), span->started_ns, span->ended_ns);
    if (span->stall != STALL_NONE) spread(history, *sums, waited_field(span->stall), span->issued_ns, span->ready_ns);
    if (span->peers_ns)
        spread(history, *sums, waited_field(STALL_PEERS), span->started_ns, span->started_ns + span->peers_ns);
}

static void fuller(struct tier_sum *sum, uint64_t live_bytes, uint64_t when_ns)
{
    if (sum->when_ns && sum->live_bytes >= live_bytes) return;
    *sum = (struct tier_sum){live_bytes, when_ns};
}

/* Extends the live bytes before this change into all intervals up to it. */
void sums_hold(struct history *history, struct history_tier *tier, int ranks, uint64_t time_ns, uint64_t live_bytes)
{
    if (!history->grid.count) history->grid.count = grid_count(history, ranks);
    if (!tier->sums) tier->sums = history_alloc(history, (size_t)history->grid.count * sizeof *tier->sums);
    if (!tier->sums || time_ns < history->grid.origin_ns) return;
    sums_reach(history, time_ns);
    int place = sums_place(&history->grid, time_ns);
    for (; tier->summed < place && tier->has_before; tier->summed++)
        fuller(&tier->sums[tier->summed + 1], tier->before_bytes, interval_begin(&history->grid, tier->summed + 1));
    tier->summed = place;
    tier->has_before = true;
    tier->before_bytes = live_bytes;
    fuller(&tier->sums[place], live_bytes, time_ns);
}

/* ---- asking ---- */

struct tier_sum sums_fullest(const struct history *history, const struct history_tier *tier, uint64_t from_ns, uint64_t to_ns)
{
    struct tier_sum best = {0};
    if (!tier->sums || to_ns <= history->grid.origin_ns) return best;
    if (from_ns < history->grid.origin_ns) from_ns = history->grid.origin_ns;
    for (int place = sums_place(&history->grid, from_ns); place <= tier->summed; place++) {
        if (interval_begin(&history->grid, place) >= to_ns) return best;
        if (tier->sums[place].when_ns) fuller(&best, tier->sums[place].live_bytes, tier->sums[place].when_ns);
    }
    if (tier->has_before) fuller(&best, tier->before_bytes, from_ns);
    return best;
}

static void add_sums(struct history_load *load, const struct lane_sum *sum, double share)
{
    for (int kind = 0; kind < BUSY_KINDS; kind++) load->busy_ns[kind] += (uint64_t)((double)sum->busy[kind] * share + 0.5);
    for (int why = 0; why < STALLS; why++) load->waited_ns[why] += (uint64_t)((double)sum->waited[why] * share + 0.5);
}

static uint64_t overlap(uint64_t from_ns, uint64_t to_ns, uint64_t low_ns, uint64_t high_ns)
{
    if (from_ns < low_ns) from_ns = low_ns;
    if (to_ns > high_ns) to_ns = high_ns;
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static void add_span(struct history_load *load, const struct span *span, uint64_t from_ns, uint64_t to_ns)
{
    load->busy_ns[busy_of_op(span->kind, span->phase, span->prefetch)] +=
        overlap(span->started_ns, span->ended_ns ? span->ended_ns : to_ns, from_ns, to_ns);
    if (span->stall != STALL_NONE)
        load->waited_ns[span->stall] += overlap(span->issued_ns, span->ready_ns, from_ns, to_ns);
    load->waited_ns[STALL_PEERS] += overlap(span->started_ns, span->started_ns + span->peers_ns, from_ns, to_ns);
}

/* The operation after the window may have waited within it. */
static void load_spans(const struct history *history, int rank, enum lane lane, uint64_t from_ns, uint64_t to_ns,
                       struct history_load *load)
{
    int64_t first, end;
    history_spans(history, rank, lane, from_ns, to_ns, &first, &end);
    for (int64_t number = first; number <= end; number++) {
        const struct span *span = history_span(history, rank, lane, number);
        if (span && span->ended_ns) add_span(load, span, from_ns, to_ns);
    }
}

void history_load(const struct history *history, int rank, enum lane lane, uint64_t from_ns, uint64_t to_ns,
               struct history_load *load)
{
    const struct history_rank *of = history_rank_at(history, rank);
    const struct history_lane *at = of ? &of->lane[lane] : NULL;
    memset(load, 0, sizeof *load);
    load->unknown = !at || !at->sums || from_ns >= history->last_ns || to_ns <= history->first_ns ||
                    history_has_gap(history, rank, from_ns, to_ns);
    if (!at) return;
    const struct span *newest = ring_newest(&at->spans);
    const uint64_t now_ns = to_ns < history->last_ns ? to_ns : history->last_ns;
    if (newest && !newest->ended_ns) add_span(load, newest, from_ns, now_ns);
    if (to_ns > at->ended_ns) to_ns = at->ended_ns;
    if (from_ns < history->grid.origin_ns) from_ns = history->grid.origin_ns;
    const uint64_t width_ns = (uint64_t)1 << history->grid.shift, spans_from_ns = history_spans_from(at);
    while (from_ns < to_ns && at->sums) {
        int place = sums_place(&history->grid, from_ns);
        uint64_t until_ns = piece_end(&history->grid, place, from_ns, to_ns);
        bool whole = until_ns - from_ns == width_ns;
        if (whole || from_ns < spans_from_ns)
            add_sums(load, &at->sums[place], whole ? 1 : (double)(until_ns - from_ns) / (double)width_ns);
        else load_spans(history, rank, lane, from_ns, until_ns, load);
        from_ns = until_ns;
    }
}
