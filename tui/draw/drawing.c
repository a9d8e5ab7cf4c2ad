/* Shapes, and showing them on a surface. */
#include "tui/draw/drawing.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/base/words.h"
#include "tui/draw/bar.h"

void drawing_add(struct drawing *drawing, const struct shape *shape)
{
    struct shape *own = array_add(drawing->shapes, drawing->count, drawing->room);
    if (own) *own = *shape;
    else drawing->failed = true;
}

void drawing_text(struct drawing *drawing, double x, double y, enum style style, const char *format, ...)
{
    struct shape shape = {.kind = SHAPE_TEXT, .style = style, .x = x, .y = y};
    FORMAT_ARGUMENTS(shape.text, sizeof shape.text, format);
    const char *end = shape.text;
    for (int left = drawing->columns - (int)x - 1; left > 0; left--) utf8_next(&end);
    if (utf8_columns(end) > 1) snprintf(shape.text + (end - shape.text), 4, "\u2026");
    drawing_add(drawing, &shape);
}

void drawing_release(struct drawing *drawing)
{
    free(drawing->shapes);
    drawing->shapes = NULL;
    drawing->count = drawing->room = 0;
}

static uint32_t mark_character(int mark, bool ascii)
{
    static const uint32_t marks[SHAPE_MARKS] = {0x25cf, 0x25a0, 0x25b2, 0x25c6, 0x25cb, 0x25a1, 0x25b3, 0x25c7};
    return ascii ? (uint32_t) "ox*+%@&$"[mark % SHAPE_MARKS] : marks[mark % SHAPE_MARKS];
}

/* ---- on a surface ---- */

/* A cell is filled where the box covers half of it. The highest row of a box that goes on below may be a lower block. */
static void show_box(struct canvas canvas, const struct shape *box)
{
    const uint32_t fill = filling(canvas.surface, box->style, box->letter, box->pattern);
    for (int y = (int)floor(box->y); y < box->y2; y++) {
        const double covered = fmin(box->y2, y + 1) - fmax(box->y, y);
        const uint32_t part = (uint32_t)(8 * covered);
        for (int x = (int)(box->x + 0.5); x < (int)(box->x2 + 0.5); x++)
            if (covered >= 0.5) draw_character(canvas, x, y, box->style, fill);
            else if (part && box->y2 >= y + 1 && !canvas.surface->ascii)
                draw_shape(canvas, x, y, box->style, 0x2580 + part);
    }
}

static void show_shade(struct canvas canvas, const struct shape *shade)
{
    static const uint32_t shades[] = {' ', 0x2591, 0x2592, 0x2593, 0x2588};
    for (int y = (int)shade->y; y < (int)shade->y2; y++)
        draw_fill(canvas, (int)shade->x, y, (int)shade->x2 - (int)shade->x, shade->style, shades[shade->mark]);
}

static void show_rule(struct canvas canvas, const struct shape *rule)
{
    if (rule->x == rule->x2)
        for (int y = (int)rule->y; y < (int)rule->y2; y++) draw_over(canvas, (int)rule->x, y, rule->style, 0x2502);
    for (int x = (int)rule->x; x < (int)rule->x2; x++)
        draw_over(canvas, x, (int)rule->y, rule->style, rule->mark ? 0x2550 : 0x2500);
}

/* One dot of the 2 x 4 in a cell. */
static void show_dot(struct canvas canvas, enum style style, double x, double y)
{
    static const uint32_t dots[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    enum { BRAILLE = 0x2800 };
    const int column = (int)floor(x), row = (int)floor(y), right = (int)(2 * (x - column)), down = (int)(4 * (y - row));
    if (column < 0 || row < 0 || column >= canvas.at.columns || row >= canvas.at.rows) return;
    const uint32_t there = surface_at(canvas.surface, canvas.at.x + column, canvas.at.y + row)->character,
                   with = there >= BRAILLE && there < BRAILLE + 256 ? there : BRAILLE;
    if (canvas.surface->ascii) draw_character(canvas, column, row, style, '.');
    else draw_shape(canvas, column, row, style, with | dots[down][right]);
}

static void show_line(struct canvas canvas, const struct shape *line)
{
    const double x = line->x2 - line->x, y = line->y2 - line->y;
    const int steps = (int)(fmax(fabs(2 * x), fabs(4 * y))) + 1;
    for (int i = 0; i <= steps; i++) show_dot(canvas, line->style, line->x + x * i / steps, line->y + y * i / steps);
}

static void show_text(struct canvas canvas, const struct shape *shape)
{
    const char *at = shape->text;
    uint32_t character;
    for (int x = (int)shape->x; (character = utf8_next(&at)); x++)
        draw_over(canvas, x, (int)floor(shape->y + 0.5), shape->style, character);
}

void drawing_show(const struct drawing *drawing, struct canvas canvas)
{
    for (int s = 0; s < drawing->count; s++) {
        const struct shape *shape = &drawing->shapes[s];
        switch (shape->kind) {
        case SHAPE_BOX: show_box(canvas, shape); break;
        case SHAPE_SHADE: show_shade(canvas, shape); break;
        case SHAPE_LINE: show_line(canvas, shape); break;
        case SHAPE_RULE: show_rule(canvas, shape); break;
        case SHAPE_MARK:
            draw_shape(canvas, (int)shape->x, (int)shape->y, shape->style,
                       mark_character(shape->mark, canvas.surface->ascii));
            break;
        case SHAPE_TEXT: show_text(canvas, shape); break;
        }
    }
}
