/* Keys of the timeline: the window (zoom, pan, fit, centre), the chosen operation (arrows), the open span. */
#include <string.h>

#include "tui/timeline/timeline.h"

static const struct span *span_of(const struct history *history, const struct selection *selected)
{
    return span_of_op(history, selected->rank, selected->lane, selected->step,
                      selected->known ? (int)selected->op : -1);
}

const struct span *timeline_selected(const struct scene *scene)
{
    const struct span *span = span_of(scene->history, &scene->state->selected);
    struct window window = timeline_window(scene);
    const bool shown = span && span->started_ns < window.to_ns && span_end(scene, span) > window.from_ns;
    return shown ? span : NULL;
}

static uint64_t middle(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns + (to_ns - from_ns) / 2;
}

/* What zooming and choosing start from: the chosen operation, the cursor if it can be seen, the middle. */
static uint64_t focus_time(const struct scene *scene, const struct window *window)
{
    const struct span *span = timeline_selected(scene);
    const struct view_state *state = scene->state;
    if (span) return middle(span->started_ns, span_end(scene, span));
    if (state->behind && state->cursor_ns >= window->from_ns && state->cursor_ns < window->to_ns)
        return state->cursor_ns;
    return middle(window->from_ns, window->to_ns);
}

static void set_window(struct view_state *state, struct window window)
{
    state->from_ns = window.from_ns;
    state->to_ns = window.to_ns;
}

/* ---- choosing an operation ------------------------------------------------------------------------------------------------ */

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The operation of a lane that is on at time_ns, else the nearest in the window; -1: the window has none. */
static int64_t nearest(const struct scene *scene, int rank, enum lane lane, const struct window *window,
                       uint64_t time_ns)
{
    int64_t first, end, best = -1;
    uint64_t least_ns = UINT64_MAX;
    history_spans(scene->history, rank, lane, window->from_ns, window->to_ns, &first, &end);
    for (int64_t i = first; i < end; i++) {
        const struct span *span = history_span(scene->history, rank, lane, i);
        uint64_t end_ns = span ? span_end(scene, span) : 0, away_ns;
        if (!span) continue;
        away_ns =
            time_ns >= span->started_ns && time_ns < end_ns ? 0 : distance(time_ns, middle(span->started_ns, end_ns));
        if (away_ns >= least_ns) continue;
        least_ns = away_ns;
        best = i;
    }
    return best;
}

/* Where a window has none: the last before it, or the first after it. */
static int64_t beyond(const struct scene *scene, int rank, enum lane lane, const struct window *window, int by)
{
    int64_t first, end;
    if (by < 0) history_spans(scene->history, rank, lane, 0, window->from_ns, &first, &end);
    else history_spans(scene->history, rank, lane, window->to_ns, UINT64_MAX, &first, &end);
    return first == end ? -1 : by < 0 ? end - 1 : first;
}

/* The open span reaches from what it was opened on to what is chosen now. */
static void extend_span(struct view_state *state, uint64_t from_ns, uint64_t to_ns)
{
    if (!state->span.open) return;
    if (!state->span.anchor_to_ns) state->span.anchor_from_ns = from_ns, state->span.anchor_to_ns = to_ns;
    state->span.from_ns = from_ns < state->span.anchor_from_ns ? from_ns : state->span.anchor_from_ns;
    state->span.to_ns = to_ns > state->span.anchor_to_ns ? to_ns : state->span.anchor_to_ns;
}

/* Choosing holds the picture: a live run goes on, but under one's eyes nothing moves any more (Esc follows again). */
static void choose(struct view_state *state, const struct scene *scene, int rank, enum lane lane, int64_t number)
{
    const struct span *span = history_span(scene->history, rank, lane, number);
    struct window window = timeline_window(scene), shown;
    if (!span) return;
    shown = window_showing(window, span->started_ns, span_end(scene, span));
    if (state->live && !state->behind) set_window(state, window);
    if (shown.from_ns != window.from_ns || shown.to_ns != window.to_ns) set_window(state, shown);
    state->selected = (struct selection){true, rank, lane, span->step, span->op};
    state->rank = rank;
    extend_span(state, span->started_ns, span_end(scene, span));
}

void timeline_choose(struct view_state *state, const struct scene *scene, int rank, enum lane lane, uint64_t time_ns)
{
    struct window window = timeline_window(scene);
    int64_t number = nearest(scene, rank, lane, &window, time_ns);
    if (number >= 0) choose(state, scene, rank, lane, number);
}

static bool move_along(struct view_state *state, const struct scene *scene, int by)
{
    struct window window = timeline_window(scene);
    const struct span *span = timeline_selected(scene);
    enum lane lane = state->selected.known ? state->selected.lane : LANE_COMPUTE;
    int64_t number = span ? history_span_of(scene->history, state->selected.rank, lane, span->step, span->op) + by
                          : nearest(scene, state->rank, lane, &window, focus_time(scene, &window));
    if (!span && number < 0) number = beyond(scene, state->rank, lane, &window, by);
    if (number >= 0) choose(state, scene, span ? state->selected.rank : state->rank, lane, number);
    return true;
}

/* To the next lane in which something can be chosen. */
static bool move_across(struct view_state *state, const struct scene *scene, int by)
{
    struct window window = timeline_window(scene);
    uint64_t at_ns = focus_time(scene, &window);
    int rows = history_ranks(scene->history, window.from_ns, window.to_ns) * LANES;
    int row = (state->selected.known ? state->selected.rank : state->rank) * LANES +
              (state->selected.known ? (int)state->selected.lane : 0);
    if (!state->selected.known) return move_along(state, scene, 0);
    for (row += by; row >= 0 && row < rows; row += by < 0 ? -1 : 1) {
        int64_t number = nearest(scene, row / LANES, (enum lane)(row % LANES), &window, at_ns);
        if (number < 0) continue;
        choose(state, scene, row / LANES, (enum lane)(row % LANES), number);
        break;
    }
    return true;
}

/* Another rank, the same lane. */
static bool move_ranks(struct view_state *state, const struct scene *scene, int by)
{
    struct window window = timeline_window(scene);
    int ranks = history_ranks(scene->history, window.from_ns, window.to_ns), rank = state->rank + by;
    rank = rank < 0 ? 0 : rank >= ranks ? ranks - 1 : rank;
    if (rank < 0) return true;
    if (state->selected.known) return move_across(state, scene, (rank - state->selected.rank) * LANES);
    state->rank = rank;
    return true;
}

/* ---- window and span ------------------------------------------------------------------------------------------------------ */

static bool zoom(struct view_state *state, const struct scene *scene, double factor)
{
    struct window window = timeline_window(scene);
    struct window run = window_of_run(history_first_ns(scene->history), shown_now(scene));
    struct window zoomed = window_zoomed(window, factor, focus_time(scene, &window));
    if (zoomed.to_ns - zoomed.from_ns >= run.to_ns - run.from_ns) state->from_ns = 0, state->to_ns = UINT64_MAX;
    else set_window(state, zoomed);
    return true;
}

/* Some of the run stays in sight. */
static bool pan(struct view_state *state, const struct scene *scene, double share)
{
    struct window window = window_panned(timeline_window(scene), share);
    if (window.from_ns < shown_now(scene) && window.to_ns > history_first_ns(scene->history)) set_window(state, window);
    return true;
}

/* All of it; again: back to the step. */
static bool fit(struct view_state *state)
{
    state->from_ns = 0;
    state->to_ns = state->to_ns == UINT64_MAX ? 0 : UINT64_MAX;
    return true;
}

/* In the middle; if it stands there already, over most of the width. */
static bool centre(struct view_state *state, const struct scene *scene)
{
    struct window window = timeline_window(scene);
    const struct span *span = span_of(scene->history, &state->selected);
    uint64_t at_ns = span ? middle(span->started_ns, span_end(scene, span)) : focus_time(scene, &window);
    uint64_t off_ns = distance(at_ns, middle(window.from_ns, window.to_ns)), length_ns = window.to_ns - window.from_ns;
    if (span && off_ns <= length_ns / 64) {
        uint64_t margin_ns = (span_end(scene, span) - span->started_ns) / 4 + WINDOW_LEAST_NS / 2;
        window = (struct window){.from_ns = span->started_ns > margin_ns ? span->started_ns - margin_ns : 0,
                                 .to_ns = span_end(scene, span) + margin_ns};
    } else window = window_centred(window, at_ns);
    set_window(state, window);
    return true;
}

/* Opened on the chosen operation, on the cursor, or on all that is shown. */
static bool toggle_span(struct view_state *state, const struct scene *scene)
{
    struct window window = timeline_window(scene);
    const struct span *span = timeline_selected(scene);
    bool open = !state->span.open;
    memset(&state->span, 0, sizeof state->span);
    if (!open) return true;
    state->span.open = true;
    if (span) extend_span(state, span->started_ns, span_end(scene, span));
    else if (state->behind) extend_span(state, state->cursor_ns, state->cursor_ns + 1);
    else state->span.from_ns = window.from_ns, state->span.to_ns = window.to_ns;
    if (!state->behind) set_window(state, window);
    return true;
}

/* The cursor to the chosen operation: all views show the moment at which it started. */
static bool go_there(struct view_state *state, const struct scene *scene)
{
    const struct span *span = span_of(scene->history, &state->selected);
    if (span) state->cursor_ns = span->started_ns;
    return span != NULL;
}

/* The innermost thing that is open. */
static bool close_one(struct view_state *state)
{
    if (state->span.open) memset(&state->span, 0, sizeof state->span);
    else if (state->selected.known) memset(&state->selected, 0, sizeof state->selected);
    else if (state->to_ns) state->from_ns = state->to_ns = 0;
    else return false;
    return true;
}

bool timeline_act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    bool more = key->argument && strcmp(key->argument, "more") == 0;
    int page = key->argument && strcmp(key->argument, "half") == 0 ? 4 : 8;
    switch (key->action) {
    case ACTION_ZOOM_IN: return zoom(state, scene, more ? 1 / 8.0 : 0.5);
    case ACTION_ZOOM_OUT: return zoom(state, scene, more ? 8 : 2);
    case ACTION_PAN_LEFT: return pan(state, scene, more ? -1 : -0.25);
    case ACTION_PAN_RIGHT: return pan(state, scene, more ? 1 : 0.25);
    case ACTION_FIT: return fit(state);
    case ACTION_CENTRE: return centre(state, scene);
    case ACTION_SPAN: return toggle_span(state, scene);
    case ACTION_LEFT: return move_along(state, scene, -1);
    case ACTION_RIGHT: return move_along(state, scene, 1);
    case ACTION_UP: return move_across(state, scene, -1);
    case ACTION_DOWN: return move_across(state, scene, 1);
    case ACTION_PAGE_UP: return move_ranks(state, scene, -page);
    case ACTION_PAGE_DOWN: return move_ranks(state, scene, page);
    case ACTION_ENTER: return go_there(state, scene);
    case ACTION_CLOSE: return close_one(state);
    default: return false;
    }
}
