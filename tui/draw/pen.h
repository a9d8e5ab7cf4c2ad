/* A pen writes the cells of a table row from left to right, and stops at the first one that does not fit: a narrow table
 * has fewer columns, never cut ones. */
#ifndef TUI_DRAW_PEN_H
#define TUI_DRAW_PEN_H

#include "tui/draw/surface.h"

struct pen { struct canvas canvas; int x, y; bool full; };

struct pen pen_at(struct canvas canvas, int x, int y);
void pen_right(struct pen *pen, int columns, enum style style, const char *text);
void pen_left(struct pen *pen, int columns, enum style style, const char *text);
void pen_format(struct pen *pen, int columns, enum style style, const char *format, ...) /* right-aligned */
    __attribute__((format(printf, 4, 5)));

#endif
