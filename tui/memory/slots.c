/* Draws the parts of a unit that a rank holds, as slots and as letters. */
#include "tui/memory/slots.h"

#include "tui/view/tier_bar.h"

/* The rank's own part, and the others'. */
static void fill(enum slot slots[], int count, int rank, int ranks, enum slot own, enum slot others)
{
    for (int i = 0; i < count; i++) slots[i] = i / (count / ranks) == rank ? own : others;
}

void slots_of_parameters(enum slot slots[], int count, const struct unit_keep *keep, const struct unit_cell *cell,
                         int rank, int ranks)
{
    const bool used = cell->used_by >= 0;
    if (!keep->shards_parameters) { /* whole; after an update the others' parts are old until they are refreshed */
        enum slot others = cell->update == CELL_REFRESHING ? SLOT_FLIGHT
                           : keep->shards_optimizer && (cell->update == CELL_UPDATING || cell->update == CELL_UPDATED)
                               ? SLOT_STALE
                               : SLOT_KEPT;
        if (cell->update == CELL_UPDATING)
            fill(slots, count, rank, ranks, SLOT_USED, keep->shards_optimizer ? others : SLOT_USED);
        else if (used) fill(slots, count, rank, ranks, SLOT_USED, SLOT_USED);
        else fill(slots, count, rank, ranks, SLOT_KEPT, others);
        return;
    }
    const bool comes = cell->parameters == CELL_IN_FLIGHT || cell->parameters == CELL_BLOCKS;
    enum slot others = comes                                                 ? SLOT_FLIGHT
                       : cell->gathered && used                              ? SLOT_USED
                       : cell->gathered                                      ? SLOT_BORROWED
                       : keep->tail_elems && keep->tail_elems == keep->elems ? SLOT_TAIL
                                                                             : SLOT_AWAY;
    fill(slots, count, rank, ranks, cell->update == CELL_UPDATING ? SLOT_USED : SLOT_KEPT, others);
    if (keep->tail_elems && others == SLOT_AWAY) slots[count - 1] = rank == ranks - 1 ? SLOT_KEPT : SLOT_TAIL;
}

void slots_of_gradient(enum slot slots[], int count, const struct unit_keep *keep, const struct unit_cell *cell,
                       int rank, int ranks)
{
    if (keep->shards_gradient) {
        const enum slot others = !cell->unreduced_bytes            ? SLOT_AWAY
                                 : cell->gradient == CELL_REDUCING ? SLOT_FLIGHT
                                                                   : SLOT_BORROWED;
        fill(slots, count, rank, ranks, cell->gradient == CELL_REDUCED ? SLOT_KEPT : SLOT_STALE, others);
        return;
    }
    switch (cell->gradient) {
    case CELL_NO_GRADIENT: fill(slots, count, rank, ranks, SLOT_STALE, SLOT_STALE); return;
    case CELL_WRITTEN: fill(slots, count, rank, ranks, SLOT_BORROWED, SLOT_BORROWED); return;
    case CELL_REDUCING: fill(slots, count, rank, ranks, SLOT_FLIGHT, SLOT_FLIGHT); return;
    case CELL_REDUCED: /* by a reduce-scatter: only the own part is the mean */
        fill(slots, count, rank, ranks, SLOT_KEPT, keep->shards_optimizer ? SLOT_STALE : SLOT_KEPT);
        return;
    }
}

void slots_of_optimizer(enum slot slots[], int count, const struct unit_keep *keep, const struct unit_cell *cell,
                        int rank, int ranks)
{
    const enum slot own = cell->update == CELL_UPDATING ? SLOT_USED : SLOT_KEPT;
    fill(slots, count, rank, ranks, own, keep->shards_optimizer ? SLOT_AWAY : own);
}

void draw_slot(struct canvas canvas, int x, int y, enum slot slot, enum category category)
{
    static const uint32_t glyphs[SLOTS] = {0x00b7, 0x2588, 0x25a1, 0x2591, 0x2592, 0x2593, '+'};
    const struct category_look *look = category_look((int)category);
    const bool filled = slot == SLOT_KEPT || slot == SLOT_USED || slot == SLOT_BORROWED;
    const bool colour = surface_look(canvas.surface, look->style).background != COLOUR_DEFAULT;
    if (slot == SLOT_KEPT && (canvas.surface->ascii || colour))
        draw_character(canvas, x, y, look->style, canvas.surface->ascii ? (uint32_t)look->letter : ' ');
    else
        draw_character(canvas, x, y,
                       filled                ? STYLE_STRONG
                       : slot == SLOT_FLIGHT ? STYLE_SPARK
                                             : STYLE_DIM,
                       glyphs[slot]);
}

struct mark mark_of_parameters(const struct unit_keep *keep, const struct unit_cell *cell)
{
    if (!keep->known) return (struct mark){'?', STYLE_DIM};
    if (cell->used_by >= 0) return (struct mark){'#', STYLE_FOCUS};
    if (cell->update == CELL_REFRESHING || cell->parameters == CELL_IN_FLIGHT || cell->parameters == CELL_BLOCKS)
        return (struct mark){'>', STYLE_SPARK};
    if (!keep->shards_parameters) return (struct mark){'P', STYLE_PARAMETERS};
    if (cell->gathered) return (struct mark){'L', STYLE_GATHERED};
    if (keep->tail_elems == keep->elems) return (struct mark){'+', STYLE_TEXT};
    return (struct mark){cell->let_go ? '-' : 'p', STYLE_DIM};
}

struct mark mark_of_gradient(const struct unit_keep *keep, const struct unit_cell *cell)
{
    switch (cell->gradient) {
    case CELL_NO_GRADIENT: break;
    case CELL_WRITTEN: return (struct mark){'B', STYLE_BUCKETS};
    case CELL_REDUCING: return (struct mark){'>', STYLE_SPARK};
    case CELL_REDUCED: return (struct mark){keep->shards_optimizer ? 'g' : 'G', STYLE_GRADIENTS};
    }
    return (struct mark){'.', STYLE_DIM};
}

struct mark mark_of_optimizer(const struct unit_keep *keep, const struct unit_cell *cell)
{
    if (!keep->optimizer_bytes) return (struct mark){'.', STYLE_DIM};
    if (cell->update == CELL_UPDATING) return (struct mark){'#', STYLE_FOCUS};
    return (struct mark){keep->shards_optimizer ? 'o' : 'O', STYLE_OPTIMIZER};
}

/* A picture and what it means, after what stands there. Returns the column behind it. */
static int draw_meaning(struct canvas canvas, int x, int y, enum slot slot, const char *text)
{
    draw_slot(canvas, x, y, slot, CATEGORY_PARAMETERS);
    return draw_text(canvas, x + 2, y, STYLE_TEXT, text) + 2;
}

void draw_slot_legend(struct canvas canvas, int y)
{
    draw_text(canvas, 1, y, STYLE_TEXT, "P parameters  G gradient  O optimizer state, each cut into the ranks' parts");
    int x = draw_meaning(canvas, 1, y + 1, SLOT_KEPT, "kept");
    x = draw_meaning(canvas, x, y + 1, SLOT_BORROWED, "P: gathered, G: not reduced");
    x = draw_meaning(canvas, x, y + 1, SLOT_FLIGHT, "in flight");
    draw_meaning(canvas, x, y + 1, SLOT_USED, "in use");
    x = draw_meaning(canvas, 1, y + 2, SLOT_STALE, "not updated yet");
    x = draw_meaning(canvas, x, y + 2, SLOT_TAIL, "small, kept gathered");
    draw_meaning(canvas, x, y + 2, SLOT_AWAY, "not here");
}

void draw_letter_legend(struct canvas canvas, int y, bool all)
{
    draw_text(canvas, 1, y, STYLE_TEXT,
              "P whole  p shard  > in flight  L gathered  # in use  - released  + small, kept");
    if (!all) {
        draw_text(canvas, 1, y + 1, STYLE_TEXT, "one column a rank, its parameters only; more columns show all");
        return;
    }
    draw_text(canvas, 1, y + 1, STYLE_TEXT,
              "G . none yet  B not reduced  > in flight  G reduced, whole  g reduced, shard");
    draw_text(canvas, 1, y + 2, STYLE_TEXT, "O whole  o shard  # in use");
}
