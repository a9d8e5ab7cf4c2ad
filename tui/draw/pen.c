/* Table rows. */
#include "tui/draw/pen.h"

#include <stdarg.h>
#include <stdio.h>

struct pen pen_at(struct canvas canvas, int x, int y)
{
    return (struct pen){canvas, x, y, false};
}

static bool fits(struct pen *pen, int columns)
{
    if (pen->x + columns > pen->canvas.at.columns) pen->full = true;
    return !pen->full;
}

void pen_right(struct pen *pen, int columns, enum style style, const char *text)
{
    if (!fits(pen, columns)) return;
    int blanks = columns - utf8_columns(text);
    draw_text(canvas_part(pen->canvas, pen->x, pen->y, columns, 1), blanks > 0 ? blanks : 0, 0, style, text);
    pen->x += columns;
}

void pen_left(struct pen *pen, int columns, enum style style, const char *text)
{
    if (!fits(pen, columns)) return;
    draw_text(canvas_part(pen->canvas, pen->x, pen->y, columns, 1), 0, 0, style, text);
    pen->x += columns;
}

void pen_format(struct pen *pen, int columns, enum style style, const char *format, ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pen_right(pen, columns, style, text);
}
