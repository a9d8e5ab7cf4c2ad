/* Bars, sparklines and heat rows. */
#pragma once

#include "tui/draw/surface.h"

/* One segment of a bar. Its first column shows `letter`, if that is a letter or '?'. The rest shows its colour, or its pattern in a theme
 * without colours, or the letter again on an ASCII surface. */
struct segment { uint64_t value; char letter; uint32_t pattern; enum style style; };

enum { SEGMENTS_MAX = 16 };

/* The character that fills an area of a style: a blank if the style has a colour, else the pattern; in ASCII the
 * letter. */
uint32_t filling(const struct surface *surface, enum style style, char letter, uint32_t pattern);

/* Sets shares[] to the columns of each segment, if the value `scale` fills `columns`. Running sums are rounded, not segments, so the bar's
 * end is exact to half a column. A segment above 0 that would get no column takes one from the widest segment. If that
 * has only one, it takes a free column, which makes the bar longer; if none is free, it stays without. */
void bar_shares(int shares[], const struct segment segments[], int count, uint64_t scale, int columns);

/* Draws segments from x on; columns after the last segment are not changed. */
void draw_bar(struct canvas canvas, int x, int y, int columns, const struct segment segments[], int count, uint64_t scale);

/* Mean of the known values of a curve that fall on column i of `columns`; with fewer values than columns, the one value
 * there. NaN: no value there is known. */
float column_mean(const float values[], int count, int i, int columns);

/* Draws a curve in one row, scaled from the lowest to the highest value. Each column is the mean of its values; fewer values than `columns`
 * take one column each. '?' where none is known. */
void draw_sparkline(struct canvas canvas, int x, int y, int columns, enum style style, const float values[], int count);

/* Draws a cell of a heat row: one of five shades, from empty (0) to full (`scale`). */
void draw_heat(struct canvas canvas, int x, int y, enum style style, uint64_t value, uint64_t scale);
