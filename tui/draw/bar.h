/* Bars, sparklines and heat rows. */
#pragma once

#include "tui/draw/surface.h"

/* One segment of a bar. Its first column is its letter, if it has one and not a sign; the rest is its colour, or its pattern in a theme without
 * colours, or the letter again on an ASCII surface. */
struct segment { uint64_t value; char letter; uint32_t pattern; enum style style; };

enum { SEGMENTS_MAX = 16 };

/* The character that fills an area of a style: a blank if the style has a colour, else the pattern; in ASCII the
 * letter. */
uint32_t filling(const struct surface *surface, enum style style, char letter, uint32_t pattern);

/* Columns of each segment if `scale` fills `columns`. Running sums are rounded, not segments, so the bar's end is
 * exact to half a column. A segment above 0 gets at least one column if there is room, taken from the widest. */
void bar_shares(int shares[], const struct segment segments[], int count, uint64_t scale, int columns);

/* Draws segments from x on; columns after the last segment are not changed. */
void draw_bar(struct canvas canvas, int x, int y, int columns, const struct segment segments[], int count, uint64_t scale);

/* Mean of the known values of a curve that fall on column i of `columns`; with fewer values than columns, the nearest
 * one. NaN: no value there is known. */
float column_mean(const float values[], int count, int i, int columns);

/* A curve in one row: values between the lowest and the highest, averaged or repeated to fill `columns`; '?' where none is known. */
void draw_sparkline(struct canvas canvas, int x, int y, int columns, enum style style, const float values[], int count);

/* A cell of a heat row: five shades from empty to full. */
void draw_heat(struct canvas canvas, int x, int y, enum style style, uint64_t value, uint64_t scale);
