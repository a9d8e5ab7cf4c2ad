/* Looks by meaning: a view asks for STYLE_WARN, and the theme says how that looks. */
#ifndef TUI_DRAW_STYLE_H
#define TUI_DRAW_STYLE_H

#include <stdbool.h>
#include <stdint.h>

enum style {
#define STYLE(ID, dark, light, projector, mono) STYLE_##ID,
#include "tui/draw/styles.def"
#undef STYLE
    STYLES
};

enum theme { THEME_DEFAULT, THEME_LIGHT, THEME_PROJECTOR, THEME_MONO, THEMES };

enum { ATTRIBUTE_BOLD = 1, ATTRIBUTE_UNDERLINE = 2, ATTRIBUTE_REVERSE = 4, COLOUR_DEFAULT = 255 };

struct look { uint8_t foreground, background, attributes; };

struct look style_look(enum theme theme, enum style style);
bool same_look(struct look a, struct look b);

const char *theme_name(enum theme theme);
int theme_named(const char *name); /* -1: no such theme */

#endif
