/* Themes, and the tables that the command line shows. */
#include "tui/app/app_parts.h"

#include <stdlib.h>

#include "tui/input/keys.h"
#include "tui/screen/lab.h"

int look_theme(enum theme *theme, const struct app_look *look, bool can_colour, struct error *err)
{
    int named = look->theme ? theme_named(look->theme) : THEME_DEFAULT;
    if (named < 0)
        return error_set(err, STATUS_USAGE, "there is no theme %s; there are: %s", look->theme, app_theme_names());
    *theme = look_is_mono(look, can_colour) ? THEME_MONO : (enum theme)named;
    return STATUS_OK;
}

bool look_is_mono(const struct app_look *look, bool can_colour)
{
    const char *no_colour = getenv("NO_COLOR");
    return look->no_color || !can_colour || (no_colour && no_colour[0]);
}

bool app_lab_fits(const struct lab_play *play)
{
    struct lab_pane pane = {0};
    lab_pane_of(&pane, play, false);
    return lab_fits_smallest(&pane);
}

const char *app_theme_names(void)
{
    return "default light projector mono";
}

char *app_keys_list(void)
{
    return keys_as_list();
}

char *app_keys_markdown(void)
{
    return keys_as_markdown();
}
