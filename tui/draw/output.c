#include "tui/draw/output.h"

#include "engine/base/text_stream.h"

struct utf8 utf8_of(uint32_t character)
{
    struct utf8 out = {""};
    char *at = out.text;
    if (character < 0x80) {
        *at++ = (char)character;
    } else if (character < 0x800) {
        *at++ = (char)(0xc0 | character >> 6);
        *at++ = (char)(0x80 | (character & 0x3f));
    } else {
        if (character < 0x10000) {
            *at++ = (char)(0xe0 | character >> 12);
        } else {
            *at++ = (char)(0xf0 | character >> 18);
            *at++ = (char)(0x80 | (character >> 12 & 0x3f));
        }
        *at++ = (char)(0x80 | (character >> 6 & 0x3f));
        *at++ = (char)(0x80 | (character & 0x3f));
    }
    return out;
}

static bool is_plain_blank(const struct cell *cell)
{
    return cell->character == ' ' && cell->look.background == COLOUR_DEFAULT &&
           !(cell->look.attributes & (ATTRIBUTE_REVERSE | ATTRIBUTE_UNDERLINE));
}

/* One past the last cell of a row that shows something. */
static int row_end(const struct surface *surface, int y, bool looks_count)
{
    int end = surface->columns;
    while (end > 0) {
        const struct cell *cell = surface_at(surface, end - 1, y);
        if (looks_count ? !is_plain_blank(cell) : cell->character != ' ') break;
        end--;
    }
    return end;
}

char *surface_to_text(const struct surface *surface)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    for (int y = 0; y < surface->rows; y++) {
        int end = row_end(surface, y, false);
        for (int x = 0; x < end; x++) fputs(utf8_of(surface_at(surface, x, y)->character).text, out);
        fputc('\n', out);
    }
    return text_stream_close(&text);
}

static void put_colour(FILE *out, int normal, int bright, uint8_t colour, enum depth depth)
{
    const uint32_t rgb = colour < 16 ? 0 : colour_rgb(colour);
    if (colour == COLOUR_DEFAULT) return;
    if (colour < 16) fprintf(out, ";%d", colour < 8 ? normal + colour : bright + colour - 8);
    else if (depth == DEPTH_256) fprintf(out, ";%d;5;%d", normal + 8, colour);
    else fprintf(out, ";%d;2;%u;%u;%u", normal + 8, rgb >> 16, rgb >> 8 & 255, rgb & 255);
}

static void put_sgr(FILE *out, struct look look, enum depth depth)
{
    fputs("\033[0", out);
    if (look.attributes & ATTRIBUTE_BOLD) fputs(";1", out);
    if (look.attributes & ATTRIBUTE_UNDERLINE) fputs(";4", out);
    if (look.attributes & ATTRIBUTE_REVERSE) fputs(";7", out);
    put_colour(out, 30, 90, look.foreground, depth);
    put_colour(out, 40, 100, look.background, depth);
    fputc('m', out);
}

void row_to_ansi(FILE *out, const struct surface *surface, int y)
{
    static const struct look plain = {COLOUR_DEFAULT, COLOUR_DEFAULT, 0};
    struct look now = plain;
    int end = row_end(surface, y, true);
    for (int x = 0; x < end; x++) {
        const struct cell *cell = surface_at(surface, x, y);
        if (!same_look(cell->look, now)) put_sgr(out, now = cell->look, surface->depth);
        fputs(utf8_of(cell->character).text, out);
    }
    if (!same_look(now, plain)) fputs("\033[0m", out);
}

char *surface_to_ansi(const struct surface *surface)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    for (int y = 0; y < surface->rows; y++) {
        row_to_ansi(out, surface, y);
        fputc('\n', out);
    }
    return text_stream_close(&text);
}

enum { SVG_CELL_X = 9, SVG_CELL_Y = 17 };

/* otherwise: of the default colour. */
static void write_rgb(char out[8], uint8_t colour, const char *otherwise)
{
    static const char *const palette[16] = {"#16191d", "#d55e00", "#009e73", "#e69f00", "#0072b2", "#8b4f86",
                                            "#56b4e9", "#c4c9cf", "#6b737c", "#e8743b", "#3fbf97", "#f0e442",
                                            "#7ea6e0", "#cc79a7", "#9ad5f5", "#ffffff"};
    if (colour == COLOUR_DEFAULT || colour < 16) snprintf(out, 8, "%s", colour < 16 ? palette[colour] : otherwise);
    else snprintf(out, 8, "#%06x", colour_rgb(colour));
}

void put_escaped(FILE *out, const char *text)
{
    for (uint32_t character; (character = utf8_next(&text));) {
        const bool control = character < ' ' || (character >= 0x7f && character < 0xa0);
        const struct utf8 plain = utf8_of(control ? '?' : character);
        fputs(character == '<' ? "&lt;" : character == '&' ? "&amp;" : plain.text, out);
    }
}

struct look_colours look_colours(struct look look, enum theme theme)
{
    const char *ink = theme == THEME_LIGHT || theme == THEME_MONO ? "#16191d" : "#e4e7ea";
    const bool reverse = look.attributes & ATTRIBUTE_REVERSE;
    struct look_colours colours;
    snprintf(colours.ground, sizeof colours.ground, "#%06x", theme_ground(theme));
    write_rgb(reverse ? colours.back : colours.front, look.foreground, ink);
    write_rgb(reverse ? colours.front : colours.back, look.background, reverse ? colours.ground : "");
    return colours;
}

bool next_run(const struct surface *surface, int y, int *x, int *end)
{
    const int last = row_end(surface, y, true);
    if (*end >= last) return false;
    *x = (*end)++;
    while (*end < last && same_look(surface_at(surface, *x, y)->look, surface_at(surface, *end, y)->look)) (*end)++;
    return true;
}

/* One run of cells with one look: a rectangle where it has a background, then its text. */
static void svg_run(FILE *out, const struct surface *surface, int y, int x, int end)
{
    const struct look look = surface_at(surface, x, y)->look;
    const struct look_colours colours = look_colours(look, surface->theme);
    if (*colours.back)
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", x * SVG_CELL_X,
                y * SVG_CELL_Y, (end - x) * SVG_CELL_X, SVG_CELL_Y, colours.back);
    fprintf(out, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" fill=\"%s\"%s%s>", x * SVG_CELL_X, y * SVG_CELL_Y + 14,
            (end - x) * SVG_CELL_X, colours.front, look.attributes & ATTRIBUTE_BOLD ? " font-weight=\"bold\"" : "",
            look.attributes & ATTRIBUTE_UNDERLINE ? " text-decoration=\"underline\"" : "");
    for (int i = x; i < end; i++) put_escaped(out, utf8_of(surface_at(surface, i, y)->character).text);
    fputs("</text>\n", out);
}

void row_to_svg(FILE *out, const struct surface *surface, int y)
{
    for (int x, end = 0; next_run(surface, y, &x, &end);) svg_run(out, surface, y, x, end);
}

void svg_head(FILE *out, const struct surface *surface)
{
    const int width = surface->columns * SVG_CELL_X, height = surface->rows * SVG_CELL_Y;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans Mono, monospace\" "
        "font-size=\"15\" xml:space=\"preserve\">\n<style>text { white-space: pre; }</style>\n<rect width=\"%d\" "
        "height=\"%d\" fill=\"%s\"/>\n",
        width, height, width, height, look_colours((struct look){0}, surface->theme).ground);
}

char *surface_to_svg(const struct surface *surface)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    svg_head(out, surface);
    for (int y = 0; y < surface->rows; y++) row_to_svg(out, surface, y);
    fputs("</svg>\n", out);
    return text_stream_close(&text);
}
