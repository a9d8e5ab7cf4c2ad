/* Surface to plain text, ANSI and SVG. */
#include "tui/draw/output.h"

#include <stdio.h>
#include <stdlib.h>

void utf8_encode(char out[5], uint32_t character)
{
    char *at = out;
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
    *at = '\0';
}

static void put_cell(FILE *out, const struct cell *cell)
{
    char text[5];
    utf8_encode(text, cell->character);
    fputs(text, out);
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

static char *finish(FILE *out, char **text)
{
    if (fclose(out) == 0) return *text;
    free(*text);
    return NULL;
}

char *surface_to_text(const struct surface *surface)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    for (int y = 0; y < surface->rows; y++) {
        int end = row_end(surface, y, false);
        for (int x = 0; x < end; x++) put_cell(out, surface_at(surface, x, y));
        fputc('\n', out);
    }
    return finish(out, &text);
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

char *surface_to_ansi(const struct surface *surface)
{
    static const struct look plain = {COLOUR_DEFAULT, COLOUR_DEFAULT, 0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    for (int y = 0; y < surface->rows; y++) {
        struct look now = plain;
        int end = row_end(surface, y, true);
        for (int x = 0; x < end; x++) {
            const struct cell *cell = surface_at(surface, x, y);
            if (!same_look(cell->look, now)) put_sgr(out, now = cell->look, surface->depth);
            put_cell(out, cell);
        }
        fputs(same_look(now, plain) ? "\n" : "\033[0m\n", out);
    }
    return finish(out, &text);
}

enum { SVG_CELL_X = 9, SVG_CELL_Y = 17 };

static const char *rgb(char out[8], uint8_t colour, const char *otherwise)
{
    static const char *const palette[16] = {"#16191d", "#d55e00", "#009e73", "#e69f00", "#0072b2", "#8b4f86",
                                            "#56b4e9", "#c4c9cf", "#6b737c", "#e8743b", "#3fbf97", "#f0e442",
                                            "#7ea6e0", "#cc79a7", "#9ad5f5", "#ffffff"};
    if (colour == COLOUR_DEFAULT) return otherwise;
    if (colour < 16) return palette[colour];
    snprintf(out, 8, "#%06x", colour_rgb(colour));
    return out;
}

static void svg_escape(FILE *out, const struct cell *cell)
{
    if (cell->character == '<') fputs("&lt;", out);
    else if (cell->character == '&') fputs("&amp;", out);
    else put_cell(out, cell);
}

/* One run of cells with one look: a rectangle where it has a background, then its text. */
static void svg_run(FILE *out, const struct surface *surface, int y, int x, int end, const char *ink, const char *paper)
{
    struct look look = surface_at(surface, x, y)->look;
    char room[2][8];
    const char *front = rgb(room[0], look.foreground, ink), *back = rgb(room[1], look.background, NULL);
    if (look.attributes & ATTRIBUTE_REVERSE) {
        back = front;
        front = rgb(room[1], look.background, paper);
    }
    if (back)
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", x * SVG_CELL_X,
                y * SVG_CELL_Y, (end - x) * SVG_CELL_X, SVG_CELL_Y, back);
    fprintf(out, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" fill=\"%s\"%s%s>", x * SVG_CELL_X, y * SVG_CELL_Y + 14,
            (end - x) * SVG_CELL_X, front, look.attributes & ATTRIBUTE_BOLD ? " font-weight=\"bold\"" : "",
            look.attributes & ATTRIBUTE_UNDERLINE ? " text-decoration=\"underline\"" : "");
    for (int i = x; i < end; i++) svg_escape(out, surface_at(surface, i, y));
    fputs("</text>\n", out);
}

static void svg_row(FILE *out, const struct surface *surface, int y, const char *ink, const char *paper)
{
    int end = row_end(surface, y, true);
    for (int x = 0, next; x < end; x = next) {
        next = x + 1;
        while (next < end && same_look(surface_at(surface, x, y)->look, surface_at(surface, next, y)->look)) next++;
        svg_run(out, surface, y, x, next, ink, paper);
    }
}

char *surface_to_svg(const struct surface *surface)
{
    bool light = surface->theme == THEME_LIGHT || surface->theme == THEME_MONO;
    const char *ink = light ? "#16191d" : "#e4e7ea";
    char paper[8];
    int width = surface->columns * SVG_CELL_X, height = surface->rows * SVG_CELL_Y;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    snprintf(paper, sizeof paper, "#%06x", theme_ground(surface->theme));
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans Mono, monospace\" "
        "font-size=\"15\" xml:space=\"preserve\">\n<style>text { white-space: pre; }</style>\n<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
        width, height, width, height, paper);
    for (int y = 0; y < surface->rows; y++) svg_row(out, surface, y, ink, paper);
    fputs("</svg>\n", out);
    return finish(out, &text);
}
