#include "tui/memory/slots.h"

#include "tui/view/tier_bar.h"

static struct shards parameters_of(const struct unit_keep *keep, const struct unit_cell *cell)
{
    const bool used = cell->used_by >= 0, updating = cell->update == CELL_UPDATING;
    if (keep->shards_parameters) {
        const bool comes = cell->parameters == CELL_IN_FLIGHT || cell->parameters == CELL_BLOCKS;
        return (struct shards){updating ? SLOT_USED : SLOT_KEPT, comes                    ? SLOT_FLIGHT
                                                                 : cell->gathered && used ? SLOT_USED
                                                                 : cell->gathered         ? SLOT_BORROWED
                                                                 : keep->tail_elems && keep->tail_elems == keep->elems
                                                                     ? SLOT_TAIL
                                                                     : SLOT_AWAY};
    }
    /* whole; after an update the others' parts are old until they are refreshed */
    const bool old = keep->shards_optimizer && (updating || cell->update == CELL_UPDATED);
    const enum slot others = cell->update == CELL_REFRESHING ? SLOT_FLIGHT : old ? SLOT_STALE : SLOT_KEPT;
    if (updating) return (struct shards){SLOT_USED, keep->shards_optimizer ? others : SLOT_USED};
    return used ? (struct shards){SLOT_USED, SLOT_USED} : (struct shards){SLOT_KEPT, others};
}

static struct shards gradient_of(const struct unit_keep *keep, const struct unit_cell *cell)
{
    /* CELL_REDUCED: by a reduce-scatter, only the own part is the mean */
    static const struct shards whole[] = {[CELL_NO_GRADIENT] = {SLOT_STALE, SLOT_STALE},
                                          [CELL_WRITTEN] = {SLOT_BORROWED, SLOT_BORROWED},
                                          [CELL_REDUCING] = {SLOT_FLIGHT, SLOT_FLIGHT},
                                          [CELL_REDUCED] = {SLOT_KEPT, SLOT_STALE}};
    if (keep->shards_gradient)
        return (struct shards){cell->gradient == CELL_REDUCED ? SLOT_KEPT : SLOT_STALE,
                               !cell->unreduced_bytes            ? SLOT_AWAY
                               : cell->gradient == CELL_REDUCING ? SLOT_FLIGHT
                                                                 : SLOT_BORROWED};
    if (cell->gradient == CELL_REDUCED && !keep->shards_optimizer) return (struct shards){SLOT_KEPT, SLOT_KEPT};
    return whole[cell->gradient];
}

struct shards shards_of(enum array array, const struct unit_keep *keep, const struct unit_cell *cell)
{
    const enum slot own = cell->update == CELL_UPDATING ? SLOT_USED : SLOT_KEPT;
    if (array == ARRAY_PARAMETERS) return parameters_of(keep, cell);
    if (array == ARRAY_GRADIENT) return gradient_of(keep, cell);
    return (struct shards){own, keep->shards_optimizer ? SLOT_AWAY : own};
}

void slots_fill(enum slot slots[], int count, enum array array, const struct unit_keep *keep,
                const struct unit_cell *cell, int rank, int ranks)
{
    const struct shards of = shards_of(array, keep, cell);
    const bool tail = array == ARRAY_PARAMETERS && keep->shards_parameters && keep->tail_elems;
    for (int i = 0; i < count; i++) slots[i] = i / (count / ranks) == rank ? of.own : of.others;
    if (tail && of.others == SLOT_AWAY) slots[count - 1] = rank == ranks - 1 ? SLOT_KEPT : SLOT_TAIL;
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

static struct mark mark_of_parameters(const struct unit_keep *keep, const struct unit_cell *cell)
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

struct mark mark_of(enum array array, const struct unit_keep *keep, const struct unit_cell *cell)
{
    const bool optimizer = array == ARRAY_OPTIMIZER, own = keep->shards_optimizer;
    if (array == ARRAY_PARAMETERS) return mark_of_parameters(keep, cell);
    if (optimizer ? !keep->optimizer_bytes : cell->gradient == CELL_NO_GRADIENT) return (struct mark){'.', STYLE_DIM};
    if (optimizer && cell->update == CELL_UPDATING) return (struct mark){'#', STYLE_FOCUS};
    if (optimizer) return (struct mark){own ? 'o' : 'O', STYLE_OPTIMIZER};
    if (cell->gradient == CELL_WRITTEN) return (struct mark){'B', STYLE_BUCKETS};
    if (cell->gradient == CELL_REDUCING) return (struct mark){'>', STYLE_SPARK};
    return (struct mark){own ? 'g' : 'G', STYLE_GRADIENTS};
}

void draw_slot_legend(struct canvas canvas, int y)
{
    static const struct {
        int row;
        enum slot slot;
        const char *meaning;
    } entries[] = {{1, SLOT_KEPT, "kept"},
                   {1, SLOT_BORROWED, "P: gathered, G: not reduced"},
                   {1, SLOT_FLIGHT, "in flight"},
                   {1, SLOT_USED, "in use"},
                   {2, SLOT_STALE, "P: old, G: to come"},
                   {2, SLOT_TAIL, "small, kept gathered"},
                   {2, SLOT_AWAY, "not here"}};
    int x[] = {1, 1, 1};
    draw_text(canvas, 1, y, STYLE_TEXT, "P parameters  G gradient  O optimizer state, each cut into the ranks' parts");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        int *at = &x[entries[i].row];
        draw_slot(canvas, *at, y + entries[i].row, entries[i].slot, CATEGORY_PARAMETERS);
        *at = draw_text(canvas, *at + 2, y + entries[i].row, STYLE_TEXT, entries[i].meaning) + 2;
    }
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
