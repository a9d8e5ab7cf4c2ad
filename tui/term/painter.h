/* Turns the difference of two screens into bytes for a terminal (moves, looks, characters), using the terminal's
 * description (terminfo). ncurses could do that too, but it writes to the terminal at every move of the cursor, some ninety
 * times a frame. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/bytes.h"
#include "tui/draw/surface.h"

enum { PAINTER_COLOURS = 256, PAINTER_STRING = 32 };

struct painter {
    struct bytes out; /* made by the last call; the painter's owner releases it */
    /* from the terminal's description, without the delays ("$<5>") that only old terminals needed */
    char move[2 * PAINTER_STRING], plain[PAINTER_STRING], bold[PAINTER_STRING], underline[PAINTER_STRING],
        reverse[PAINTER_STRING];
    char front[PAINTER_COLOURS][PAINTER_STRING], back[PAINTER_COLOURS][PAINTER_STRING];
    int colours;          /* how many colours of the terminal's own palette are used: 8 or 16; 0: none */
    enum depth depth;     /* DEPTH_16: only those of the palette */
    uint8_t not_coloured; /* attributes that the terminal cannot show together with a colour */
    bool scrolls;       /* a character in the last cell of the screen scrolls the screen */
    /* the terminal's cursor and look */
    int x, y;           /* -1: not known. x may be wrong after a character in the last column; a move follows there anyway */
    struct look look;
};

/* Call after setupterm() or newterm(), which read the description. */
void painter_init(struct painter *painter, bool colour);

/* Makes the bytes that turn `before` (NULL: plain blanks) into `surface`, of the same size. The terminal's look is
 * plain before and after them. False: no memory. */
bool painter_paint(struct painter *painter, const struct surface *before, const struct surface *surface);
void painter_leave(struct painter *painter, int y); /* moves to the beginning of row y and clears it */

/* ---- the terminal's description alone ---- */

/* Writes into `out` the bytes that bring back the screen shown before the program started; mouse: they also turn the mouse off. False: TERM
 * is not known here. */
bool terminfo_leave(char *out, size_t room, bool mouse);

/* How many colours TERM has; -1: TERM is not known here. */
int terminfo_colours(void);
