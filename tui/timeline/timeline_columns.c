/* What each column of a lane shows. A column is an interval of time, and shows what took most of it. If a column has few
 * operations, it is computed from their spans; if many, from the sums that the history keeps of longer intervals. */
#include "engine/observe/progress.h"
#include "tui/timeline/timeline.h"

enum { DENSE = 64 }; /* spans a column, from which on sums are read instead */

uint64_t span_end(const struct scene *scene, const struct span *span)
{
    return span->ended_ns ? span->ended_ns : shown_now(scene);
}

const struct span *span_of_op(const struct history *history, int rank, enum lane lane, uint32_t step, int op)
{
    return op < 0 ? NULL : history_span(history, rank, lane, history_span_of(history, rank, lane, step, (uint32_t)op));
}

/* The dependency of `span` that ended last; -1: not known. */
static int last_met(const struct scene *scene, const struct schedule *schedule, int rank, const struct span *span)
{
    const struct op *op = &schedule->ops[span->op];
    uint64_t latest_ns = 0;
    int found = -1;
    for (int i = 0; i < op->dependency_count; i++) {
        int on = op->dependency[i].op;
        const struct span *met = span_of_op(scene->history, rank, schedule->ops[on].lane, span->step, on);
        if (!met || met->ended_ns <= latest_ns) continue;
        latest_ns = met->ended_ns;
        found = on;
    }
    return found;
}

struct stall_reason timeline_wait(const struct scene *scene, int rank, const struct span *span)
{
    const struct run_schedule *schedule = run_schedule_numbered(scene->model, span->schedule);
    struct span so_far = *span;
    if (!run_op(schedule, span->op)) return (struct stall_reason){.why = STALL_NONE, .op = -1};
    if (!span->ended_ns) {
        so_far.ready_ns = span->started_ns;
        so_far.waited_on = last_met(scene, &schedule->ops, rank, span);
    }
    return stall_before(schedule, &so_far);
}

struct stall_reason timeline_pending(const struct scene *scene, int rank, enum lane lane, uint64_t *since_ns)
{
    struct stall_reason none = {.why = STALL_NONE, .op = -1};
    struct progress at = progress_of(scene->model, rank);
    int next = at.plan && at.open && !scene->state->behind ? progress_next(&at, lane) : -1, last;
    const struct dependency *awaited = next >= 0 ? progress_wait(&at, next) : NULL;
    if (!awaited || progress_running(&at, lane) >= 0) return none;
    for (last = next - 1; last >= 0 && at.plan->ops.ops[last].lane != lane; last--) {}
    const struct span *before = span_of_op(scene->history, rank, lane, at.step, last);
    const struct history_step *step = history_step_numbered(scene->history, at.step);
    if (last >= 0 ? !before : !step) return none;
    *since_ns = last >= 0 ? before->ended_ns : step->begun_ns;
    struct span waiting = {
        .issued_ns = *since_ns, .ready_ns = shown_now(scene), .op = (uint32_t)next, .waited_on = awaited->op};
    return stall_before(at.plan, &waiting);
}

/* ---- one column ------------------------------------------------------------------------------------------------------ */

/* A column has few marks; mark[m] is valid once bit m of `seen` is set. */
struct shares {
    uint64_t seen; /* bit per mark */
    struct share {
        uint64_t ns, texture_ns[TEXTURES], most_ns;
        int64_t span; /* that gave most_ns */
    } mark[MARKS];
};
_Static_assert(MARKS <= 64, "a bit for each mark");

static struct share *share_of(struct shares *shares, enum mark mark)
{
    struct share *share = &shares->mark[mark];
    if (!(shares->seen >> mark & 1)) *share = (struct share){.span = -1};
    shares->seen |= UINT64_C(1) << mark;
    return share;
}

static uint64_t common(uint64_t from_ns, uint64_t to_ns, const struct window *cell)
{
    if (from_ns < cell->from_ns) from_ns = cell->from_ns;
    if (to_ns > cell->to_ns) to_ns = cell->to_ns;
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static struct share *add_share(struct shares *shares, enum mark mark, uint64_t ns, int64_t span)
{
    struct share *share = share_of(shares, mark);
    share->ns += ns;
    if (ns > share->most_ns) share->most_ns = ns, share->span = span;
    return share;
}

/* While one steps, an operation that had not ended at the cursor lasts to the next moment. */
static uint64_t end_in(const struct window *window, const struct scene *scene, const struct span *span)
{
    if (!window->by_moments) return span_end(scene, span);
    return span->ended_ns && span->ended_ns <= window->at_ns ? span->ended_ns : window->at_ns + WINDOW_LEAST_NS;
}

/* A record has only the total wait for peers. It is drawn at the start of the box, because most of it is there. */
static void add_span(struct shares *shares, const struct scene *scene, int rank, const struct span *span,
                     int64_t number, const struct window *cell)
{
    enum mark mark = mark_of_op(span->kind, span->phase, span->prefetch);
    if (cell->by_moments && span->started_ns > cell->at_ns) return;
    uint64_t end_ns = end_in(cell, scene, span), peers_ns = span->started_ns + span->peers_ns,
             paced_ns =
                 end_ns - (span->paced_ns < end_ns - span->started_ns ? span->paced_ns : end_ns - span->started_ns);
    uint64_t busy = common(span->started_ns, end_ns, cell);
    if (peers_ns > paced_ns) peers_ns = paced_ns;
    if (busy) {
        struct share *share = add_share(shares, mark, busy, number);
        share->texture_ns[TEXTURE_PEERS] += common(span->started_ns, peers_ns, cell);
        share->texture_ns[TEXTURE_WORK] += common(peers_ns, paced_ns, cell);
        share->texture_ns[TEXTURE_PACED] += common(paced_ns, end_ns, cell);
    }
    uint64_t ready_ns = span->ready_ns ? span->ready_ns : span->started_ns,
             waited = common(span->issued_ns, ready_ns, cell);
    if (!waited) return;
    enum stall why = span->ended_ns ? span->stall : timeline_wait(scene, rank, span).why;
    if (why != STALL_NONE) add_share(shares, MARK_WAIT + (enum mark)why, waited, number);
}

static enum texture most_of(const uint64_t texture_ns[TEXTURES])
{
    enum texture best = TEXTURE_WORK;
    for (enum texture i = 0; i < TEXTURES; i++)
        if (texture_ns[i] > texture_ns[best]) best = i;
    return best;
}

/* While one steps, idling and waiting are the user's time: what was done in a column is shown, however short it was. */
static struct column choose(const struct shares *shares, const struct window *cell)
{
    struct column column = {.mark = MARK_IDLE, .span = -1};
    uint64_t idle_ns = cell->to_ns - cell->from_ns, best_ns;
    for (uint64_t left = shares->seen; left; left &= left - 1) {
        enum mark mark = (enum mark)__builtin_ctzll(left);
        uint64_t ns = shares->mark[mark].ns;
        idle_ns -= ns < idle_ns ? ns : idle_ns;
        if (mark > MARK_UNKNOWN && mark < MARK_WAIT) column.busy_ns += ns;
    }
    best_ns = cell->by_moments ? 0 : idle_ns;
    for (uint64_t left = shares->seen; left; left &= left - 1) {
        enum mark mark = (enum mark)__builtin_ctzll(left);
        const struct share *share = &shares->mark[mark];
        if (share->ns == 0 || share->ns < best_ns || (cell->by_moments && mark >= MARK_WAIT)) continue;
        best_ns = share->ns;
        column.mark = mark;
        column.span = share->span;
        column.texture = most_of(share->texture_ns);
    }
    return column;
}

/* Column after column: where one ends the next begins. */
static void next_cell(struct window *cell, const struct window *window, int columns, int column)
{
    cell->by_moments = window->by_moments;
    cell->at_ns = window->at_ns;
    cell->from_ns = column ? cell->to_ns : window->from_ns;
    cell->to_ns = window_time(window, columns, column + 1);
}

/* ---- from near: spans ------------------------------------------------------------------------------------------------ */

static void columns_of_spans(struct column out[], int columns, const struct scene *scene, int rank, enum lane lane,
                             const struct window *window, int64_t first)
{
    uint64_t since_ns = 0, now_ns = shown_now(scene);
    struct stall_reason pending = timeline_pending(scene, rank, lane, &since_ns);
    struct window cell = {0};
    for (int i = 0; i < columns; i++) {
        next_cell(&cell, window, columns, i);
        struct shares shares;
        const struct span *span;
        shares.seen = 0;
        if (history_has_gap(scene->history, -1, cell.from_ns, cell.to_ns))
            share_of(&shares, MARK_UNKNOWN)->ns = cell.to_ns - cell.from_ns;
        for (int64_t k = first; (span = history_span(scene->history, rank, lane, k)) && span->issued_ns < cell.to_ns; k++) {
            add_span(&shares, scene, rank, span, k, &cell);
            if (end_in(window, scene, span) <= cell.from_ns) first = k;
        }
        if (pending.why != STALL_NONE)
            add_share(&shares, MARK_WAIT + (enum mark)pending.why, common(since_ns, now_ns, &cell), -1);
        out[i] = choose(&shares, &cell);
    }
}

/* ---- from far: sums -------------------------------------------------------------------------------------------------- */

static void columns_of_loads(struct column out[], int columns, const struct scene *scene, int rank, enum lane lane,
                             const struct window *window)
{
    struct window cell = {0};
    for (int i = 0; i < columns; i++) {
        next_cell(&cell, window, columns, i);
        struct shares shares;
        struct history_load load;
        shares.seen = 0;
        history_load(scene->history, rank, lane, cell.from_ns, cell.to_ns, &load);
        if (load.unknown) share_of(&shares, MARK_UNKNOWN)->ns = cell.to_ns - cell.from_ns;
        for (enum busy busy = 0; busy < BUSY_KINDS; busy++)
            add_share(&shares, mark_of_busy(busy), load.busy_ns[busy], -1);
        for (enum stall why = STALL_NONE + 1; why < STALLS; why++)
            if (why != STALL_PEERS) add_share(&shares, MARK_WAIT + (enum mark)why, load.waited_ns[why], -1);
        out[i] = choose(&shares, &cell);
        out[i].span = COLUMN_SUMS;
    }
}

/* Columns before the first or after the newest record are blank, and so are those in which the run had no such rank. */
void timeline_columns(struct column out[], int columns, const struct scene *scene, int rank, enum lane lane,
                      const struct window *window)
{
    const struct history *history = scene->history;
    int64_t first, end;
    history_spans(history, rank, lane, window->from_ns, window->to_ns, &first, &end);
    bool near = window->from_ns >= history_whole_from(history) && end - first <= (int64_t)DENSE * columns;
    if (near) columns_of_spans(out, columns, scene, rank, lane, window, first);
    else columns_of_loads(out, columns, scene, rank, lane, window);
    const uint64_t first_ns = history_first_ns(history),
                   now_ns = window->by_moments ? window->at_ns + WINDOW_LEAST_NS : shown_now(scene);
    struct window cell = {0};
    for (int i = 0; i < columns; i++) {
        next_cell(&cell, window, columns, i);
        if (cell.to_ns <= first_ns || cell.from_ns >= now_ns || rank >= history_ranks(history, cell.from_ns, cell.to_ns))
            out[i] = (struct column){.mark = MARK_IDLE, .span = -1};
    }
}
