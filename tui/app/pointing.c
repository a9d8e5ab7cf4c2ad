/* The mouse: the wheel moves, a click on a key of the footer is that key, any other one is the view's. */
#include "tui/app/app_parts.h"
#include "tui/screen/lab.h"
#include "tui/screen/screen.h"

static void act_as(struct app *app, enum action action)
{
    struct scene scene = app_scene(app);
    const struct key_row *row = key_of_action(action, view_key_mode(&scene));
    if (row) app_act(app, row);
}

/* On the view itself. */
static void point(struct app *app, int x, int y)
{
    const struct view *view = view_of(app->state.view);
    struct scene scene = app_scene(app);
    int header = view_header_rows(&app->state, app->surface.columns), rows = app->surface.rows - header - 1;
    struct lab_layout layout = lab_layout(&app->state, app->surface.columns, rows);
    struct pointed at = {layout.view.columns, rows, x - layout.view.x, y - header};
    bool on_view = at.y >= 0 && at.y < rows && at.x >= 0 && layout.pane.columns < app->surface.columns;
    if (view->point && at.columns >= VIEW_COLUMNS_MIN && on_view) view->point(&app->state, &scene, &at);
}

void pointing_act(struct app *app)
{
    struct terminal_pointing pointing = terminal_pointing(app->terminal);
    struct scene scene = app_scene(app);
    const struct key_row *row;
    switch (pointing.what) {
    case POINTING_WHEEL_UP: act_as(app, ACTION_UP); break;
    case POINTING_WHEEL_DOWN: act_as(app, ACTION_DOWN); break;
    case POINTING_CLICK:
        row = pointing.y == app->surface.rows - 1 ? footer_key_at(app->surface.columns, &scene, pointing.x) : NULL;
        if (row) app_act(app, row);
        else point(app, pointing.x, pointing.y);
        break;
    }
}
