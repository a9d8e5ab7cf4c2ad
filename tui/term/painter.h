/* What turns one screen into the next, as bytes for a terminal: moves, looks, characters, by what its description says.
 * ncurses could do that too, but writes to the terminal at every move of the cursor, some ninety times a frame. */
#ifndef TUI_TERM_PAINTER_H
#define TUI_TERM_PAINTER_H

#include <stdbool.h>
#include <stddef.h>

#include "tui/draw/surface.h"

enum { PAINTER_COLOURS = 16, PAINTER_STRING = 32 };

struct painter {
    char *bytes; /* of the last call */
    size_t length, room;
    /* the terminal's description, without the pauses of old ones */
    char move[2 * PAINTER_STRING], plain[PAINTER_STRING], bold[PAINTER_STRING], underline[PAINTER_STRING],
        reverse[PAINTER_STRING];
    char front[PAINTER_COLOURS][PAINTER_STRING], back[PAINTER_COLOURS][PAINTER_STRING];
    int colours;        /* 0: none */
    uint8_t not_coloured; /* attributes that it cannot show together with a colour */
    bool scrolls;       /* a character in the last cell of the screen moves everything up */
    /* where it stands */
    int x, y;           /* -1: not known; past the last column a move follows anyway */
    struct look look;
};

/* After setupterm() or newterm(), which read the description. */
void painter_init(struct painter *painter, bool colour);
void painter_release(struct painter *painter);

/* The terminal shows `before`, with nothing but plain blanks where that is NULL; afterwards `surface`, of the same size. The
 * look is plain before and after. False: no memory. */
bool painter_paint(struct painter *painter, const struct surface *before, const struct surface *surface);
void painter_leave(struct painter *painter, int y); /* to the beginning of a row, which is cleared */

#endif
