/* Chooses the window of time. Until the user zooms or pans it is one step (tui/view/shown.c). A step that is shown while it
 * runs is drawn on the scale of the step before. */
#include "tui/timeline/timeline.h"

enum { FIRST_STEP_NS = 250000000 };

static struct window window_of_step(const struct scene *scene, const struct history_step *step)
{
    const struct history_step *before = shown_whole_at(scene->history, step->begun_ns);
    uint64_t room_ns = before ? before->ended_ns - before->begun_ns : FIRST_STEP_NS, now_ns = shown_now(scene);
    const uint64_t least_ns = step->begun_ns + scene->state->window_least_ns;
    if (step->ended_ns > step->begun_ns)
        return (struct window){.from_ns = step->begun_ns,
                               .to_ns = step->ended_ns > least_ns ? step->ended_ns : least_ns};
    if (room_ns < WINDOW_LEAST_NS) room_ns = WINDOW_LEAST_NS;
    while (step->begun_ns + room_ns < now_ns) room_ns += room_ns / 2;
    return (struct window){.from_ns = step->begun_ns, .to_ns = step->begun_ns + room_ns};
}

/* The cursor's place in the step. */
static uint64_t stands_at(const struct scene *scene)
{
    return scene->state->behind ? scene->state->cursor_ns : shown_now(scene);
}

/* The window moves by half, so that most of what is on the screen stays there; behind the newest moment the columns are empty. */
struct window timeline_moments(const struct scene *scene, const struct history_step *step, int rank)
{
    enum { MOMENTS_MAX = 4096 };
    static _Thread_local uint64_t times[MOMENTS_MAX];
    uint64_t at_ns = stands_at(scene);
    const int count = history_moments(scene->history, rank, step, at_ns, times, MOMENTS_MAX);
    int top = 0;
    if (!count) return window_of_step(scene, step);
    if (step->ended_ns && step->ended_ns < at_ns) at_ns = times[count - 1]; /* what came later is of other steps, or a validation */
    struct window window = {.by_moments = true, .at_ns = at_ns};
    while (count - top > WINDOW_MOMENTS) top += WINDOW_MOMENTS / 2;
    for (int m = 0; m <= WINDOW_MOMENTS_MAX; m++) {
        const uint64_t before_ns = m ? window.moment_ns[m - 1] : 0;
        window.moment_ns[m] =
            top + m < count ? times[top + m] : (before_ns < at_ns ? at_ns : before_ns) + WINDOW_LEAST_NS;
    }
    window.from_ns = window.moment_ns[0];
    window.to_ns = window.moment_ns[WINDOW_MOMENTS_MAX];
    return window;
}

bool timeline_stands(const struct scene *scene, const struct history_step *step)
{
    const bool waits = scene->model->state == RUN_PAUSED || run_is_stuck(scene->model);
    return (scene->state->by_ops && !shown_moves(scene)) || (!step->ended_ns && waits);
}

struct selection timeline_newest(const struct scene *scene, const struct history_step *step, int rank)
{
    const uint64_t at_ns = stands_at(scene);
    struct selection newest = {0};
    uint64_t latest_ns = 0;
    for (enum lane lane = 0; lane < LANES && step; lane++) {
        int64_t first, end;
        history_spans(scene->history, rank, lane, step->begun_ns, at_ns + 1, &first, &end);
        const struct span *span = end > first ? history_span(scene->history, rank, lane, end - 1) : NULL;
        if (!span || span->step != step->step) continue;
        const uint64_t last_ns = span->ended_ns && span->ended_ns <= at_ns ? span->ended_ns : span->started_ns;
        if (last_ns >= latest_ns)
            newest = (struct selection){true, rank, lane, span->step, span->op}, latest_ns = last_ns;
    }
    return newest;
}

struct window timeline_window(const struct scene *scene)
{
    const struct view_state *state = scene->state;
    const struct history_step *step = shown_step(scene);
    uint64_t first_ns = history_first_ns(scene->history), now_ns = shown_now(scene);
    if (state->to_ns == UINT64_MAX) return window_of_run(first_ns, now_ns);
    if (state->to_ns > state->from_ns) return (struct window){.from_ns = state->from_ns, .to_ns = state->to_ns};
    if (!step) return window_of_run(first_ns, now_ns);
    if (timeline_stands(scene, step)) return timeline_moments(scene, step, -1);
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

static int columns_of_moment(int columns)
{
    return columns < 2 * WINDOW_MOMENTS ? 1 : columns / WINDOW_MOMENTS;
}

uint64_t window_time(const struct window *window, int columns, int column)
{
    uint64_t from_ns = window->from_ns, length_ns = window->to_ns - from_ns, parts = (uint64_t)columns;
    uint64_t part = (uint64_t)column;
    if (window->by_moments) {
        parts = (uint64_t)columns_of_moment(columns);
        const uint64_t moment = part / parts;
        if (moment >= WINDOW_MOMENTS_MAX) return window->to_ns;
        from_ns = window->moment_ns[moment];
        length_ns = window->moment_ns[moment + 1] - from_ns;
        part %= parts;
    }
    const uint64_t whole = length_ns / parts, rest = length_ns % parts;
    return from_ns + whole * part + (rest * part + parts - 1) / parts;
}

int window_column(const struct window *window, int columns, uint64_t time_ns)
{
    if (time_ns < window->from_ns) return -1;
    if (time_ns >= window->to_ns) return columns;
    double share = (double)(time_ns - window->from_ns) / (double)(window->to_ns - window->from_ns);
    if (window->by_moments) {
        int m = 0;
        while (window->moment_ns[m + 1] <= time_ns) m++;
        share = (double)(time_ns - window->moment_ns[m]) / (double)(window->moment_ns[m + 1] - window->moment_ns[m]);
        share = (m + share) * columns_of_moment(columns) / columns;
    }
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
    return smaller(window_column(window, columns, at_ns), columns - 1);
}

static struct window placed(double from_ns, double length_ns)
{
    if (length_ns < WINDOW_LEAST_NS) length_ns = WINDOW_LEAST_NS;
    if (from_ns < 0) from_ns = 0;
    return (struct window){.from_ns = (uint64_t)from_ns, .to_ns = (uint64_t)from_ns + (uint64_t)length_ns};
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
    if (from_ns < window.from_ns || to_ns - from_ns >= length_ns)
        return (struct window){.from_ns = from_ns, .to_ns = from_ns + length_ns};
    return (struct window){.from_ns = to_ns - length_ns, .to_ns = to_ns};
}

struct window window_of_run(uint64_t first_ns, uint64_t last_ns)
{
    static const double nice[] = {1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
    double length_ns = last_ns > first_ns ? (double)(last_ns - first_ns) : 0, unit = WINDOW_LEAST_NS;
    int i = 0;
    while (unit * 10 < length_ns) unit *= 10;
    while (unit * nice[i] < length_ns) i++;
    return (struct window){.from_ns = first_ns, .to_ns = first_ns + (uint64_t)(unit * nice[i])};
}
