#include "tui/draw/animation.h"

#include <string.h>

#include "engine/base/text_stream.h"
#include "tui/draw/output.h"

__asm__(".pushsection .rodata\n"
        ".global player_page\n"
        "player_page: .incbin \"tui/draw/player.html\"\n"
        ".byte 0\n"
        ".popsection");
extern const char player_page[];

enum { LOOKS_MAX = 1024 };

struct animation {
    enum animation_as as;
    bool begun; /* there is a frame, which `before` holds */
    struct surface before;
    struct text_stream text;
    FILE *out;                    /* writes to text */
    double *since_s;              /* SVG: [rows], when each row began to look as it does */
    const char *page;             /* HTML: what is left of player.html */
    struct look looks[LOOKS_MAX]; /* HTML: in the order of their numbers; the first is plain */
    int look_count;
};

/* A string of JSON that may stand in a script of a page: no "<" is left. */
static void put_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (uint32_t character; (character = utf8_next(&text));)
        if (character < ' ' || (character >= 0x7f && character < 0xa0) || strchr("<\"\\", (int)character))
            fprintf(out, "\\u%04x", character);
        else fputs(utf8_of(character).text, out);
    fputc('"', out);
}

static bool differs(const struct animation *animation, const struct surface *surface, int y)
{
    for (int x = 0; animation->begun && x < surface->columns; x++) {
        const struct cell *now = surface_at(surface, x, y), *then = surface_at(&animation->before, x, y);
        if (now->character != then->character || !same_look(now->look, then->look)) return true;
    }
    return !animation->begun;
}

/* ---- asciicast: a header as JSON, then an event a line: [time, "o", output] ---- */

static void cast_head(struct animation *animation, const char *title)
{
    fprintf(animation->out,
            "{\"version\": 2, \"width\": %d, \"height\": %d, \"env\": {\"TERM\": \"xterm-256color\"}, \"title\": ",
            animation->before.columns, animation->before.rows);
    put_json_text(animation->out, title);
    fputs("}\n", animation->out);
}

/* One write of the rows that differ; the first one clears the screen and hides the cursor. */
static bool cast_frame(struct animation *animation, const struct surface *surface, double at_s)
{
    struct text_stream rows;
    FILE *out = text_stream_open(&rows);
    if (!out) return false;
    if (!animation->begun) fputs("\033[?25l\033[2J", out);
    for (int y = 0; y < surface->rows; y++) {
        if (!differs(animation, surface, y)) continue;
        fprintf(out, "\033[%d;1H\033[2K", y + 1);
        row_to_ansi(out, surface, y);
    }
    char *text = text_stream_close(&rows);
    if (text && *text) {
        fprintf(animation->out, "[%.3f, \"o\", ", at_s);
        put_json_text(animation->out, text);
        fputs("]\n", animation->out);
    }
    free(text);
    return text != NULL;
}

/* ---- SVG: each look of a row is a group that is visible for a while; the element `time` goes round, and they with it ---- */

/* The look that a row has had since since_s. until_s < 0: it is the last one, which programs that do not animate show. */
static void svg_row(struct animation *animation, int y, double until_s)
{
    const double since_s = animation->since_s[y];
    int x, end = 0;
    if (!next_run(&animation->before, y, &x, &end)) return;
    if (until_s >= 0)
        fprintf(animation->out,
                "<g visibility=\"hidden\"><set attributeName=\"visibility\" to=\"visible\" begin=\"time.begin+%.3fs\" "
                "dur=\"%.3fs\"/>\n",
                since_s, until_s - since_s);
    else if (since_s > 0)
        fprintf(animation->out,
                "<g><set attributeName=\"visibility\" to=\"hidden\" begin=\"time.begin\" dur=\"%.3fs\"/>\n", since_s);
    else fputs("<g>\n", animation->out);
    row_to_svg(animation->out, &animation->before, y);
    fputs("</g>\n", animation->out);
}

static void svg_frame(struct animation *animation, const struct surface *surface, double at_s)
{
    for (int y = 0; animation->begun && y < surface->rows; y++) {
        if (!differs(animation, surface, y)) continue;
        svg_row(animation, y, at_s);
        animation->since_s[y] = at_s;
    }
}

static void svg_end(struct animation *animation, double until_s)
{
    for (int y = 0; y < animation->before.rows; y++) svg_row(animation, y, -1);
    fprintf(
        animation->out,
        "<rect width=\"0\" height=\"0\"><animate id=\"time\" attributeName=\"x\" values=\"0\" begin=\"0s;time.end\" "
        "dur=\"%.3fs\"/></rect>\n</svg>\n",
        until_s);
}

/* ---- HTML: a frame is [milliseconds, label, [y, row, y, row ...]], a row [look, text, look, text ...] ---- */

static int look_number(struct animation *animation, struct look look)
{
    int number = 0;
    while (number < animation->look_count && !same_look(animation->looks[number], look)) number++;
    if (number == LOOKS_MAX) return 0;
    if (number == animation->look_count) animation->looks[animation->look_count++] = look;
    return number;
}

static void html_row(struct animation *animation, const struct surface *surface, int y)
{
    char text[5 * 1000 + 1]; /* as wide as a frame may be */
    fputc('[', animation->out);
    for (int x, end = 0; next_run(surface, y, &x, &end);) {
        fprintf(animation->out, "%s%d,", x ? "," : "", look_number(animation, surface_at(surface, x, y)->look));
        char *at = text;
        for (int i = x; i < end && at < text + sizeof text - 5; i++)
            at = stpcpy(at, utf8_of(surface_at(surface, i, y)->character).text);
        put_json_text(animation->out, text);
    }
    fputc(']', animation->out);
}

static void html_frame(struct animation *animation, const struct surface *surface, double at_s, const char *label)
{
    const char *comma = "";
    fprintf(animation->out, "[%.0f, ", at_s * 1e3);
    put_json_text(animation->out, label);
    fputs(", [", animation->out);
    for (int y = 0; y < surface->rows; y++) {
        if (!differs(animation, surface, y)) continue;
        fprintf(animation->out, "%s%d,", comma, y);
        html_row(animation, surface, y);
        comma = ",";
    }
    fputs("]],\n", animation->out);
}

/* Their declarations in CSS, as strings. */
static void put_looks(const struct animation *animation)
{
    for (int l = 0; l < animation->look_count; l++) {
        const struct look look = animation->looks[l];
        const struct look_colours colours = look_colours(look, animation->before.theme);
        fprintf(animation->out, "\"color: %s;%s%s%s%s\",\n", colours.front, *colours.back ? " background: " : "",
                colours.back, look.attributes & ATTRIBUTE_BOLD ? "; font-weight: bold" : "",
                look.attributes & ATTRIBUTE_UNDERLINE ? "; text-decoration: underline" : "");
    }
}

/* Writes player.html from where it was left to {{frames}}, or to its end. Other words in braces stand for what is put in. */
static void put_page(struct animation *animation, const char *title, const char *facts)
{
    const struct surface *surface = &animation->before;
    const char *word = NULL;
    while ((!word || strncmp(word, "{{frames", 8)) && (word = strstr(animation->page, "{{"))) {
        fwrite(animation->page, 1, (size_t)(word - animation->page), animation->out);
        animation->page = strstr(word, "}}") + 2;
        if (!strncmp(word, "{{title", 7)) put_escaped(animation->out, title);
        else if (!strncmp(word, "{{facts", 7)) put_escaped(animation->out, facts);
        else if (!strncmp(word, "{{looks", 7)) put_looks(animation);
        else if (!strncmp(word, "{{ground", 8))
            fputs(look_colours(animation->looks[0], surface->theme).ground, animation->out);
        else if (!strncmp(word, "{{columns", 9)) fprintf(animation->out, "%d", surface->columns);
        else if (!strncmp(word, "{{rows", 6)) fprintf(animation->out, "%d", surface->rows);
    }
    if (!word) fputs(animation->page, animation->out);
}

/* ---- all of them ---- */

struct animation *animation_begin(enum animation_as as, const struct surface *like, const char *title,
                                  const char *facts)
{
    struct animation *animation = calloc(1, sizeof *animation);
    if (!animation) return NULL;
    *animation = (struct animation){
        .as = as, .page = player_page, .looks[0] = {COLOUR_DEFAULT, COLOUR_DEFAULT, 0}, .look_count = 1};
    animation->out = text_stream_open(&animation->text);
    animation->since_s = calloc((size_t)like->rows, sizeof *animation->since_s);
    if (!surface_init(&animation->before, like->columns, like->rows, like->theme, like->ascii) || !animation->out ||
        !animation->since_s) {
        free(animation_end(animation, 0));
        return NULL;
    }
    animation->before.depth = like->depth;
    if (as == ANIMATION_SVG) svg_head(animation->out, like);
    else if (as == ANIMATION_CAST) cast_head(animation, title);
    else put_page(animation, title, facts);
    return animation;
}

bool animation_add(struct animation *animation, const struct surface *surface, double at_s, const char *label)
{
    if (animation->as == ANIMATION_SVG) svg_frame(animation, surface, at_s);
    else if (animation->as == ANIMATION_HTML) html_frame(animation, surface, at_s, label);
    else if (!cast_frame(animation, surface, at_s)) return false;
    memcpy(animation->before.cells, surface->cells,
           (size_t)surface->columns * (size_t)surface->rows * sizeof *surface->cells);
    return animation->begun = true;
}

static void end_frames(struct animation *animation, double until_s)
{
    if (animation->as == ANIMATION_SVG) svg_end(animation, until_s);
    else if (animation->as == ANIMATION_CAST)
        fprintf(animation->out, "[%.3f, \"o\", \"\\u001b[%d;1H\\r\\n\\u001b[?25h\"]\n", until_s,
                animation->before.rows);
    else fprintf(animation->out, "[%.0f]", until_s * 1e3), put_page(animation, NULL, NULL);
}

char *animation_end(struct animation *animation, double until_s)
{
    if (!animation) return NULL;
    if (animation->begun) end_frames(animation, until_s);
    char *text = text_stream_close(&animation->text);
    if (!animation->begun) free(text), text = NULL;
    free(animation->since_s);
    surface_release(&animation->before);
    free(animation);
    return text;
}
