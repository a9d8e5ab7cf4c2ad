/* Bars, sparklines and heat rows. */
#ifndef TUI_DRAW_BAR_H
#define TUI_DRAW_BAR_H

#include "tui/draw/surface.h"

/* One part of a bar. Each begins with its letter; the rest is its colour, or where the theme has none its pattern, or on
 * an ASCII surface its letter again. */
struct segment { uint64_t value; char letter; uint32_t pattern; enum style style; };

enum { SEGMENTS_MAX = 16 };

/* What fills an area of a style: its colour (so a blank), without one its pattern, in ASCII its letter. */
uint32_t filling(const struct surface *surface, enum style style, char letter, uint32_t pattern);

/* How many of `columns` each segment gets when `scale` fills them all. Sums are rounded, not parts, so the end is exact to
 * half a column; a part that is not 0 gets at least one column where there is room, taken from the widest. */
void bar_shares(int shares[], const struct segment segments[], int count, uint64_t scale, int columns);

/* Draws segments from x on; the rest of the columns stays as it is. */
void draw_bar(struct canvas canvas, int x, int y, int columns, const struct segment segments[], int count, uint64_t scale);

/* Mean of the known values of a curve that fall on column i of `columns`; with fewer values than columns, the nearest one. NaN: none of
 * them is known. */
float column_mean(const float values[], int count, int i, int columns);

/* A curve in one row: values between the lowest and the highest, averaged or repeated to fill `columns`; '?' where none is known. */
void draw_sparkline(struct canvas canvas, int x, int y, int columns, enum style style, const float values[], int count);

/* A cell of a heat row: five shades from empty to full. */
void draw_heat(struct canvas canvas, int x, int y, enum style style, uint64_t value, uint64_t scale);

#endif
