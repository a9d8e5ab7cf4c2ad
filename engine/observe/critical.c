#include "engine/observe/totals.h"

struct place {
    int rank;
    const struct span *span;
};

struct walk {
    const struct history *history;
    const struct history_step *step;
    int ranks;
};

/* The operation of a rank that ended last, at until_ns or before. Threads of a host beside its GPU launch what others run: they are on
 * the path only where nothing else is. */
static struct place before(const struct walk *walk, int rank, uint64_t until_ns, bool hosts)
{
    struct place found = {rank, NULL};
    for (enum lane lane = 0; lane < LANES; lane++) {
        int64_t first, end;
        history_spans(walk->history, rank, lane, walk->step->begun_ns, until_ns, &first, &end);
        for (int64_t number = end - 1; number >= first; number--) {
            const struct span *span = history_span(walk->history, rank, lane, number);
            if (!span || !span->ended_ns || span->ended_ns > until_ns || span->step != walk->step->step) continue;
            if ((span->kind == OP_HOST_WORK) != hosts) break;
            if (!found.span || span->ended_ns > found.span->ended_ns) found.span = span;
            break;
        }
    }
    return found;
}

/* The rank that came last to a collective. */
static struct place last_to_come(const struct walk *walk, struct place at)
{
    struct place last = at;
    for (int rank = 0; rank < walk->ranks && at.span->peers_ns; rank++)
        for (enum lane lane = LANE_COMM; lane < LANES; lane++) {
            int64_t first, end;
            if (lane_kind(lane) != LANE_COMM || rank == at.rank) continue;
            history_spans(walk->history, rank, lane, at.span->started_ns, at.span->ended_ns, &first, &end);
            for (int64_t number = first; number < end; number++) {
                const struct span *span = history_span(walk->history, rank, lane, number);
                if (span && span->op == at.span->op && span->step == at.span->step &&
                    span->schedule == at.span->schedule && span->started_ns > last.span->started_ns &&
                    span->started_ns <= at.span->started_ns + at.span->peers_ns)
                    last = (struct place){rank, span};
            }
        }
    return last;
}

static void add(struct critical *out, struct place at, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;
    const enum lane kind = op_lane(at.span->kind);
    if (kind == LANE_HOST) out->host_ns += ns;
    else if (kind == LANE_COMPUTE) out->phase_ns[at.span->phase] += ns;
    else out->traffic_ns[traffic_of_op(at.span->kind)] += ns;
    out->rank_ns[at.rank < CRITICAL_RANKS ? at.rank : CRITICAL_RANKS - 1] += ns;
}

/* Between two operations of a rank: a thread of the host may have been at work. */
static void add_gap(struct critical *out, const struct walk *walk, int rank, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t busy_ns = 0;
    for (uint64_t until_ns = to_ns; until_ns > from_ns;) {
        const struct span *span = before(walk, rank, until_ns, true).span;
        if (!span || span->ended_ns <= from_ns) break;
        busy_ns += span->ended_ns - (span->started_ns > from_ns ? span->started_ns : from_ns);
        until_ns = span->started_ns;
    }
    out->host_ns += busy_ns;
    out->idle_ns += to_ns - from_ns - busy_ns;
}

bool critical_path_of(struct critical *out, const struct history *history, const struct history_step *step)
{
    enum { MOST = 1 << 20 }; /* operations on the path */
    *out = (struct critical){0};
    if (!history_step_is_whole(history, step)) return false;
    const struct walk walk = {history, step, history_ranks(history, step->begun_ns, step->ended_ns)};
    struct place at = {0};
    for (int rank = 0; rank < walk.ranks; rank++) {
        const struct place last = before(&walk, rank, UINT64_MAX, false);
        if (last.span && (!at.span || last.span->ended_ns > at.span->ended_ns)) at = last;
    }
    if (!at.span) return false;
    out->window_ns = at.span->ended_ns - step->begun_ns;
    uint64_t until_ns = at.span->ended_ns;
    for (int count = 0; at.span && count < MOST; count++) {
        const struct place from = last_to_come(&walk, at);
        const uint64_t begun_ns = from.span->started_ns > step->begun_ns ? from.span->started_ns : step->begun_ns;
        out->hops += from.rank != at.rank;
        add(out, at, begun_ns, until_ns);
        until_ns = begun_ns;
        if (until_ns <= step->begun_ns) break;
        at = before(&walk, from.rank, until_ns, false);
        const uint64_t ended_ns = at.span && at.span->ended_ns > step->begun_ns ? at.span->ended_ns : step->begun_ns;
        add_gap(out, &walk, from.rank, ended_ns, until_ns);
        until_ns = ended_ns;
    }
    return true;
}
