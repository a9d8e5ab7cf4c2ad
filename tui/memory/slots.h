/* Pictures of the parts of a unit that a rank holds: parameters, gradient and optimizer state, each as a row of
 * slots. A slot is one rank's shard of the unit's flat array, or an equal part of that shard. So the picture shows that a
 * rank owns a slice of every unit, not whole layers. Pure functions. */
#pragma once

#include "engine/observe/cells.h"
#include "tui/draw/surface.h"

enum slot {
    SLOT_AWAY,     /* not here */
    SLOT_KEPT,     /* here, and stays */
    SLOT_STALE,    /* the buffer is there, but its content is of an earlier step, or not written yet */
    SLOT_FLIGHT,   /* a collective is gathering or reducing it */
    SLOT_BORROWED, /* here for a while: parameters gathered from their owner, or a gradient before its reduction */
    SLOT_USED,     /* an operation uses it now */
    SLOT_TAIL,     /* small tensors that stay gathered */
    SLOTS
};

enum { SLOTS_MAX = 16 };
enum array { ARRAY_PARAMETERS, ARRAY_GRADIENT, ARRAY_OPTIMIZER, ARRAYS };

/* State of the rank's own shard, and of the other ranks' shards of the same unit. */
struct shards { enum slot own, others; };
struct shards shards_of(enum array array, const struct unit_keep *keep, const struct unit_cell *cell);
/* Fills in the slots of one rank of `ranks`; count is a multiple of ranks. While the others' parameters are away, the last slot shows the
 * small tensors that stay gathered. */
void slots_fill(enum slot slots[], int count, enum array array, const struct unit_keep *keep,
                const struct unit_cell *cell, int rank, int ranks);

void draw_slot(struct canvas canvas, int x, int y, enum slot slot, enum category category);

/* The state of the whole array as one letter, for screens with many ranks. */
struct mark { char letter; enum style style; };
struct mark mark_of(enum array array, const struct unit_keep *keep, const struct unit_cell *cell);

/* Legends of slots and of letters, in three rows each. all: letters of all three arrays; false: of the parameters only. */
void draw_slot_legend(struct canvas canvas, int y);
void draw_letter_legend(struct canvas canvas, int y, bool all);
