/* Chooses the window of time. Until the user zooms or pans it is one step (tui/view/shown.h). A step that is shown while it
 * runs is drawn on the scale of the step before. */
#include "tui/timeline/timeline.h"

enum { FIRST_STEP_NS = 250000000 };

static struct window window_of_step(const struct scene *scene, const struct history_step *step)
{
    const struct history_step *before = shown_whole_at(scene->history, step->begun_ns);
    uint64_t room_ns = before ? before->ended_ns - before->begun_ns : FIRST_STEP_NS, now_ns = shown_now(scene);
    const uint64_t least_ns = step->begun_ns + scene->state->window_least_ns;
    if (step->ended_ns > step->begun_ns)
        return (struct window){step->begun_ns, step->ended_ns > least_ns ? step->ended_ns : least_ns};
    if (room_ns < WINDOW_LEAST_NS) room_ns = WINDOW_LEAST_NS;
    while (step->begun_ns + room_ns < now_ns) room_ns += room_ns / 2;
    return (struct window){step->begun_ns, step->begun_ns + room_ns};
}

/* Of a step that stands between two operations, the newest of them: what lies between them is the user's time. */
static struct window window_of_newest(const struct scene *scene, const struct history_step *step)
{
    uint64_t from_ns = 0, to_ns = 0;
    for (int rank = 0; rank < history_ranks(scene->history, step->begun_ns, UINT64_MAX); rank++)
        for (enum lane lane = 0; lane < LANES; lane++) {
            int64_t first, end;
            history_spans(scene->history, rank, lane, step->begun_ns, UINT64_MAX, &first, &end);
            const struct span *span = end > first ? history_span(scene->history, rank, lane, end - 1) : NULL;
            if (!span || span->started_ns < from_ns) continue;
            from_ns = span->started_ns;
            to_ns = span_end(scene, span);
        }
    if (to_ns <= from_ns) return window_of_step(scene, step);
    uint64_t margin_ns = (to_ns - from_ns) / 2 + WINDOW_LEAST_NS;
    return (struct window){from_ns - margin_ns, to_ns + margin_ns};
}

bool timeline_stands(const struct scene *scene, const struct history_step *step)
{
    return !step->ended_ns && scene->model->state == RUN_PAUSED;
}

struct window timeline_window(const struct scene *scene)
{
    const struct view_state *state = scene->state;
    const struct history_step *step = shown_step(scene);
    uint64_t first_ns = history_first_ns(scene->history), now_ns = shown_now(scene);
    if (state->to_ns == UINT64_MAX) return window_of_run(first_ns, now_ns);
    if (state->to_ns > state->from_ns) return (struct window){state->from_ns, state->to_ns};
    if (!step) return window_of_run(first_ns, now_ns);
    if (timeline_stands(scene, step)) return window_of_newest(scene, step);
    return window_of_step(scene, step);
}

bool timeline_is_own(const struct scene *scene)
{
    return scene->state->to_ns > scene->state->from_ns;
}

const struct history_step *timeline_step(const struct scene *scene)
{
    const struct view_state *state = scene->state;
    if (!timeline_is_own(scene) || state->to_ns == UINT64_MAX) return shown_step(scene);
    return history_step_at(scene->history, state->from_ns + (state->to_ns - state->from_ns) / 2);
}

/* ---- the maths of windows ------------------------------------------------------------------------------------------- */

uint64_t window_time(const struct window *window, int columns, int column)
{
    uint64_t length_ns = window->to_ns - window->from_ns, parts = (uint64_t)columns;
    uint64_t whole = length_ns / parts, rest = length_ns % parts;
    return window->from_ns + whole * (uint64_t)column + (rest * (uint64_t)column + parts - 1) / parts;
}

int window_column(const struct window *window, int columns, uint64_t time_ns)
{
    if (time_ns < window->from_ns) return -1;
    if (time_ns >= window->to_ns) return columns;
    double share = (double)(time_ns - window->from_ns) / (double)(window->to_ns - window->from_ns);
    int column = (int)(share * columns);
    if (column > 0 && time_ns < window_time(window, columns, column)) column--;
    if (column + 1 < columns && time_ns >= window_time(window, columns, column + 1)) column++;
    return column;
}

/* Of a run that is followed the cursor is its end, and needs no sign. At the end of a step it stands on the step's last column. */
int timeline_cursor(const struct scene *scene, const struct window *window, int columns)
{
    uint64_t at_ns = scene->state->cursor_ns;
    if (!scene->state->behind || at_ns < window->from_ns || at_ns > window->to_ns) return -1;
    int column = window_column(window, columns, at_ns);
    return column < columns ? column : columns - 1;
}

static struct window placed(double from_ns, double length_ns)
{
    if (length_ns < WINDOW_LEAST_NS) length_ns = WINDOW_LEAST_NS;
    if (from_ns < 0) from_ns = 0;
    return (struct window){(uint64_t)from_ns, (uint64_t)from_ns + (uint64_t)length_ns};
}

struct window window_zoomed(struct window window, double factor, uint64_t around_ns)
{
    double length_ns = (double)(window.to_ns - window.from_ns);
    double share = ((double)around_ns - (double)window.from_ns) / length_ns;
    if (length_ns * factor < WINDOW_LEAST_NS) factor = WINDOW_LEAST_NS / length_ns;
    return placed((double)around_ns - share * length_ns * factor, length_ns * factor);
}

struct window window_panned(struct window window, double share)
{
    double length_ns = (double)(window.to_ns - window.from_ns);
    return placed((double)window.from_ns + share * length_ns, length_ns);
}

struct window window_centred(struct window window, uint64_t time_ns)
{
    double length_ns = (double)(window.to_ns - window.from_ns);
    return placed((double)time_ns - length_ns / 2, length_ns);
}

struct window window_showing(struct window window, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t length_ns = window.to_ns - window.from_ns;
    if (from_ns >= window.from_ns && to_ns <= window.to_ns) return window;
    if (from_ns < window.from_ns || to_ns - from_ns >= length_ns) return (struct window){from_ns, from_ns + length_ns};
    return (struct window){to_ns - length_ns, to_ns};
}

struct window window_of_run(uint64_t first_ns, uint64_t last_ns)
{
    static const double nice[] = {1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
    double length_ns = last_ns > first_ns ? (double)(last_ns - first_ns) : 0, unit = WINDOW_LEAST_NS;
    int i = 0;
    while (unit * 10 < length_ns) unit *= 10;
    while (unit * nice[i] < length_ns) i++;
    return (struct window){first_ns, first_ns + (uint64_t)(unit * nice[i])};
}
