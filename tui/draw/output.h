/* Writes a surface as text, ANSI or SVG, without a terminal. The caller frees the result; NULL: no memory. */
#ifndef TUI_DRAW_OUTPUT_H
#define TUI_DRAW_OUTPUT_H

#include "tui/draw/surface.h"

char *surface_to_text(const struct surface *surface); /* UTF-8 lines without trailing blanks */
char *surface_to_ansi(const struct surface *surface); /* with SGR sequences of its depth; lines end in the default look */
char *surface_to_svg(const struct surface *surface);  /* colours of a colour-blind-safe palette */

void utf8_encode(char out[5], uint32_t character);

#endif
