/* The timeline: steps and time, memory of one rank, and what every lane of every rank does, from the whole run down to one
 * operation; below, figures of what is chosen. On the overview, in small: all lanes of one step, of as many ranks as fit. */
#include "tui/timeline/timeline.h"

#include <string.h>

static bool nothing_yet(struct canvas canvas, const struct scene *scene)
{
    if (history_ranks(scene->history, 0, UINT64_MAX) > 0 && history_step_count(scene->history) > 0) return false;
    draw_text(canvas, 1, 1, STYLE_DIM, "nothing yet: no step has begun");
    return true;
}

/* The legend has signs beside its letters in this theme, so it has rows enough in any other. */
static int legend_rows(const struct scene *scene, int columns)
{
    struct surface nowhere = {.theme = THEME_MONO};
    return timeline_draw_legend((struct canvas){&nowhere, {.columns = columns}}, scene);
}

/* The ranks and lanes that the filter leaves; the chosen rank is one of them. */
static struct timeline_needs needs_of(const struct scene *scene, int columns)
{
    struct filter filter = filter_of(scene->state->filter);
    const struct window window = timeline_window(scene);
    int ranks = history_ranks(scene->history, window.from_ns, window.to_ns),
        last = smaller(filter.last_rank, ranks - 1);
    const uint32_t there = run_lanes(scene->model), shown = filter.lanes & there;
    struct timeline_needs needs = {smaller(filter.first_rank, last), 0, scene->state->rank, shown ? shown : there,
                                   legend_rows(scene, columns)};
    needs.rank_count = last - needs.first_rank + 1;
    needs.chosen = within(needs.chosen, needs.first_rank, last);
    return needs;
}

static void draw_number(struct canvas canvas, int y, int rank, const struct scene *scene)
{
    draw_format(canvas, 0, y, rank == scene->state->rank ? STYLE_FOCUS : STYLE_TEXT, "%3d", rank);
}

static void draw_rank(struct canvas canvas, const struct scene *scene, const struct timeline_layout *layout,
                      const struct window *window, int chosen, int rank)
{
    bool in_full = !layout->heat || rank == chosen, numbered = false;
    for (enum lane lane = 0; lane < LANES; lane++) {
        int row = timeline_row(layout, chosen, rank, lane);
        struct canvas at = canvas_part(canvas, 0, row, canvas.at.columns, layout->lane_rows);
        if (row < 0 || (numbered && !in_full)) continue;
        if (!numbered) draw_number(canvas, row, rank, scene);
        if (in_full) timeline_draw_lane(at, scene, window, rank, lane);
        else timeline_draw_heat(at, scene, window, rank, lane);
        numbered = true;
    }
}

static void draw_parts(struct canvas canvas, const struct scene *scene, const struct timeline_needs *needs)
{
    struct timeline_layout layout;
    struct window window = timeline_window(scene);
    timeline_layout(&layout, canvas.at.columns, canvas.at.rows, needs);
    timeline_draw_steps(canvas_at(canvas, layout.steps), scene, &window);
    timeline_draw_ticks(canvas_at(canvas, layout.ticks), scene, &window);
    timeline_draw_curve(canvas_at(canvas, layout.curve), scene, TIER_DEVICE, &window);
    for (int i = 0; i < layout.rank_count; i++)
        draw_rank(canvas_at(canvas, layout.lanes), scene, &layout, &window, needs->chosen, layout.first_rank + i);
    timeline_draw_details(canvas_at(canvas, layout.details), scene);
    timeline_draw_legend(canvas_at(canvas, layout.legend), scene);
}

/* While one steps, the newest operation is the chosen one. */
static void light_newest(struct view_state *state, const struct scene *scene)
{
    const struct history_step *step = timeline_step(scene);
    if (step && timeline_stands(scene, step) && !state->selected.known)
        state->selected = timeline_newest(scene, step, scene->state->rank);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct view_state state = *scene->state;
    struct scene filtered = {scene->model, scene->history, &state};
    if (nothing_yet(canvas, scene)) return;
    struct timeline_needs needs = needs_of(scene, canvas.at.columns);
    state.rank = needs.chosen;
    light_newest(&state, &filtered);
    draw_parts(canvas, &filtered, &needs);
}

/* All lanes of `shown` ranks; the chosen rank is among them. */
static void draw_pane_lanes(struct canvas canvas, const struct scene *scene, int ranks, int shown)
{
    struct window window = timeline_window(scene);
    int first = list_top(scene->state->rank, ranks, shown), y = 0;
    for (int i = 0; i < shown; i++) {
        draw_number(canvas, y, first + i, scene);
        for (enum lane lane = 0; lane < LANES; lane++)
            if (run_lanes(scene->model) >> lane & 1)
                timeline_draw_lane(canvas_part(canvas, 0, y++, canvas.at.columns, 1), scene, &window, first + i, lane);
    }
}

static void draw_pane_title(struct canvas canvas, const struct scene *scene, int hidden, bool focused)
{
    const struct history_step *step = timeline_step(scene);
    const bool stands = step && timeline_stands(scene, step);
    const struct text more = hidden > 0 ? text_of(" %d more rank%s: T ", hidden, plural(hidden)) : NO_TEXT;
    struct text title = text_of(!step    ? "timeline"
                                : stands ? "step %u by operations, rank %d"
                                         : "step %u, rank %d: ",
                                step ? step->step : 0, scene->state->rank);
    const int room = canvas.at.columns - (int)strlen(title.text) - 4 - utf8_columns(more.text);
    if (step && !stands) text_add(&title, "%s", timeline_verdict(room, scene).text);
    draw_title(canvas, 0, focused, "%s", title.text);
    draw_right(canvas, canvas.at.columns - 1, 0, STYLE_TEXT, more.text);
}

/* The step in small, whatever the user looks at in the view itself: a title with the verdict, lanes, the legend. */
static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct view_state calm = *scene->state;
    struct scene in_small = {scene->model, scene->history, &calm};
    calm.from_ns = calm.to_ns = 0;
    light_newest(&calm, &in_small);
    const struct window window = timeline_window(&in_small);
    const int ranks = history_ranks(scene->history, window.from_ns, window.to_ns), rows = canvas.at.rows - 1,
              lanes = run_lane_count(scene->model), legend = legend_rows(scene, canvas.at.columns);
    int room = rows >= lanes + legend ? rows - legend : rows, shown = room / lanes;
    shown = within(shown, 1, ranks);
    draw_pane_title(canvas, &in_small, ranks - shown, focused);
    if (nothing_yet(canvas, scene)) return;
    draw_pane_lanes(canvas_part(canvas, 0, 1, canvas.at.columns, room), &in_small, ranks, shown);
    if (room == rows) return;
    const struct canvas below = canvas_part(canvas, 0, 1 + shown * lanes, canvas.at.columns, rows - shown * lanes);
    timeline_draw_legend(below, scene);
    draw_text(below, 1, legend, STYLE_DIM, "lanes");
    draw_text(below, 7, legend, STYLE_TEXT, "comp computes, comm sends between ranks; time runs to the right");
}

static int pane_rows(const struct scene *scene)
{
    const int ranks = scene->model->ranks < 1 ? 1 : scene->model->ranks;
    return 1 + ranks * run_lane_count(scene->model) + legend_rows(scene, VIEW_COLUMNS_MIN);
}

/* The operation that is on, or nearest, where one pointed. */
static void point(struct view_state *state, const struct scene *scene, const struct pointed *at)
{
    struct timeline_needs needs = needs_of(scene, at->columns);
    struct timeline_layout layout;
    struct window window = timeline_window(scene);
    timeline_layout(&layout, at->columns, at->rows, &needs);
    uint64_t time_ns = window_time(&window, at->columns - TIMELINE_GUTTER, at->x - TIMELINE_GUTTER);
    for (int i = 0; i < layout.rank_count && at->x >= TIMELINE_GUTTER; i++)
        for (enum lane lane = 0; lane < LANES; lane++) {
            int rank = layout.first_rank + i, row = timeline_row(&layout, needs.chosen, rank, lane);
            int below = at->y - layout.lanes.y - row;
            if (row >= 0 && below >= 0 && below < layout.lane_rows)
                return timeline_choose(state, scene, rank, lane, time_ns);
        }
}

const struct view view_timeline = {.name = "timeline",
                                   .title = "timeline",
                                   .keys = {ACTION_ZOOM_IN, ACTION_ZOOM_OUT, ACTION_PAN_LEFT, ACTION_PAN_RIGHT,
                                            ACTION_FIT, ACTION_CENTRE, ACTION_SPAN},
                                   .draw = draw_view,
                                   .pane = draw_pane,
                                   .pane_rows = pane_rows,
                                   .act = timeline_act,
                                   .point = point};
