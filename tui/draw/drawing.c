#include "tui/draw/drawing.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/base/words.h"
#include "tui/draw/bar.h"
#include "tui/draw/output.h"

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

static void show_mark(struct canvas canvas, const struct shape *shape)
{
    static const uint32_t marks[SHAPE_MARKS] = {0x25cf, 0x25a0, 0x25b2, 0x25c6, 0x25cb, 0x25a1, 0x25b3, 0x25c7};
    const int mark = shape->mark % SHAPE_MARKS;
    draw_shape(canvas, (int)shape->x, (int)shape->y, shape->style,
               canvas.surface->ascii ? (uint32_t) "ox*+%@&$"[mark] : marks[mark]);
}

void drawing_show(const struct drawing *drawing, struct canvas canvas)
{
    static void (*const show[])(struct canvas, const struct shape *) = {
        [SHAPE_BOX] = show_box,   [SHAPE_SHADE] = show_shade, [SHAPE_LINE] = show_line,
        [SHAPE_RULE] = show_rule, [SHAPE_MARK] = show_mark,   [SHAPE_TEXT] = show_text};
    for (int s = 0; s < drawing->count; s++) show[drawing->shapes[s].kind](canvas, &drawing->shapes[s]);
}

/* ---- as SVG: colours are CSS classes of the project's styles, so that one picture serves a dark and a light ground ---- */

enum { CELL_X = 9, CELL_Y = 18, EDGE = 10 };

/* The rules of one ground. Colours stand in them as they are: not every program that shows SVG knows variables of CSS. */
static void put_rules(FILE *out, enum theme theme)
{
    const struct look_colours plain = look_colours(style_look(theme, DEPTH_TRUE, STYLE_TEXT), theme);
    const bool light = theme == THEME_LIGHT;
    fprintf(
        out,
        ".page{background:%s;color:%s}.ground{fill:%s}.chart text{fill:%s}.chart .dim{fill:%s}.chart .dark{fill:%s}\n"
        ".rule{stroke:%s}.limit{stroke:%s}.shade{fill:%s;stroke:%s}.box{stroke:%s}\n",
        plain.ground, plain.front, plain.ground, plain.front, light ? "#59616b" : "#a3abb5", plain.ground,
        light ? "#c9ced4" : "#3b4149", plain.front, light ? "#08519c" : "#7ab8f5", plain.ground, plain.ground);
    for (int style = STYLE_PARAMETERS; style <= STYLE_UPDATE; style++) {
        const struct look_colours colours = look_colours(style_look(theme, DEPTH_TRUE, (enum style)style), theme);
        if (colours.back[0])
            fprintf(out, ".f%d{fill:%s}.l%d{stroke:%s}.chart .i%d{fill:%s}\n", style, colours.back, style, colours.back,
                    style, colours.front);
    }
    fprintf(out, ".chart .now{stroke:%s}\n", plain.front);
}

void drawing_css(FILE *out)
{
    fputs(".chart{font:14px 'DejaVu Sans Mono',monospace}.chart text{white-space:pre}.title{font-weight:bold}\n"
          ".line{fill:none;stroke-width:2}.box{stroke-width:.7}.limit{stroke-width:2;stroke-dasharray:9 4}\n"
          ".now{stroke-width:3}\n",
          out);
    put_rules(out, THEME_LIGHT);
    fputs("@media (prefers-color-scheme:dark){\n", out);
    put_rules(out, THEME_DEFAULT);
    fputs("}\n", out);
}

/* Ends an element, with what it stands for. */
static void put_said(FILE *out, const char *text, const char *element)
{
    fputs(*text ? "><title>" : ">", out);
    put_escaped(out, text);
    fprintf(out, *text ? "</title></%s>\n" : "</%s>\n", element);
}

static void put_rect(FILE *out, const struct shape *shape)
{
    const char *class = shape->kind == SHAPE_BOX ? "box" : "shade";
    fprintf(out, "<rect class=\"%s f%d%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", class, shape->style,
            shape->text[0] ? " said" : "", CELL_X * shape->x, CELL_Y * shape->y, CELL_X * (shape->x2 - shape->x),
            CELL_Y * (shape->y2 - shape->y));
    if (shape->kind == SHAPE_SHADE) fprintf(out, " fill-opacity=\"%.2f\"", 0.08 + 0.23 * shape->mark);
    put_said(out, shape->text, "rect");
}

/* Half of the marks are hollow, so that four forms serve eight lines. */
static void put_mark(FILE *out, const struct shape *shape)
{
    static const char *const forms[4] = {"M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "M-5,-5h10v10h-10z", "M0,-6l6,11h-12z",
                                         "M0,-7l6,7l-6,7l-6,-7z"};
    char fill[16] = "ground";
    if (shape->mark % SHAPE_MARKS < 4) snprintf(fill, sizeof fill, "f%d", shape->style);
    fprintf(out, "<path class=\"l%d %s%s\" d=\"%s\" transform=\"translate(%.1f %.1f)\" stroke-width=\"2\"",
            shape->style, fill, shape->text[0] ? " said" : "", forms[shape->mark % 4], CELL_X * shape->x,
            CELL_Y * shape->y);
    put_said(out, shape->text, "path");
}

/* A line of a group has its dashes; a rule does not. */
static void put_path(FILE *out, const struct shape *shape)
{
    static const char *const dashes[4] = {"0", "8 3", "3 3", "10 3 3 3"};
    if (shape->kind == SHAPE_RULE) fprintf(out, "<path class=\"%s\"", shape->mark ? "limit" : "rule");
    else fprintf(out, "<path class=\"line l%d\" stroke-dasharray=\"%s\"", shape->style, dashes[shape->mark % 4]);
    fprintf(out, " d=\"M%.1f,%.1fL%.1f,%.1f\"/>\n", CELL_X * shape->x, CELL_Y * shape->y, CELL_X * shape->x2,
            CELL_Y * shape->y2);
}

static void put_text(FILE *out, const struct shape *shape)
{
    const enum style style = shape->style;
    char class[16] = "";
    if (style == STYLE_DIM || style == STYLE_TITLE) snprintf(class, sizeof class, style == STYLE_DIM ? "dim" : "title");
    else if (style == STYLE_SELECTED) snprintf(class, sizeof class, "dark");
    else if (style >= STYLE_PARAMETERS && style <= STYLE_UPDATE) snprintf(class, sizeof class, "i%d", style);
    if (!shape->text[0]) return;
    fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\">", class,
            CELL_X * shape->x, CELL_Y * shape->y + 14, CELL_X * utf8_columns(shape->text));
    put_escaped(out, shape->text);
    fputs("</text>\n", out);
}

int drawing_width(const struct drawing *drawing)
{
    return CELL_X * drawing->columns + 2 * EDGE;
}

int drawing_height(const struct drawing *drawing)
{
    return CELL_Y * drawing->rows + 2 * EDGE;
}

void drawing_svg(FILE *out, const struct drawing *drawing, const char *title, const char *description, int y)
{
    static void (*const put[])(FILE *, const struct shape *) = {
        [SHAPE_BOX] = put_rect,  [SHAPE_SHADE] = put_rect, [SHAPE_LINE] = put_path,
        [SHAPE_RULE] = put_path, [SHAPE_MARK] = put_mark,  [SHAPE_TEXT] = put_text};
    const int width = drawing_width(drawing), height = drawing_height(drawing);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"%d %d %d %d\" y=\"%d\" "
            "width=\"%d\" height=\"%d\">",
            -EDGE, -EDGE, width, height, y, width, height);
    fputs("<title>", out);
    put_escaped(out, title);
    fputs("</title><desc>", out);
    put_escaped(out, description);
    fprintf(out, "</desc>\n<rect class=\"ground\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", -EDGE, -EDGE,
            width, height);
    for (int s = 0; s < drawing->count; s++) put[drawing->shapes[s].kind](out, &drawing->shapes[s]);
    fputs("</svg>\n", out);
}
