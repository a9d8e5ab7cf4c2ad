/* The axis: a row of steps, as wide as they took time, with the cursor; and a row of ticks, with marks A and B and the markers. */
#include <math.h>
#include <string.h>

#include "tui/draw/chart.h"
#include "tui/timeline/timeline.h"

/* ---- steps ------------------------------------------------------------------------------------------------------------ */

struct bracket {
    struct text names[3];
    int count;
}; /* longest first */

/* |── name ──|, as much of it as fits between two columns; `open`: its end is not known. */
static void draw_bracket(struct canvas canvas, int x, int end, const struct bracket *bracket, bool begins, bool ends)
{
    if (end <= x) return;
    draw_fill(canvas, x, 0, end - x, STYLE_FRAME, 0x2500);
    if (begins) draw_character(canvas, x, 0, STYLE_TITLE, 0x251c);
    if (ends && end - x > 1) draw_character(canvas, end - 1, 0, STYLE_TITLE, 0x2524);
    for (int i = 0; i < bracket->count; i++) {
        bool last = i == bracket->count - 1; /* a bare number needs no blanks */
        if (utf8_columns(bracket->names[i].text) + (last ? 2 : 4) > end - x) continue;
        draw_format(canvas, x + 1, 0, STYLE_TITLE, last ? "%s" : " %s ", bracket->names[i].text);
        return;
    }
}

/* "stage 2 · "; "": not known. */
static struct text stage_text(int stage)
{
    return stage == RUN_UNKNOWN ? NO_TEXT : text_of("stage %d · ", stage);
}

static struct bracket step_names(const struct history_step *step)
{
    const struct text took =
        step->ended_ns ? format_time_bare(step->ended_ns - step->begun_ns) : text_of("in progress");
    return (struct bracket){{text_of("step %u · %s%s", step->step, stage_text(step->stage).text, took.text),
                             text_of("step %u", step->step), text_of("%u", step->step)},
                            3};
}

static struct bracket stage_names(const struct history_step *first, const struct history_step *last)
{
    return (struct bracket){{text_of("%ssteps %u to %u", stage_text(first->stage).text, first->step, last->step),
                             text_of("stage %d", first->stage), text_of("%d", first->stage)},
                            first->stage == RUN_UNKNOWN ? 1 : 3};
}

static uint64_t end_of(const struct scene *scene, const struct history_step *step)
{
    return step->ended_ns ? step->ended_ns : shown_now(scene);
}

static bool is_within(const struct scene *scene, const struct history_step *step, const struct window *window)
{
    return step->begun_ns < window->to_ns && end_of(scene, step) > window->from_ns;
}

/* Too many steps to be told apart are drawn as runs of one stage. */
static bool are_many(const struct scene *scene, const struct window *window, int columns)
{
    int found = 0;
    for (int i = 0; i < history_step_count(scene->history); i++) found += is_within(scene, history_step(scene->history, i), window);
    return found > columns / 5;
}

static void draw_steps(struct canvas canvas, const struct scene *scene, const struct window *window)
{
    int columns = canvas.at.columns, count = history_step_count(scene->history);
    bool many = are_many(scene, window, columns);
    for (int i = 0; i < count; i++) {
        const struct history_step *first = history_step(scene->history, i), *last = first;
        if (!is_within(scene, first, window)) continue;
        while (many && i + 1 < count && history_step(scene->history, i + 1)->stage == first->stage &&
               is_within(scene, history_step(scene->history, i + 1), window))
            last = history_step(scene->history, ++i);
        const struct bracket bracket = first == last ? step_names(first) : stage_names(first, last);
        int x = window_column(window, columns, first->begun_ns),
            end = window_column(window, columns, end_of(scene, last));
        draw_bracket(canvas, within(x, 0, columns), within(end, 0, columns), &bracket, x >= 0,
                     last->ended_ns && end <= columns);
    }
}

void timeline_draw_steps(struct canvas canvas, const struct scene *scene, const struct window *window)
{
    struct canvas axis = canvas_part(canvas, TIMELINE_GUTTER, 0, canvas.at.columns - TIMELINE_GUTTER, 1);
    draw_text(canvas, 1, 0, STYLE_DIM, "steps");
    if (axis.at.columns < 1) return;
    draw_steps(axis, scene, window);
    int cursor = timeline_cursor(scene, window, axis.at.columns);
    if (cursor >= 0) draw_character(axis, cursor, 0, STYLE_CURSOR, 0x25bc);
}

/* ---- ticks ------------------------------------------------------------------------------------------------------------ */

static struct text tick_text(double ns, double step_ns)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    int i = 0;
    while (i < 3 && step_ns < units[i].ns * 0.999 && fabs(ns) < units[i].ns * 9.999) i++;
    while (i < 3 && step_ns < units[i].ns * 0.00099) i++;
    int decimals = 0;
    for (double part = step_ns / units[i].ns; part < 0.999 && decimals < 6; part *= 10) decimals++;
    return text_of("%.*f %s", decimals, ns / units[i].ns, units[i].name);
}

/* Time is counted from the step that the window begins in; of many steps, from the first record. */
static uint64_t origin_of(const struct scene *scene, const struct window *window)
{
    const struct history_step *step = history_step_at(scene->history, window->from_ns), *next = NULL;
    if (!step || window->from_ns < step->begun_ns) step = timeline_step(scene);
    if (!step || window->from_ns < step->begun_ns) return history_first_ns(scene->history);
    next = history_step_at(scene->history, window->to_ns - 1);
    return next && next->step > step->step + 2 ? history_first_ns(scene->history) : step->begun_ns;
}

static bool touches(const struct canvas *axis, const struct window *window, uint64_t mark_ns, const char *name, int x,
                    int end)
{
    int at = window_column(window, axis->at.columns, mark_ns);
    return at >= 0 && at < end && at + 1 + utf8_columns(name) > x;
}

/* A tick's label gives way to marks: two words over each other would be neither. */
static bool is_marked(const struct canvas *axis, const struct view_state *state, const struct window *window, int x,
                      int end)
{
    for (int i = 0; i < 2; i++)
        if (state->mark[i].known && touches(axis, window, state->mark[i].time_ns, "", x, end)) return true;
    for (int i = 0; i < state->marker_count; i++)
        if (touches(axis, window, state->markers[i].time_ns, state->markers[i].name, x, end)) return true;
    return false;
}

static void draw_tick_marks(struct canvas canvas, const struct scene *scene, const struct window *window)
{
    int columns = canvas.at.columns, room = 12;
    double origin = (double)origin_of(scene, window), length = (double)(window->to_ns - window->from_ns);
    double step = chart_step(length / columns * room); /* leaves `room` columns between two ticks */
    double at = ceil(((double)window->from_ns - origin) / step) * step;
    for (; origin + at < (double)window->to_ns; at += step) {
        const struct text text = tick_text(at, step);
        const int x = (int)((origin + at - (double)window->from_ns) / length * columns), width = (int)strlen(text.text);
        draw_character(canvas, x, 0, STYLE_DIM, 0x2502);
        if (x + 1 + width <= columns && !is_marked(&canvas, scene->state, window, x, x + 2 + width))
            draw_text(canvas, x + 1, 0, STYLE_DIM, text.text);
    }
}

/* While one steps: the numbers of the operations where they begin. */
static void draw_op_marks(struct canvas canvas, const struct scene *scene, const struct window *window)
{
    const int rank = scene->state->rank;
    int free_from = 0;
    for (int x = 0; x < canvas.at.columns; x++)
        for (enum lane lane = 0; lane < LANES && x >= free_from; lane++) {
            int64_t first, end;
            const uint64_t from_ns = window_time(window, canvas.at.columns, x);
            history_spans(scene->history, rank, lane, from_ns, window_time(window, canvas.at.columns, x + 1), &first,
                          &end);
            const struct span *span = end > first ? history_span(scene->history, rank, lane, end - 1) : NULL;
            if (!span || span->started_ns < from_ns || (window->by_moments && span->started_ns > window->at_ns)) continue;
            free_from = draw_format(canvas, x, 0, STYLE_DIM, "%u", span->op) + 1;
        }
}

static void draw_mark(struct canvas canvas, const struct window *window, uint64_t time_ns, uint32_t sign,
                      const char *name)
{
    int at = window_column(window, canvas.at.columns, time_ns);
    if (at < 0 || at >= canvas.at.columns) return;
    draw_character(canvas, at, 0, STYLE_FOCUS, sign);
    draw_text(canvas, at + 1, 0, STYLE_FOCUS, name);
}

void timeline_draw_ticks(struct canvas canvas, const struct scene *scene, const struct window *window)
{
    struct canvas axis = canvas_part(canvas, TIMELINE_GUTTER, 0, canvas.at.columns - TIMELINE_GUTTER, 1);
    const struct view_state *state = scene->state;
    if (axis.at.columns < 1) return;
    draw_text(canvas, 1, 0, STYLE_DIM, window->by_moments ? "op" : "time");
    (window->by_moments ? draw_op_marks : draw_tick_marks)(axis, scene, window);
    for (int i = 0; i < state->marker_count; i++)
        draw_mark(axis, window, state->markers[i].time_ns, 0x25c6, state->markers[i].name);
    for (int i = 0; i < 2; i++)
        if (state->mark[i].known) draw_mark(axis, window, state->mark[i].time_ns, i ? 'B' : 'A', "");
    if (!state->span.open) return;
    int from = window_column(window, axis.at.columns, state->span.from_ns),
        to = window_column(window, axis.at.columns, state->span.to_ns);
    draw_fill(axis, within(from, 0, axis.at.columns), 0,
              within(to + 1, 0, axis.at.columns) - within(from, 0, axis.at.columns), STYLE_SELECTED, 0x2550);
}
