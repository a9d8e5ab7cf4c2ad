#include "tui/draw/surface.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "engine/base/words.h"

/* ASCII characters that replace others on an ASCII surface. */
static const struct {
    uint32_t character;
    char twin;
} twins[] = {
    {0x2500, '-'}, {0x2502, '|'}, {0x2503, '|'}, {0x2501, '='}, {0x00b7, '-'}, {0x00d7, 'x'}, {0x2192, '>'},
    {0x2190, '<'}, {0x2191, '^'}, {0x2193, 'v'}, {0x25b6, '>'}, {0x25cf, '*'}, {0x2026, '~'}, {0x00b5, 'u'},
    {0x2260, '!'}, {0x2265, '>'}, {0x2264, '<'}, {0x2581, '_'}, {0x2582, '.'}, {0x2583, ','}, {0x2584, '-'},
    {0x2585, '='}, {0x2586, '+'}, {0x2587, '*'}, {0x2588, '#'}, {0x258f, '|'}, {0x2595, '+'}, {0x2506, '|'},
    {0x250a, ':'}, {0x2508, '.'}, {0x253c, '+'}, {0x251c, '|'}, {0x2524, '|'}, {0x2550, '='}, {0x25bc, 'v'},
    {0x25b2, '^'}, {0x25c6, '*'}, {0x2591, '.'}, {0x2592, ':'}, {0x2593, '%'}, {0x25a1, 'o'}, {0x2039, '<'},
    {0x203a, '>'}, {0x2551, '|'}, {0x2554, '+'}, {0x2557, '+'}, {0x255a, '+'}, {0x255d, '+'}, {0x2566, '+'},
    {0x2569, '+'}, {0x25b8, '>'}, {0x25ba, '>'}, {0x25c4, '<'}, {0x0394, 'd'},
};

static uint32_t ascii_twin(uint32_t character)
{
    for (size_t i = 0; i < sizeof twins / sizeof twins[0]; i++)
        if (twins[i].character == character) return (uint32_t)twins[i].twin;
    return '?';
}

/* Latin, Greek, Cyrillic, Braille, and the arrows, lines and blocks used here: one column wide in every terminal. */
static bool is_one_column(uint32_t character)
{
    return (character >= 0x20 && character < 0x7f) || (character >= 0xa1 && character < 0x300 && character != 0xad) ||
           (character >= 0x386 && character < 0x482) || (character >= 0x2010 && character < 0x2028) ||
           character == 0x2039 || character == 0x203a || (character >= 0x2190 && character < 0x2194) ||
           character == 0x2260 || character == 0x2264 || character == 0x2265 ||
           (character >= 0x2500 && character < 0x2600) || (character >= 0x2800 && character < 0x2900);
}

bool surface_init(struct surface *surface, int columns, int rows, enum theme theme, bool ascii)
{
    *surface = (struct surface){columns, rows, theme, ascii, DEPTH_16, NULL};
    if (columns <= 0 || rows <= 0) return false;
    surface->cells = malloc((size_t)columns * (size_t)rows * sizeof *surface->cells);
    if (!surface->cells) return false;
    surface_erase(surface);
    return true;
}

void surface_release(struct surface *surface)
{
    free(surface->cells);
    surface->cells = NULL;
}

void surface_erase(struct surface *surface)
{
    struct cell blank = {' ', surface_look(surface, STYLE_TEXT)};
    for (int i = 0; i < surface->columns * surface->rows; i++) surface->cells[i] = blank;
}

const struct cell *surface_at(const struct surface *surface, int x, int y)
{
    return &surface->cells[y * surface->columns + x];
}

struct look surface_look(const struct surface *surface, enum style style)
{
    return style_look(surface->theme, surface->depth, style);
}

struct canvas canvas_of(struct surface *surface)
{
    return (struct canvas){surface, {0, 0, surface->columns, surface->rows}};
}

struct canvas canvas_part(struct canvas canvas, int x, int y, int columns, int rows)
{
    int left = within(x, 0, canvas.at.columns), right = within(x + columns, left, canvas.at.columns);
    int top = within(y, 0, canvas.at.rows), bottom = within(y + rows, top, canvas.at.rows);
    return (struct canvas){canvas.surface, {canvas.at.x + left, canvas.at.y + top, right - left, bottom - top}};
}

struct canvas canvas_at(struct canvas canvas, struct rect part)
{
    return canvas_part(canvas, part.x, part.y, part.columns, part.rows);
}

static struct cell *cell_at(struct canvas canvas, int x, int y)
{
    if (x < 0 || y < 0 || x >= canvas.at.columns || y >= canvas.at.rows) return NULL;
    return &canvas.surface->cells[(canvas.at.y + y) * canvas.surface->columns + canvas.at.x + x];
}

static uint32_t shown(const struct surface *surface, uint32_t character)
{
    if (!is_one_column(character)) return '?';
    return surface->ascii && character >= 0x7f ? ascii_twin(character) : character;
}

void draw_character(struct canvas canvas, int x, int y, enum style style, uint32_t character)
{
    struct cell *cell = cell_at(canvas, x, y);
    if (cell) *cell = (struct cell){shown(canvas.surface, character), surface_look(canvas.surface, style)};
}

void draw_over(struct canvas canvas, int x, int y, enum style style, uint32_t character)
{
    struct cell *cell = cell_at(canvas, x, y);
    if (!cell) return;
    uint8_t background = cell->look.background;
    draw_character(canvas, x, y, style, character);
    if (background == COLOUR_DEFAULT) return;
    cell->look.background = background;
    cell->look.foreground = colour_ink(background);
}

void draw_shape(struct canvas canvas, int x, int y, enum style style, uint32_t character)
{
    struct cell *cell = cell_at(canvas, x, y);
    if (!cell) return;
    draw_character(canvas, x, y, style, character);
    if (cell->look.background == COLOUR_DEFAULT) return;
    cell->look = (struct look){cell->look.background, COLOUR_DEFAULT, 0};
}

void draw_lit(struct canvas canvas, int x, int y, enum style style)
{
    struct cell *cell = cell_at(canvas, x, y);
    if (!cell) return;
    const struct look look = surface_look(canvas.surface, style);
    if (cell->character == 0x2588) cell->character = 0x2587;
    if (cell->character == 0x00b7) cell->look.foreground = look.foreground; /* grey would not show on grey */
    if (look.background != COLOUR_DEFAULT) cell->look.background = look.background;
    cell->look.attributes |= look.attributes;
}

void draw_fill(struct canvas canvas, int x, int y, int columns, enum style style, uint32_t character)
{
    for (int i = 0; i < columns; i++) draw_character(canvas, x + i, y, style, character);
}

uint32_t utf8_next(const char **text)
{
    if (!**text) return 0;
    const int length = utf8_length(*text, strnlen(*text, 4));
    const uint32_t character = length > 0 ? utf8_character(*text, length) : '?';
    *text += length > 0 ? length : 1;
    return character;
}

int utf8_columns(const char *text)
{
    int columns = 0;
    while (utf8_next(&text)) columns++;
    return columns;
}

int draw_text(struct canvas canvas, int x, int y, enum style style, const char *text)
{
    uint32_t character;
    while ((character = utf8_next(&text))) draw_character(canvas, x++, y, style, character);
    return x;
}

int draw_format(struct canvas canvas, int x, int y, enum style style, const char *format, ...)
{
    char text[1024];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    return draw_text(canvas, x, y, style, text);
}

void draw_right(struct canvas canvas, int end, int y, enum style style, const char *text)
{
    draw_text(canvas, end - utf8_columns(text), y, style, text);
}

int draw_title(struct canvas canvas, int y, bool focused, const char *format, ...)
{
    char title[400];
    FORMAT_ARGUMENTS(title, sizeof title, format);
    draw_fill(canvas, 0, y, canvas.at.columns, STYLE_FRAME, 0x2500);
    draw_character(canvas, 1, y, STYLE_TEXT, ' ');
    int end = draw_text(canvas, 2, y, focused ? STYLE_FOCUS : STYLE_TITLE, title);
    draw_character(canvas, end, y, STYLE_TEXT, ' ');
    return end + 1;
}

/* ---- text broken between words ---- */

/* Columns up to the next blank or line break. */
static int word_columns(const char *text)
{
    int columns = 0;
    for (uint32_t character; (character = utf8_next(&text)) && character != ' ' && character != '\n';) columns++;
    return columns;
}

int draw_paragraph(struct canvas canvas, int skip, enum style style, const char *text)
{
    int x = 0, y = 0, width = canvas.at.columns;
    uint32_t character, before = ' ';
    if (width < 1 || !*text) return 0;
    for (const char *at = text; (character = utf8_next(&text)); at = text, before = character) {
        bool breaks =
            before == ' ' && character != ' ' && x > 0 && x + word_columns(at) > width && word_columns(at) <= width;
        if (character == '\n' || breaks || x >= width) {
            x = 0;
            y++;
        }
        if (character == '\n' || (character == ' ' && x == 0 && y > 0 && before != '\n')) continue;
        draw_character(canvas, x++, y - skip, style, character);
    }
    return y + 1;
}

void draw_words(struct canvas canvas, int x, int y, enum style style, const char *text)
{
    const bool cut = x + utf8_columns(text) > canvas.at.columns;
    uint32_t character, before = ' ';
    for (const char *at = text; (character = utf8_next(&text)); at = text, before = character) {
        /* a word that begins here has to leave room for the sign */
        if (cut && before == ' ' && x + word_columns(at) + 2 > canvas.at.columns) break;
        draw_character(canvas, x++, y, style, character);
    }
    if (cut) draw_character(canvas, x, y, style, 0x2026);
}

/* ---- rows of tables ---- */

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
    FORMAT_ARGUMENTS(text, sizeof text, format);
    pen_right(pen, columns, style, text);
}

struct pen draw_head_row(struct canvas canvas, int x, int y, const struct head *head)
{
    struct pen pen = pen_at(canvas, x, y);
    for (; head->text; head++)
        if (head->columns < 0) pen_left(&pen, -head->columns, STYLE_DIM, head->text);
        else pen_right(&pen, head->columns, STYLE_DIM, head->text);
    return pen;
}
