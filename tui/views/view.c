/* The views by name, and what every view shares: a screen that is too small says so. */
#include "tui/views/view.h"

#include <stdio.h>
#include <string.h>

static const struct view *const views[] = {&view_overview, &view_help, &view_shortage};

const struct view *view_named(const char *name)
{
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        if (!strcmp(views[i]->name, name)) return views[i];
    return NULL;
}

const char *view_names(void)
{
    return "overview help oom";
}

static void draw_too_small(struct surface *surface)
{
    struct canvas canvas = canvas_of(surface);
    draw_text(canvas, 0, 0, STYLE_STRONG, "terminal too small");
    draw_format(canvas, 0, 1, STYLE_TEXT, "this is %dx%d", surface->columns, surface->rows);
    draw_format(canvas, 0, 2, STYLE_TEXT, "%dx%d is needed", VIEW_COLUMNS_MIN, VIEW_ROWS_MIN);
    draw_text(canvas, 0, 3, STYLE_TEXT, "q quits");
}

void view_draw(const struct view *view, const struct run_model *model, const struct view_state *state,
               struct surface *surface)
{
    surface_erase(surface);
    if (surface->columns < VIEW_COLUMNS_MIN || surface->rows < VIEW_ROWS_MIN) draw_too_small(surface);
    else view->draw(model, state, surface);
}
