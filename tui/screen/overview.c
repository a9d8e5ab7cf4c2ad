/* The first screen: everything that matters at 80x24; more room adds panes, never meaning. */
#include "tui/memory/tiers.h"
#include "tui/screen/screen.h"

/* All ranks' lanes, or as many as leave the panes their part of the rows; of four always. */
static int timeline_rows(const struct run_model *model, int rows, int wanted)
{
    enum { RANKS_LEAST = 4 };
    const int lanes = run_lane_count(model);
    for (int ranks = model->ranks; ranks > RANKS_LEAST && wanted > rows * 2 / 5; ranks--) wanted -= lanes;
    return wanted;
}

/* The timeline stays visible below the bars. */
static int bars_room(const struct run_model *model, int rows, int timeline)
{
    enum { BARS_LEAST = 5 };
    const int room = rows - timeline, least = BARS_LEAST + bars_flow_rows(model);
    return room > least ? room : least;
}

static void lay_out(struct overview_layout *layout, const struct scene *scene, int columns, int rows)
{
    struct overview_needs needs = {.focus = scene->state->focus};
    for (enum view_id id = 0; id < VIEWS; id++)
        if (view_of(id)->pane_rows) needs.rows[id] = view_of(id)->pane_rows(scene);
    needs.idle[VIEW_TIERS] = !tiers_any_flow(scene->model);
    needs.idle[VIEW_EVENTS] = !scene->model->notice_count;
    needs.timeline_rows = timeline_rows(scene->model, rows, needs.rows[VIEW_TIMELINE]);
    needs.bars_rows = bars_rows(scene->model, columns, bars_room(scene->model, rows, needs.timeline_rows));
    overview_layout(layout, columns, rows, &needs);
}

static void overview_draw(struct canvas canvas, const struct scene *scene)
{
    struct overview_layout layout;
    lay_out(&layout, scene, canvas.at.columns, canvas.at.rows);
    if (layout.bars.rows) bars_draw(canvas_at(canvas, layout.bars), scene);
    for (enum view_id id = 0; id < VIEWS; id++)
        if (layout.pane[id].rows) view_of(id)->pane(canvas_at(canvas, layout.pane[id]), scene, id == scene->state->focus);
}

static bool is_within(const struct rect *area, const struct pointed *at)
{
    return at->x >= area->x && at->x < area->x + area->columns && at->y >= area->y && at->y < area->y + area->rows;
}

/* A click on a pane puts the focus there, another one opens its view; the bars are those of the memory view. */
static void overview_point(struct view_state *state, const struct scene *scene, const struct pointed *at)
{
    struct overview_layout layout;
    lay_out(&layout, scene, at->columns, at->rows);
    if (is_within(&layout.bars, at)) state->view = VIEW_MEMORY;
    for (enum view_id id = 0; id < VIEWS; id++) {
        if (!is_within(&layout.pane[id], at)) continue;
        if (state->focus == id) state->view = id;
        state->focus = id;
    }
}

const struct view view_overview = {
    .name = "overview", .title = "overview", .draw = overview_draw, .point = overview_point};
