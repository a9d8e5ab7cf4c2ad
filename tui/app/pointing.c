/* The mouse: the wheel moves, a click on a key of the footer is that key. */
#include "tui/app/app_parts.h"
#include "tui/views/parts.h"

static void act_as(struct app *app, enum action action)
{
    struct scene scene = app_scene(app);
    const struct key_row *row = key_of_action(action, view_key_mode(&scene));
    if (row) app_act(app, row);
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
        break;
    }
}
