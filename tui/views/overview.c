/* The first screen: everything that matters at 80x24; more room adds panes, never meaning. */
#include "tui/views/parts.h"

static struct canvas part(struct surface *surface, struct rect at)
{
    return canvas_part(canvas_of(surface), at.x, at.y, at.columns, at.rows);
}

/* Traffic and a few events stay visible beside the bars. */
static int bars_room(int rows, int traffic)
{
    enum { HEADER_AND_FOOTER = 5, EVENTS = 5, BARS_LEAST = 5 };
    int room = rows - HEADER_AND_FOOTER - traffic - EVENTS;
    return room > BARS_LEAST ? room : BARS_LEAST;
}

static void overview_draw(const struct run_model *model, const struct view_state *state, struct surface *surface)
{
    struct scene scene = {model, state};
    int traffic = traffic_rows(model);
    struct overview_needs needs = {bars_rows(model, surface->columns, bars_room(surface->rows, traffic)), traffic,
                                   memory_rows(model), state->focus, state->enlarged};
    struct overview_layout layout;
    overview_layout(&layout, surface->columns, surface->rows, &needs);
    header_draw(part(surface, layout.header), &scene);
    if (layout.bars.rows) bars_draw(part(surface, layout.bars), &scene);
    for (enum pane pane = 0; pane < PANES; pane++)
        if (layout.pane[pane].rows) pane_draw(pane, part(surface, layout.pane[pane]), &scene);
    footer_draw(part(surface, layout.footer), &scene);
}

const struct view view_overview = {"overview", "overview", overview_draw};
