/* Writes a surface as text, ANSI or SVG, without a terminal. The caller frees the result; NULL: no memory. */
#pragma once

#include <stdio.h>

#include "tui/draw/surface.h"

char *surface_to_text(const struct surface *surface); /* UTF-8 lines without trailing blanks */
char *surface_to_ansi(const struct surface *surface); /* with SGR sequences of its depth; lines end in the default look */
char *surface_to_svg(const struct surface *surface);  /* colours of a colour-blind-safe palette */

/* ---- parts of the above ---- */

void row_to_ansi(FILE *out, const struct surface *surface, int y); /* begins and ends in the default look */
void svg_head(FILE *out, const struct surface *surface);           /* to be closed with </svg> */
void row_to_svg(FILE *out, const struct surface *surface, int y);

/* Finds the next run [*x, *end) of cells with one look in row y. *end on entry: end of the run before; 0: none. False: none is left. */
bool next_run(const struct surface *surface, int y, int *x, int *end);

/* "#rrggbb" of text, of background ("": it has none) and of the theme's ground, which shows where there is no background. */
struct look_colours { char front[8], back[8], ground[8]; };
struct look_colours look_colours(struct look look, enum theme theme);

void put_escaped(FILE *out, const char *text); /* as the text of an element of XML or HTML */
struct utf8 { char text[5]; };
struct utf8 utf8_of(uint32_t character);
