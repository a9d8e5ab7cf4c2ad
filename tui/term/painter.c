/* Writes differences as bytes. Equal cells are skipped; a short stretch of them is sent again if that takes fewer
 * bytes than a move of the cursor. */
#include "tui/term/painter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>
/* Of the macros of <term.h> those that are words used here. */
#undef columns

#include "tui/draw/output.h"

enum { NEAR = 6 }; /* cells: about the length of a move */

static const struct look plain = {COLOUR_DEFAULT, COLOUR_DEFAULT, 0};

/* ---- the terminal's description ------------------------------------------------------------------------------------ */

/* Without "$<5>": no terminal needs a pause any more. */
static void keep_string(char *out, size_t room, const char *text)
{
    size_t length = 0;
    for (const char *end; text && *text && length + 1 < room; text++) {
        if (text[0] == '$' && text[1] == '<' && (end = strchr(text, '>'))) text = end;
        else out[length++] = *text;
    }
    out[length] = '\0';
}

static const char *string_named(const char *name)
{
    const char *text = tigetstr((char *)name);
    return text == (const char *)-1 || !text || !*text ? NULL : text;
}

static void append(char *out, size_t room, const char *text)
{
    if (text && strlen(out) + strlen(text) < room) strcat(out, text);
}

bool terminfo_leave(char *out, size_t room, bool mouse)
{
    static const char *const names[] = {"sgr0", "rmkx", "cnorm", "rmcup"};
    int unknown;
    if (setupterm(NULL, STDOUT_FILENO, &unknown) != OK) return false;
    out[0] = '\0';
    /* Ends the mouse mode that ncurses begins: XM, or where the terminal has none, xterm's first. */
    if (mouse && string_named("XM")) append(out, room, tiparm(string_named("XM"), 0));
    else if (mouse && string_named("kmous")) append(out, room, "\033[?1000l");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) append(out, room, string_named(names[i]));
    del_curterm(cur_term); /* newterm() reads its own */
    return true;
}

int terminfo_colours(void)
{
    int unknown;
    if (setupterm(NULL, STDOUT_FILENO, &unknown) != OK) return -1;
    int colours = tigetnum((char *)"colors");
    del_curterm(cur_term);
    return colours < 0 ? 0 : colours;
}

static void keep_named(char *out, size_t room, const char *name)
{
    keep_string(out, room, string_named(name));
}

/* The terminal says true colour by COLORTERM, as most do, or by the flag RGB of its description: then setaf and setab take
 * eight colours of its own, or 0xRRGGBB. */
static void keep_deep_colours(struct painter *painter, const char *front, const char *back, bool direct)
{
    const char *said = getenv("COLORTERM");
    const bool is_true = said && (!strcmp(said, "truecolor") || !strcmp(said, "24bit"));
    painter->depth = direct || is_true ? DEPTH_TRUE : DEPTH_256;
    for (int i = 16; i < COLOUR_DEFAULT; i++) {
        const uint32_t rgb = colour_rgb((uint8_t)i);
        if (direct || !is_true) {
            keep_string(painter->front[i], PAINTER_STRING, tiparm(front, direct ? (int)rgb : i));
            keep_string(painter->back[i], PAINTER_STRING, tiparm(back, direct ? (int)rgb : i));
        } else {
            static const char sequence[] = "\033[%d;2;%u;%u;%um";
            snprintf(painter->front[i], PAINTER_STRING, sequence, 38, rgb >> 16, rgb >> 8 & 255, rgb & 255);
            snprintf(painter->back[i], PAINTER_STRING, sequence, 48, rgb >> 16, rgb >> 8 & 255, rgb & 255);
        }
    }
}

static void keep_colours(struct painter *painter)
{
    enum { UNDERLINE_BIT = 2, REVERSE_BIT = 4, BOLD_BIT = 32 };
    const char *front = string_named("setaf"), *back = string_named("setab");
    int colours = tigetnum((char *)"colors"), not_coloured = tigetnum((char *)"ncv");
    const bool direct = colours >= 1 << 24 || tigetflag((char *)"RGB") > 0;
    if (!front || !back || colours < 8) return;
    painter->colours = colours < 16 || direct ? 8 : 16;
    for (int i = 0; i < painter->colours; i++) {
        keep_string(painter->front[i], PAINTER_STRING, tiparm(front, i));
        keep_string(painter->back[i], PAINTER_STRING, tiparm(back, i));
    }
    if (colours >= 256) keep_deep_colours(painter, front, back, direct);
    if (not_coloured <= 0) return;
    if (not_coloured & UNDERLINE_BIT) painter->not_coloured |= ATTRIBUTE_UNDERLINE;
    if (not_coloured & REVERSE_BIT) painter->not_coloured |= ATTRIBUTE_REVERSE;
    if (not_coloured & BOLD_BIT) painter->not_coloured |= ATTRIBUTE_BOLD;
}

void painter_init(struct painter *painter, bool colour)
{
    *painter = (struct painter){.x = -1, .y = -1, .look = plain};
    keep_named(painter->move, sizeof painter->move, "cup");
    keep_named(painter->plain, sizeof painter->plain, "sgr0");
    keep_named(painter->bold, sizeof painter->bold, "bold");
    keep_named(painter->underline, sizeof painter->underline, "smul");
    keep_named(painter->reverse, sizeof painter->reverse, "rev");
    painter->scrolls = tigetflag((char *)"am") > 0 && tigetflag((char *)"xenl") <= 0;
    if (colour) keep_colours(painter);
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

static void put(struct painter *painter, const char *text)
{
    bytes_append(&painter->out, text, strlen(text)); /* make_room() has made it */
}

/* For one cell: a move, a look from scratch, a character. */
static bool make_room(struct painter *painter)
{
    return bytes_reserve(&painter->out, 10 * PAINTER_STRING);
}

static bool is_missing(const struct painter *painter, uint8_t colour)
{
    return colour < 16 && colour >= painter->colours;
}

/* A look as this terminal has it: with eight colours, bright ones are bold in front and fall onto their dark ones behind. */
static struct look look_here(const struct painter *painter, struct look look)
{
    if (!painter->colours) look.foreground = look.background = COLOUR_DEFAULT;
    if (look.foreground == COLOUR_DEFAULT && look.background == COLOUR_DEFAULT) return look;
    if (is_missing(painter, look.foreground)) {
        look.foreground -= 8;
        look.attributes |= ATTRIBUTE_BOLD;
    }
    if (is_missing(painter, look.background)) look.background -= 8;
    if (look.foreground == look.background) look.foreground = look.foreground == 0 ? 7 : 0;
    look.attributes &= (uint8_t)~painter->not_coloured;
    return look;
}

static void put_look(struct painter *painter, struct look look)
{
    struct look *now = &painter->look;
    if (same_look(*now, look)) return;
    if (now->attributes & ~look.attributes ||
        (look.foreground == COLOUR_DEFAULT && now->foreground != COLOUR_DEFAULT) ||
        (look.background == COLOUR_DEFAULT && now->background != COLOUR_DEFAULT)) {
        put(painter, painter->plain);
        *now = plain;
    }
    int more = look.attributes & ~now->attributes;
    if (more & ATTRIBUTE_BOLD) put(painter, painter->bold);
    if (more & ATTRIBUTE_UNDERLINE) put(painter, painter->underline);
    if (more & ATTRIBUTE_REVERSE) put(painter, painter->reverse);
    if (look.foreground != now->foreground) put(painter, painter->front[look.foreground]);
    if (look.background != now->background) put(painter, painter->back[look.background]);
    *now = look;
}

static void put_cell(struct painter *painter, const struct cell *cell)
{
    put_look(painter, look_here(painter, cell->look));
    put(painter, utf8_of(cell->character).text);
    painter->x++;
}

/* ---- differences --------------------------------------------------------------------------------------------------- */

/* Over cells that need not change, if they are few and look like what was just sent. */
static bool goes_over(struct painter *painter, const struct cell *row, int x)
{
    for (int i = painter->x; i < x; i++)
        if (!same_look(look_here(painter, row[i].look), painter->look)) return false;
    while (painter->x < x) put_cell(painter, &row[painter->x]);
    return true;
}

static bool go_to(struct painter *painter, const struct cell *row, int x, int y)
{
    bool ahead = painter->y == y && painter->x >= 0 && painter->x <= x && x - painter->x <= NEAR;
    if (!make_room(painter)) return false;
    if (ahead && goes_over(painter, row, x)) return true;
    put(painter, tiparm(painter->move, y, x));
    painter->x = x;
    painter->y = y;
    return true;
}

static bool paint_row(struct painter *painter, const struct cell *before, const struct surface *surface, int y)
{
    static const struct cell blank = {' ', {COLOUR_DEFAULT, COLOUR_DEFAULT, 0}};
    const struct cell *row = surface_at(surface, 0, y);
    int end = surface->columns - (painter->scrolls && y == surface->rows - 1);
    for (int x = 0; x < end; x++) {
        const struct cell *old = before ? &before[x] : &blank;
        if (row[x].character == old->character && same_look(row[x].look, old->look)) continue;
        if (!go_to(painter, row, x, y)) return false;
        put_cell(painter, &row[x]);
    }
    return true;
}

bool painter_paint(struct painter *painter, const struct surface *before, const struct surface *surface)
{
    painter->out.count = 0;
    painter->x = painter->y = -1; /* others may have moved it */
    bool done = make_room(painter);
    for (int y = 0; done && y < surface->rows; y++)
        done = paint_row(painter, before ? surface_at(before, 0, y) : NULL, surface, y);
    if (done) put_look(painter, plain);
    painter->look = plain;
    return done;
}

void painter_leave(struct painter *painter, int y)
{
    const char *erase = string_named("el");
    painter->out.count = 0;
    if (!make_room(painter)) return;
    put(painter, tiparm(painter->move, y, 0));
    if (erase && strlen(erase) < PAINTER_STRING) put(painter, erase);
}
