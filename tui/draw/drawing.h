/* A drawing is a list of shapes on a grid of character cells, x to the right and y down, in fractions of a cell: what a chart (chart.h)
 * draws once, and what is then shown on a surface or written as SVG. Text stands on whole cells in both, so what does not
 * overlap in one does not in the other.
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
    double x, y, x2, y2;               /* of a mark its middle; of text the cell where it begins */
    char letter;                       /* box: what fills it in ASCII */
    uint32_t pattern;                  /* box: what fills it where there are no colours */
    int mark;                          /* line: its dashes; mark: its form; shade: 0 to 4 */
    char text[SHAPE_TEXT_ROOM];        /* text, or what a box, a shade or a mark stands for, in words; "": nothing to say */
};

struct drawing { int columns, rows, count, room; struct shape *shapes; bool failed; };

/* Takes room as it needs it; without memory the drawing is `failed`, and showing it shows what there is. */
void drawing_add(struct drawing *drawing, const struct shape *shape);
/* Text that is too long for the row ends with "…". */
void drawing_text(struct drawing *drawing, double x, double y, enum style style, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void drawing_release(struct drawing *drawing);

/* Lines are dots of Braille characters, in ASCII points. */
void drawing_show(const struct drawing *drawing, struct canvas canvas);

/* An <svg> with its title and a description for screen readers, as an element of a page or of another <svg>, where its top is at `y`.
 * Both sizes are those of the <svg>. drawing_css(): the style sheet of all of them, for a light and a dark ground. */
void drawing_svg(FILE *out, const struct drawing *drawing, const char *title, const char *description, int y);
int drawing_width(const struct drawing *drawing);
int drawing_height(const struct drawing *drawing);
void drawing_css(FILE *out);
