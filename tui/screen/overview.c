/* The first screen. At 80x24 it has everything that matters; a larger screen only adds panes. */
#include <string.h>

#include "tui/memory/tiers.h"
#include "tui/screen/screen.h"

/* ---- the layout: the memory bars and the timeline span the screen, because both are read across ranks; below them is one column of panes
 * under 120 columns, two under 180, else three. Each column is a list of panes, the most telling first. A pane is dropped when its column is
 * too short for it, and the focused pane then takes the place of the last ones of its column. ---- */

enum { PANE_ROWS_MIN = 5, EVENTS_ROWS_MIN = 2 };

struct column {
    int count;
    enum view_id panes[VIEWS];
};

static const struct column one_column[] = {
    {11,
     {VIEW_COLLECTIVES, VIEW_TIERS, VIEW_EVENTS, VIEW_STEPS, VIEW_MEMORY, VIEW_SHARDS, VIEW_BUCKETS, VIEW_SCHEDULE,
      VIEW_TEXT, VIEW_LOSS, VIEW_WHY}}};
static const struct column two_columns[] = {
    {7, {VIEW_TIERS, VIEW_MEMORY, VIEW_EVENTS, VIEW_TEXT, VIEW_SHARDS, VIEW_BUCKETS, VIEW_WHY}},
    {4, {VIEW_COLLECTIVES, VIEW_STEPS, VIEW_LOSS, VIEW_SCHEDULE}}};
static const struct column three_columns[] = {{5, {VIEW_TIERS, VIEW_MEMORY, VIEW_TEXT, VIEW_SHARDS, VIEW_WHY}},
                                              {3, {VIEW_COLLECTIVES, VIEW_EVENTS, VIEW_BUCKETS}},
                                              {3, {VIEW_LOSS, VIEW_STEPS, VIEW_SCHEDULE}}};

static int least(enum view_id pane, const struct overview_needs *needs)
{
    int rows = needs->rows[pane];
    return rows ? rows : pane == VIEW_EVENTS ? EVENTS_ROWS_MIN : PANE_ROWS_MIN;
}

static int position(const struct column *column, enum view_id pane)
{
    for (int i = 0; i < column->count; i++)
        if (column->panes[i] == pane) return i;
    return -1;
}

/* The panes of a column that fit, with the focused one among them if it belongs here. */
static struct column choose(const struct column *column, int rows, const struct overview_needs *needs)
{
    struct column chosen = {0};
    int used = 0;
    for (int i = 0; i < column->count; i++) {
        int rows_least = least(column->panes[i], needs);
        if (used + rows_least > rows || needs->idle[column->panes[i]]) continue;
        chosen.panes[chosen.count++] = column->panes[i];
        used += rows_least;
    }
    if (rows < PANE_ROWS_MIN) return chosen;
    if (chosen.count == 0) chosen.panes[chosen.count++] = column->panes[0];
    if (position(column, needs->focus) < 0 || position(&chosen, needs->focus) >= 0) return chosen;
    if (needs->focus == VIEW_EVENTS && needs->idle[VIEW_EVENTS]) return chosen;
    do used -= least(chosen.panes[--chosen.count], needs);
    while (chosen.count && used + least(needs->focus, needs) > rows);
    chosen.panes[chosen.count++] = needs->focus;
    return chosen;
}

/* Fixed panes get what they want, the others share the rest; the last one takes what is left over. */
static void stack(struct overview_layout *layout, const struct column *column, struct rect area,
                  const struct overview_needs *needs)
{
    int fixed = 0, flexible = 0, y = area.y, end = area.y + area.rows;
    for (int i = 0; i < column->count; i++) {
        int rows = needs->rows[column->panes[i]];
        fixed += rows;
        flexible += rows == 0;
    }
    int share = flexible && area.rows > fixed ? (area.rows - fixed) / flexible : 0;
    for (int i = 0; i < column->count; i++) {
        int rows = needs->rows[column->panes[i]];
        rows = i == column->count - 1 ? end - y : smaller(rows ? rows : share, end - y);
        if (rows > 0) layout->pane[column->panes[i]] = (struct rect){area.x, y, area.columns, rows};
        y += rows;
    }
}

static void place_panes(struct overview_layout *layout, struct rect area, const struct overview_needs *needs)
{
    const struct column *columns = area.columns < 120 ? one_column : area.columns < 180 ? two_columns : three_columns;
    int count = area.columns < 120 ? 1 : area.columns < 180 ? 2 : 3;
    int width = (area.columns - 2 * (count - 1)) / count;
    for (int i = 0; i < count; i++) {
        int x = area.x + i * (width + 2);
        struct rect part = {x, area.y, i == count - 1 ? area.x + area.columns - x : width, area.rows};
        struct column chosen = choose(&columns[i], area.rows, needs);
        stack(layout, &chosen, part, needs);
    }
}

/* Rows for what spans the screen, as long as `below` stay. */
static int take(int *left, int rows, int below)
{
    rows = smaller(rows, *left - below);
    if (rows < 0) rows = 0;
    *left -= rows;
    return rows;
}

static struct rect strip(int y, int columns, int rows)
{
    return (struct rect){0, y, rows ? columns : 0, rows};
}

void overview_layout(struct overview_layout *layout, int columns, int rows, const struct overview_needs *needs)
{
    memset(layout, 0, sizeof *layout);
    const bool pane = needs->focus != VIEW_EVENTS && needs->focus != VIEW_TIMELINE; /* which the user moved to */
    int left = rows, bars = take(&left, needs->bars_rows, PANE_ROWS_MIN),
        timeline = take(&left, needs->timeline_rows, pane ? PANE_ROWS_MIN : 0);
    if (left < PANE_ROWS_MIN && needs->idle[VIEW_EVENTS]) timeline += left, left = 0; /* nothing fits below it */
    if (timeline < 2) left += timeline, timeline = 0; /* a title alone says nothing */
    layout->bars = strip(0, columns, bars);
    layout->pane[VIEW_TIMELINE] = strip(bars, columns, timeline);
    place_panes(layout, (struct rect){0, rows - left, columns, left}, needs);
}

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
