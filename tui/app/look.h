/* From the options of a look to a theme. */
#ifndef TUI_APP_LOOK_H
#define TUI_APP_LOOK_H

#include "tui/app/app.h"
#include "tui/draw/style.h"

/* Without colour (asked for, NO_COLOR, or nothing to show it on) the theme is mono: patterns carry the meaning. */
bool look_is_mono(const struct app_look *look, bool can_colour);
int look_theme(enum theme *theme, const struct app_look *look, bool can_colour, struct error *err);

#endif
