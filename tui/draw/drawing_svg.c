/* A drawing as SVG. Colours are CSS classes of the project's styles, so that one picture serves a dark and a light ground. */
#include "tui/draw/drawing.h"
#include "tui/draw/output.h"

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

static void put_rect(FILE *out, const struct shape *shape, const char *class)
{
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
    for (int s = 0; s < drawing->count; s++) {
        const struct shape *shape = &drawing->shapes[s];
        switch (shape->kind) {
        case SHAPE_BOX: put_rect(out, shape, "box"); break;
        case SHAPE_SHADE: put_rect(out, shape, "shade"); break;
        case SHAPE_LINE:
        case SHAPE_RULE: put_path(out, shape); break;
        case SHAPE_MARK: put_mark(out, shape); break;
        case SHAPE_TEXT: put_text(out, shape); break;
        }
    }
    fputs("</svg>\n", out);
}
