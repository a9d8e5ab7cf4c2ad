/* Looks by meaning: a view asks for STYLE_WARN, and the theme and the number of colours decide the look. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum style {
#define STYLE(ID, ...) STYLE_##ID,
#include "tui/draw/styles.def"
#undef STYLE
    STYLES
};

enum theme { THEME_DEFAULT, THEME_LIGHT, THEME_PROJECTOR, THEME_MONO, THEMES };

/* How many colours can be shown. DEPTH_256 and DEPTH_TRUE add the same colours to the first 16: 16 to 254 of xterm's 256. */
enum depth { DEPTH_16, DEPTH_256, DEPTH_TRUE, DEPTHS };

enum { ATTRIBUTE_BOLD = 1, ATTRIBUTE_UNDERLINE = 2, ATTRIBUTE_REVERSE = 4, COLOUR_DEFAULT = 255 };

struct look { uint8_t foreground, background, attributes; };

struct look style_look(enum theme theme, enum depth depth, enum style style);
uint8_t colour_ink(uint8_t colour);      /* black or white, whichever is easier to read on this colour */
uint32_t colour_rgb(uint8_t colour);     /* 0xRRGGBB of colours 16 to 255 */
uint32_t theme_ground(enum theme theme); /* 0xRRGGBB of the ground of pictures (SVG, HTML); a terminal has its own */
bool same_look(struct look a, struct look b);

const char *theme_name(enum theme theme);
int theme_named(const char *name); /* -1: no such theme */
const char *theme_names(void);     /* "default light ..." */
