/* A surface is a screen in memory: views draw its cells, and output.h or the terminal shows them. A canvas is a
 * rectangle of a surface. Drawing through a canvas is clipped at its edges, so a view cannot draw outside its place.
 * Every character takes one column: code points of other widths, and control characters, become '?'. On an ASCII
 * surface each code point is replaced by an ASCII character, so views write one text for both. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tui/draw/style.h"

struct cell { uint32_t character; struct look look; };

struct surface {
    int columns, rows;
    enum theme theme;
    bool ascii;
    enum depth depth;   /* surface_init() leaves DEPTH_16 */
    struct cell *cells; /* [rows][columns] */
};

struct rect { int x, y, columns, rows; };

static inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

static inline int within(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

struct canvas { struct surface *surface; struct rect at; };

/* False: no memory. Contents after init or resize: blanks. */
bool surface_init(struct surface *surface, int columns, int rows, enum theme theme, bool ascii);
void surface_release(struct surface *surface);
void surface_erase(struct surface *surface);
const struct cell *surface_at(const struct surface *surface, int x, int y);

struct canvas canvas_of(struct surface *surface);
/* How the surface's theme and depth show a style. */
struct look surface_look(const struct surface *surface, enum style style);
/* A canvas for a rectangle of this canvas; what lies outside of it is cut off. */
struct canvas canvas_part(struct canvas canvas, int x, int y, int columns, int rows);
struct canvas canvas_at(struct canvas canvas, struct rect part);

void draw_character(struct canvas canvas, int x, int y, enum style style, uint32_t character);
/* Replaces the character of a cell, keeping its background. */
void draw_over(struct canvas canvas, int x, int y, enum style style, uint32_t character);
/* Draws a block character in the colour with which the style fills areas: for areas that end inside a cell. */
void draw_shape(struct canvas canvas, int x, int y, enum style style, uint32_t character);
/* Marks a drawn cell with a style's background, if it has one, and attributes. A full block is lowered by 1/8, so the background shows. */
void draw_lit(struct canvas canvas, int x, int y, enum style style);
void draw_fill(struct canvas canvas, int x, int y, int columns, enum style style, uint32_t character);
/* text is UTF-8. Returns the column after the text, also if the text was clipped. */
int draw_text(struct canvas canvas, int x, int y, enum style style, const char *text);
int draw_format(struct canvas canvas, int x, int y, enum style style, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Draws the text so that it ends before column `end`. */
void draw_right(struct canvas canvas, int end, int y, enum style style, const char *text);
/* "── title ───────" over the whole width; returns the column after the title. */
int draw_title(struct canvas canvas, int y, bool focused, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Decodes one UTF-8 code point and moves *text after it; 0 at the end; '?' for a malformed byte. */
uint32_t utf8_next(const char **text);
int utf8_columns(const char *text);

/* ---- text broken between words: over several rows, or shortened to one ---- */

/* Draws text from the top of the canvas. Line breaks in the text are kept, the first `skip` rows are left out, and a
 * word longer than a row is broken. Returns the rows of the whole text. */
int draw_paragraph(struct canvas canvas, int skip, enum style style, const char *text);
/* Draws one row: words that do not fit are replaced by "…". */
void draw_words(struct canvas canvas, int x, int y, enum style style, const char *text);

/* ---- rows of tables ---- */

/* A pen writes the cells of a row from left to right, and stops at the first cell that does not fit: a narrow table
 * has fewer columns, but no clipped ones. */
struct pen { struct canvas canvas; int x, y; bool full; };

struct pen pen_at(struct canvas canvas, int x, int y);
void pen_right(struct pen *pen, int columns, enum style style, const char *text);
void pen_left(struct pen *pen, int columns, enum style style, const char *text);
void pen_format(struct pen *pen, int columns, enum style style, const char *format, ...) /* right-aligned */
    __attribute__((format(printf, 4, 5)));
/* Heads of columns: draw_heads(canvas, x, y, {5, "#"}, {-8, "lane"}); negative columns: left-aligned. Returns the pen after them. */
struct head {
    int columns;
    const char *text;
};
#define draw_heads(canvas, x, y, ...) draw_head_row(canvas, x, y, (const struct head[]){__VA_ARGS__, {0, NULL}})
struct pen draw_head_row(struct canvas canvas, int x, int y, const struct head *heads); /* ended by a NULL text */
