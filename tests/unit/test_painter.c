/* What the painter sends is held against a small terminal: a grid that understands moves, looks and characters. Whatever stood
 * on it before, it must show the next screen, cell for cell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>
#undef columns

#include "engine/base/rng.h"
#include "tui/draw/output.h"
#include "tui/term/painter.h"

enum { COLUMNS_HERE = 40, ROWS_HERE = 12, CELLS_HERE = COLUMNS_HERE * ROWS_HERE };

static const struct look plain = {COLOUR_DEFAULT, COLOUR_DEFAULT, 0};

struct grid {
    int x, y; /* x -1: in no certain place */
    struct look look;
    struct cell cells[CELLS_HERE];
};

static void take_code(struct grid *grid, int code)
{
    struct look *look = &grid->look;
    if (code == 0) *look = plain;
    else if (code == 1) look->attributes |= ATTRIBUTE_BOLD;
    else if (code == 4) look->attributes |= ATTRIBUTE_UNDERLINE;
    else if (code == 7) look->attributes |= ATTRIBUTE_REVERSE;
    else if (code >= 30 && code < 38) look->foreground = (uint8_t)(code - 30);
    else if (code >= 90 && code < 98) look->foreground = (uint8_t)(code - 90 + 8);
    else if (code >= 40 && code < 48) look->background = (uint8_t)(code - 40);
    else if (code >= 100 && code < 108) look->background = (uint8_t)(code - 100 + 8);
    else assert_int_equal(code, 10); /* a character set */
}

/* 38 or 48, then 5 and a number, or 2 and red, green and blue. Returns how many numbers that took. */
static int take_deep(struct grid *grid, const int numbers[])
{
    int colour = numbers[2];
    if (numbers[1] == 2) {
        const uint32_t rgb = (uint32_t)(numbers[2] << 16 | numbers[3] << 8 | numbers[4]);
        for (colour = 16; colour < COLOUR_DEFAULT && colour_rgb((uint8_t)colour) != rgb;) colour++;
    } else assert_int_equal(numbers[1], 5);
    assert_in_range(colour, 16, COLOUR_DEFAULT - 1);
    *(numbers[0] == 38 ? &grid->look.foreground : &grid->look.background) = (uint8_t)colour;
    return numbers[1] == 2 ? 5 : 3;
}

/* "\033[12;40H" or "\033[0;1m". */
static const char *take_sequence(struct grid *grid, const char *at)
{
    int numbers[8] = {0}, count = 0;
    while (strchr("0123456789;", *at)) {
        numbers[count] = (int)strtol(at, (char **)&at, 10);
        count++;
        if (*at == ';') at++;
    }
    if (!count) count = 1;
    if (*at == 'H') {
        assert_int_equal(count, 2);
        assert_in_range(numbers[0], 1, ROWS_HERE);
        assert_in_range(numbers[1], 1, COLUMNS_HERE);
        grid->y = numbers[0] - 1;
        grid->x = numbers[1] - 1;
    } else {
        assert_int_equal(*at, 'm');
        for (int i = 0; i < count;)
            if (numbers[i] == 38 || numbers[i] == 48) i += take_deep(grid, numbers + i);
            else take_code(grid, numbers[i++]);
    }
    return at + 1;
}

static void take_bytes(struct grid *grid, const char *at, size_t length)
{
    for (const char *end = at + length; at < end;) {
        if (*at == '\017') at++; /* a character set */
        else if (at[0] == '\033' && at[1] == '(') at += 3;
        else if (at[0] == '\033') assert_int_equal(at[1], '['), at = take_sequence(grid, at + 2);
        else {
            uint32_t character = utf8_next(&at);
            assert_in_range(grid->x, 0, COLUMNS_HERE - 1);
            grid->cells[grid->y * COLUMNS_HERE + grid->x++] = (struct cell){character, grid->look};
            if (grid->x == COLUMNS_HERE) grid->x = -1;
        }
    }
}

static void take_painted(struct grid *grid, struct painter *painter)
{
    assert_true(bytes_append(&painter->out, "", 1)); /* ends the last number for strtol() */
    take_bytes(grid, (const char *)painter->out.at, painter->out.count - 1);
}

/* Mostly long stretches of one look, as screens are. */
static void scribble(struct surface *surface, uint64_t seed, int colours)
{
    static const uint32_t characters[] = {' ', 'a', 'Z', 0x2588, 0x2500, 0xb7};
    for (int i = 0, left = 0; i < CELLS_HERE; i++) {
        uint64_t random = rng_u64(seed, 1, (uint64_t)i);
        if (left-- > 0) {
            surface->cells[i] = surface->cells[i - 1];
            continue;
        }
        left = (int)(random % 9);
        surface->cells[i].character = characters[(random >> 8) % 6];
        surface->cells[i].look =
            (struct look){colours && random >> 16 & 1 ? (random >> 20) % (uint64_t)colours : COLOUR_DEFAULT,
                          colours && random >> 17 & 1 ? (random >> 32) % (uint64_t)colours : COLOUR_DEFAULT,
                          (random >> 18) % 3 ? 0 : (random >> 30) % 8};
        struct look *look = &surface->cells[i].look;
        if (look->foreground == look->background) *look = plain;
    }
}

static void shows(const struct grid *grid, const struct surface *surface)
{
    for (int i = 0; i < CELLS_HERE; i++) {
        assert_int_equal(grid->cells[i].character, surface->cells[i].character);
        assert_memory_equal(&grid->cells[i].look, &surface->cells[i].look, sizeof plain);
    }
}

static void describe(const char *terminal)
{
    int unknown;
    if (setupterm(terminal, STDOUT_FILENO, &unknown) != OK) skip(); /* its description is not installed */
}

/* With so many colours of xterm's 256; 0: none. */
static void follows(const char *terminal, int colours, enum depth depth)
{
    struct painter painter;
    struct surface before, next;
    static struct grid grid;
    describe(terminal);
    painter_init(&painter, colours > 0);
    assert_int_equal(painter.depth, depth);
    assert_true(surface_init(&before, COLUMNS_HERE, ROWS_HERE, THEME_DEFAULT, false));
    assert_true(surface_init(&next, COLUMNS_HERE, ROWS_HERE, THEME_DEFAULT, false));
    for (uint64_t frame = 0; frame < 300; frame++) {
        if (frame == 0)
            for (int i = 0; i < CELLS_HERE; i++) grid.cells[i] = (struct cell){' ', plain};
        scribble(&next, frame, colours);
        for (int i = 0; frame && i < CELLS_HERE; i++) /* most of a screen stays */
            if (rng_u64(frame, 2, (uint64_t)(i / 5)) % 4) next.cells[i] = before.cells[i];
        grid.x = grid.y = -1;
        grid.look = plain;
        assert_true(painter_paint(&painter, frame ? &before : NULL, &next));
        take_painted(&grid, &painter);
        shows(&grid, &next);
        assert_memory_equal(&grid.look, &plain, sizeof plain);
        memcpy(before.cells, next.cells, sizeof *next.cells * CELLS_HERE);
    }
    assert_true(painter_paint(&painter, &before, &next));
    assert_int_equal(painter.out.count, 0); /* nothing differs */
    surface_release(&before);
    surface_release(&next);
    bytes_release(&painter.out);
    del_curterm(cur_term);
}

static void sixteen_colours(void **state)
{
    (void)state;
    unsetenv("COLORTERM");
    follows("xterm-256color", 16, DEPTH_256);
    follows("screen-256color", 16, DEPTH_256);
}

static void deep_colours(void **state)
{
    (void)state;
    unsetenv("COLORTERM");
    follows("xterm-256color", COLOUR_DEFAULT, DEPTH_256);
    setenv("COLORTERM", "yes", 1);
    follows("tmux-256color", COLOUR_DEFAULT, DEPTH_256);
    setenv("COLORTERM", "truecolor", 1);
    follows("xterm-256color", COLOUR_DEFAULT, DEPTH_TRUE);
    setenv("COLORTERM", "24bit", 1);
    follows("tmux-256color", COLOUR_DEFAULT, DEPTH_TRUE);
    unsetenv("COLORTERM");
}

/* Its eight colours are indices; other numbers are red, green and blue. */
static void direct_colours(void **state)
{
    (void)state;
    follows("xterm-direct", 8, DEPTH_TRUE);
    struct painter painter;
    describe("xterm-direct");
    painter_init(&painter, true);
    assert_non_null(strstr(painter.front[26], "0:95:215m"));
    del_curterm(cur_term);
}

static void no_colour_and_pauses(void **state)
{
    (void)state;
    follows("vt100", 0, DEPTH_16); /* its description asks for pauses */
}

/* Eight colours: bright ones in front are bold; what would fall onto its own ground is told apart. */
static void eight_colours(void **state)
{
    (void)state;
    struct painter painter;
    struct surface surface;
    static struct grid grid;
    describe("xterm");
    painter_init(&painter, true);
    assert_int_equal(painter.colours, 8);
    assert_true(surface_init(&surface, COLUMNS_HERE, ROWS_HERE, THEME_DEFAULT, false));
    surface.cells[0] = (struct cell){'a', {12, COLOUR_DEFAULT, 0}};
    surface.cells[1] = (struct cell){'b', {9, 1, 0}};
    assert_true(painter_paint(&painter, NULL, &surface));
    grid.look = plain;
    take_painted(&grid, &painter);
    assert_int_equal(grid.cells[0].look.foreground, 4);
    assert_int_equal(grid.cells[0].look.attributes, ATTRIBUTE_BOLD);
    assert_int_equal(grid.cells[1].look.background, 1);
    assert_int_equal(grid.cells[1].look.foreground, 0);
    surface_release(&surface);
    bytes_release(&painter.out);
    del_curterm(cur_term);
}

/* Where the last cell of the screen would scroll it, that cell is left alone. */
static void the_last_cell(void **state)
{
    (void)state;
    struct painter painter;
    struct surface surface;
    static struct grid grid;
    describe("ansi");
    painter_init(&painter, false);
    assert_true(surface_init(&surface, COLUMNS_HERE, ROWS_HERE, THEME_MONO, false));
    for (int i = 0; i < CELLS_HERE; i++) surface.cells[i] = (struct cell){'x', plain};
    assert_true(painter_paint(&painter, NULL, &surface));
    grid.look = plain;
    take_painted(&grid, &painter);
    assert_true(painter.scrolls);
    assert_int_equal(grid.cells[CELLS_HERE - 2].character, 'x');
    assert_int_equal(grid.cells[CELLS_HERE - 1].character, 0);
    surface_release(&surface);
    bytes_release(&painter.out);
    del_curterm(cur_term);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_colours), cmocka_unit_test(deep_colours),
                                       cmocka_unit_test(direct_colours),  cmocka_unit_test(no_colour_and_pauses),
                                       cmocka_unit_test(eight_colours),   cmocka_unit_test(the_last_cell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
