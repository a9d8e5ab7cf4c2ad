#include "tui/draw/animation.h"

#include <stdlib.h>
#include <string.h>

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
    const char *title, *facts;
    struct surface before; /* the last frame; columns 0: none yet */
    FILE *out;             /* what has been written of the frames */
    char *text;
    size_t bytes;
    double *since_s;              /* SVG: [rows], when each row began to look as it does */
    struct look looks[LOOKS_MAX]; /* HTML: in the order of their numbers; the first is plain */
    int look_count;
};

/* A string of JSON that may stand in a script of a page: no "<" is left. */
static void put_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (uint32_t character; (character = utf8_next(&text));) {
        char plain[5];
        utf8_encode(plain, character);
        if (character < ' ' || (character >= 0x7f && character < 0xa0) || strchr("<\"\\", (int)character))
            fprintf(out, "\\u%04x", character);
        else fputs(plain, out);
    }
    fputc('"', out);
}

struct animation *animation_begin(enum animation_as as, const char *title, const char *facts)
{
    struct animation *animation = calloc(1, sizeof *animation);
    if (!animation) return NULL;
    *animation = (struct animation){
        .as = as, .title = title, .facts = facts, .looks[0] = {COLOUR_DEFAULT, COLOUR_DEFAULT, 0}, .look_count = 1};
    animation->out = open_memstream(&animation->text, &animation->bytes);
    if (animation->out) return animation;
    free(animation);
    return NULL;
}

static bool differs(const struct animation *animation, const struct surface *surface, int y)
{
    for (int x = 0; animation->before.columns && x < surface->columns; x++) {
        const struct cell *now = surface_at(surface, x, y), *then = surface_at(&animation->before, x, y);
        if (now->character != then->character || !same_look(now->look, then->look)) return true;
    }
    return !animation->before.columns;
}

/* ---- asciicast: a header as JSON, then an event a line: [time, "o", output] ---- */

static void cast_head(struct animation *animation, const struct surface *surface)
{
    fprintf(animation->out, "{\"version\": 2, \"width\": %d, \"height\": %d, \"title\": ", surface->columns,
            surface->rows);
    put_json_text(animation->out, animation->title);
    fputs(", \"env\": {\"TERM\": \"xterm-256color\"}}\n", animation->out);
}

/* One write of the rows that differ; the first one clears the screen and hides the cursor. */
static bool cast_frame(struct animation *animation, const struct surface *surface, double at_s)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return false;
    if (!animation->before.columns) cast_head(animation, surface), fputs("\033[?25l\033[2J", out);
    for (int y = 0; y < surface->rows; y++) {
        if (!differs(animation, surface, y)) continue;
        fprintf(out, "\033[%d;1H\033[2K", y + 1);
        row_to_ansi(out, surface, y);
    }
    const bool good = fclose(out) == 0;
    if (good && *text) {
        fprintf(animation->out, "[%.3f, \"o\", ", at_s);
        put_json_text(animation->out, text);
        fputs("]\n", animation->out);
    }
    free(text);
    return good;
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

static bool svg_frame(struct animation *animation, const struct surface *surface, double at_s)
{
    if (!animation->since_s) {
        animation->since_s = calloc((size_t)surface->rows, sizeof *animation->since_s);
        if (animation->since_s) svg_head(animation->out, surface);
        return animation->since_s;
    }
    for (int y = 0; y < surface->rows; y++) {
        if (!differs(animation, surface, y)) continue;
        svg_row(animation, y, at_s);
        animation->since_s[y] = at_s;
    }
    return true;
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
        for (int i = x; i < end && at < text + sizeof text - 5; i++, at += strlen(at))
            utf8_encode(at, surface_at(surface, i, y)->character);
        put_json_text(animation->out, text);
    }
    fputc(']', animation->out);
}

static void html_frame(struct animation *animation, const struct surface *surface, double at_s, const char *label)
{
    const char *comma = "";
    fprintf(animation->out, "%s\n[%.0f, ", animation->before.columns ? "," : "", at_s * 1e3);
    put_json_text(animation->out, label);
    fputs(", [", animation->out);
    for (int y = 0; y < surface->rows; y++) {
        if (!differs(animation, surface, y)) continue;
        fprintf(animation->out, "%s%d,", comma, y);
        html_row(animation, surface, y);
        comma = ",";
    }
    fputs("]]", animation->out);
}

static void put_looks(FILE *out, const struct animation *animation)
{
    char ground[8];
    write_ground(ground, animation->before.theme);
    fprintf(out, "#screen { background: %s; }\n", ground);
    for (int l = 0; l < animation->look_count; l++) {
        const struct look look = animation->looks[l];
        const struct look_colours colours = look_colours(look, animation->before.theme);
        fprintf(out, ".l%d { color: %s;", l, colours.front);
        if (*colours.back) fprintf(out, " background: %s;", colours.back);
        if (look.attributes & ATTRIBUTE_BOLD) fputs(" font-weight: bold;", out);
        if (look.attributes & ATTRIBUTE_UNDERLINE) fputs(" text-decoration: underline;", out);
        fputs(" }\n", out);
    }
}

/* player.html, in which {{frames}} and other words in braces stand for what is put in. */
static void put_page(FILE *out, const struct animation *animation)
{
    const char *at = player_page;
    for (const char *word; (word = strstr(at, "{{")); at = strstr(word, "}}") + 2) {
        fwrite(at, 1, (size_t)(word - at), out);
        word += 2;
        if (!strncmp(word, "title}}", 7)) put_escaped(out, animation->title);
        else if (!strncmp(word, "facts}}", 7)) put_escaped(out, animation->facts);
        else if (!strncmp(word, "looks}}", 7)) put_looks(out, animation);
        else if (!strncmp(word, "columns}}", 9)) fprintf(out, "%d", animation->before.columns);
        else if (!strncmp(word, "rows}}", 6)) fprintf(out, "%d", animation->before.rows);
        else fputs(animation->text, out);
    }
    fputs(at, out);
}

/* ---- all of them ---- */

bool animation_add(struct animation *animation, const struct surface *surface, double at_s, const char *label)
{
    struct surface *before = &animation->before;
    bool good = true;
    if (animation->as == ANIMATION_SVG) good = svg_frame(animation, surface, at_s);
    else if (animation->as == ANIMATION_CAST) good = cast_frame(animation, surface, at_s);
    else html_frame(animation, surface, at_s, label);
    if (good && !before->columns &&
        !surface_init(before, surface->columns, surface->rows, surface->theme, surface->ascii))
        *before = (struct surface){0}, good = false;
    if (!good) return false;
    memcpy(before->cells, surface->cells, (size_t)surface->columns * (size_t)surface->rows * sizeof *surface->cells);
    return true;
}

static void end_frames(struct animation *animation, double until_s)
{
    if (animation->as == ANIMATION_SVG) svg_end(animation, until_s);
    else if (animation->as == ANIMATION_CAST)
        fprintf(animation->out, "[%.3f, \"o\", \"\\u001b[%d;1H\\r\\n\\u001b[?25h\"]\n", until_s,
                animation->before.rows);
    else fprintf(animation->out, ",\n[%.0f]", until_s * 1e3);
}

/* The page has its frames in the middle, and the colours that they use at its head. */
static char *page_of(struct animation *animation)
{
    char *page = NULL;
    size_t bytes;
    FILE *out = open_memstream(&page, &bytes);
    if (!out) return NULL;
    put_page(out, animation);
    if (fclose(out) == 0) return page;
    free(page);
    return NULL;
}

char *animation_end(struct animation *animation, double until_s)
{
    char *text = NULL;
    if (!animation) return NULL;
    if (animation->before.columns) end_frames(animation, until_s);
    const bool good = fclose(animation->out) == 0 && animation->before.columns;
    if (good && animation->as == ANIMATION_HTML) text = page_of(animation);
    else if (good) text = animation->text, animation->text = NULL;
    free(animation->text);
    free(animation->since_s);
    surface_release(&animation->before);
    free(animation);
    return text;
}
