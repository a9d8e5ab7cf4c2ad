/* A drawing is a list of shapes on a grid of character cells, with x to the right and y down, in fractions of a cell. A chart (chart.h)
 * makes a drawing once, which is then shown on a surface or written as SVG. Text stands on whole cells in both, so texts that do
 * not overlap in one do not overlap in the other.
 *
 * Every area and line has a letter or a mark besides its style: colours only repeat what these say. */
#pragma once

#include <stdio.h>

#include "tui/draw/surface.h"

enum shape_kind { SHAPE_BOX, SHAPE_SHADE, SHAPE_LINE, SHAPE_RULE, SHAPE_MARK, SHAPE_TEXT };
enum { SHAPE_TEXT_ROOM = 120, SHAPE_MARKS = 8 };

struct shape {
    enum shape_kind kind;
    enum style style;
    double x, y, x2, y2;               /* corners or ends; mark: its middle; text: the cell where it begins */
    char letter;                       /* box: what fills it in ASCII */
    uint32_t pattern;                  /* box: what fills it where there are no colours */
    int mark;                          /* line: its dashes; mark: its form; shade: 0 to 4; rule: 1 for a limit */
    char text[SHAPE_TEXT_ROOM];        /* the text; of a box, shade or mark what it stands for, in words; "": nothing */
};

struct drawing { int columns, rows, count, room; struct shape *shapes; bool failed; };

/* Adds a copy of the shape. Without memory it sets `failed`; the drawing then lacks that shape. */
void drawing_add(struct drawing *drawing, const struct shape *shape);
/* Text that is too long for the row ends with "…". */
void drawing_text(struct drawing *drawing, double x, double y, enum style style, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void drawing_release(struct drawing *drawing);

/* Shows the drawing on a canvas. Lines become dots of Braille characters, in ASCII points. */
void drawing_show(const struct drawing *drawing, struct canvas canvas);

/* Writes an <svg> with a title and a description for screen readers, as an element of a page or of another <svg>, in which its top is at
 * `y`. drawing_width() and drawing_height(): its size in units of SVG. drawing_css(): the style sheet of all drawings, for a light
 * and a dark ground. */
void drawing_svg(FILE *out, const struct drawing *drawing, const char *title, const char *description, int y);
int drawing_width(const struct drawing *drawing);
int drawing_height(const struct drawing *drawing);
void drawing_css(FILE *out);
