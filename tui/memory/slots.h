/* The picture of what a rank holds of a unit: the unit's flat array as a few slots, its parameters, gradient and optimizer
 * state each. A slot is one rank's part (or a share of it), so the picture shows that a rank owns a slice of every unit,
 * and not some of the layers. Pure functions. */
#ifndef TUI_MEMORY_SLOTS_H
#define TUI_MEMORY_SLOTS_H

#include "engine/observe/cells.h"
#include "tui/draw/surface.h"

enum slot {
    SLOT_AWAY,     /* not here */
    SLOT_KEPT,     /* here, and stays */
    SLOT_STALE,    /* room is kept for it, but it is of an earlier step, or not written yet */
    SLOT_FLIGHT,   /* a collective is bringing it, or is reducing it */
    SLOT_BORROWED, /* here for now: gathered from its owner; a gradient that is not reduced */
    SLOT_USED,     /* an operation works on it */
    SLOT_TAIL,     /* small tensors that stay gathered */
    SLOTS
};

enum { SLOTS_MAX = 16 };

/* The slots of one rank of `ranks`; count is a multiple of ranks. */
void slots_of_parameters(enum slot slots[], int count, const struct unit_keep *keep, const struct unit_cell *cell, int rank, int ranks);
void slots_of_gradient(enum slot slots[], int count, const struct unit_keep *keep, const struct unit_cell *cell, int rank, int ranks);
void slots_of_optimizer(enum slot slots[], int count, const struct unit_keep *keep, const struct unit_cell *cell, int rank, int ranks);

void draw_slot(struct canvas canvas, int x, int y, enum slot slot, enum category category);

/* The same in one letter, for many ranks. */
struct mark { char letter; enum style style; };
struct mark mark_of_parameters(const struct unit_keep *keep, const struct unit_cell *cell);
struct mark mark_of_gradient(const struct unit_keep *keep, const struct unit_cell *cell);
struct mark mark_of_optimizer(const struct unit_keep *keep, const struct unit_cell *cell);

/* What the signs mean, in three rows; letters of all three, or of the parameters alone. */
void draw_slot_legend(struct canvas canvas, int y);
void draw_letter_legend(struct canvas canvas, int y, bool all);

#endif
