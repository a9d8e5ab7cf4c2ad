/* Tiles: the parts of a unit that a rank holds, to scale. A tile's columns are cut into halves; each half shows the state of
 * the shard on which its middle falls. */
#include <math.h>
#include <string.h>

#include "tui/memory/slots.h"
#include "tui/view/op_text.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

void board_span(const struct board *board, int array, int *from, int *end)
{
    const int all = board->width[0] + board->width[1] + board->width[2];
    int before = 0;
    for (int i = 0; i < array; i++) before += board->width[i];
    *from = before * board->tile / all;
    *end = (before + board->width[array]) * board->tile / all;
}

/* The state of the rank's own shard, and of the others'. */
struct parts {
    enum slot own, others;
};

/* The optimizer's state is of the step before until its unit is updated. */
static enum slot optimizer_slot(const struct board *board, const struct unit_cell *cell)
{
    if (cell->update == CELL_UPDATING) return SLOT_USED;
    return board->at.open && cell->update == CELL_NOT_UPDATED ? SLOT_STALE : SLOT_KEPT;
}

static struct parts parts_of(const struct board *board, int array, const struct unit_keep *keep,
                             const struct unit_cell *cell)
{
    enum slot slots[2]; /* as of rank 0 of two: own, other */
    if (array == 0) slots_of_parameters(slots, 2, keep, cell, 0, 2);
    else if (array == 1) slots_of_gradient(slots, 2, keep, cell, 0, 2);
    else slots_of_optimizer(slots, 2, keep, cell, 0, 2);
    struct parts parts = {slots[0], slots[1]};
    if (parts.others == SLOT_TAIL && keep->tail_elems < keep->elems) parts.others = SLOT_AWAY; /* a few small tensors */
    if (array == 2) parts.own = optimizer_slot(board, cell);
    if (array == 2 && !keep->shards_optimizer) parts.others = parts.own;
    if (array == 1 && !board->at.open && parts.own == SLOT_STALE) parts.own = SLOT_KEPT;
    if (array == 1 && !board->at.open && parts.others == SLOT_STALE && !keep->shards_gradient) parts.others = SLOT_KEPT;
    return parts;
}

/* Whole, left half, right half. */
static const uint32_t glyphs[SLOTS][3] = {
    [SLOT_AWAY] = {0x00b7, 0x00b7, 0x00b7},
    [SLOT_KEPT] = {0x2588, 0x258c, 0x2590},
    [SLOT_STALE] = {0x2584, 0x2596, 0x2597},
    [SLOT_FLIGHT] = {0x2591, 0x2591, 0x2591},
    [SLOT_BORROWED] = {0x2592, 0x2592, 0x2592},
    [SLOT_USED] = {0x2593, 0x2593, 0x2593},
    [SLOT_TAIL] = {'+', '+', '+'},
};

static char ascii_sign(enum slot slot, int array)
{
    switch (slot) {
    case SLOT_KEPT: return "PGO"[array];
    case SLOT_STALE: return '-';
    case SLOT_FLIGHT: return ':';
    case SLOT_BORROWED: return array == 0 ? 'L' : 'B';
    case SLOT_USED: return '#';
    case SLOT_TAIL: return '+';
    default: return '.';
    }
}

static void draw_part(struct canvas canvas, int x, int y, int array, enum slot slot, int half)
{
    static const enum category borrowed[] = {CATEGORY_GATHERED, CATEGORY_BUCKETS, CATEGORY_OPTIMIZER};
    const bool passing = slot == SLOT_BORROWED || slot == SLOT_FLIGHT;
    const struct category_look *look = category_look((int)(passing ? borrowed : board_categories)[array]);
    if (canvas.surface->ascii) draw_character(canvas, x, y, STYLE_TEXT, (uint32_t)ascii_sign(slot, array));
    else if (slot == SLOT_AWAY) draw_character(canvas, x, y, STYLE_DIM, glyphs[slot][0]);
    else draw_shape(canvas, x, y, look->style, glyphs[slot][half]);
}

/* Where the two halves of a column differ, the rank's own half is drawn. */
static void draw_array(struct canvas canvas, int x, int y, int array, const struct board *board, int rank,
                       struct parts parts)
{
    int from, end;
    board_span(board, array, &from, &end);
    const int halves = 2 * (end - from), ranks = board->at.plan->ops.ranks;
    int first = (int)lround((double)rank * halves / ranks), last = (int)lround((double)(rank + 1) * halves / ranks);
    if (last <= first) last = first + 1; /* a shard of less than half a column */
    if (last > halves) first = halves - 1, last = halves;
    for (int c = 0; c < end - from; c++) {
        const bool left = 2 * c >= first && 2 * c < last, right = 2 * c + 1 >= first && 2 * c + 1 < last;
        const enum slot slot = left || right ? parts.own : parts.others;
        const int half = left == right || parts.own == parts.others ? 0 : left ? 1 : 2;
        draw_part(canvas, x + from + c, y, array, slot, half);
    }
}

/* What the rank keeps of the unit, beside its tile. */
static void draw_kept(struct canvas canvas, int x, int y, const struct unit_keep *keep, const struct board *board)
{
    char text[FORMAT_ROOM];
    const int64_t bytes = keep->parameter_bytes + keep->tail_bytes + keep->gradient_bytes + keep->optimizer_bytes;
    format_bytes(text, board->scene->state->units, keep->known, (uint64_t)bytes);
    if (board->column - board->tile > (int)strlen(text) + 1)
        draw_right(canvas, x + board->column - 2, y, STYLE_DIM, text);
}

void board_unit_labels(struct canvas canvas, int y, int units, int height, int top, const struct board *board)
{
    const int chosen = list_kept(board->scene->state->row[VIEW_WHITEBOARD], board->units);
    char name[OP_TEXT_ROOM];
    for (int u = 0; u < units; u++)
        draw_text(canvas_part(canvas, 0, y + u * height, BOARD_LABEL - 1, 1), 0, 0,
                  top + u == chosen ? STYLE_FOCUS : STYLE_TEXT, unit_text(name, board->scene->model, top + u));
}

void board_tiles(struct canvas canvas, int y, int units, int height, int top, const struct board_rank *of,
                 const struct board *board)
{
    for (int u = 0; u < units; u++, y += height) {
        const struct unit_keep *keep = &board->keep[top + u];
        if (!of->known) draw_character(canvas, of->x, y, STYLE_DIM, '?');
        else draw_kept(canvas, of->x, y, keep, board);
        for (int array = 0; of->known && array < BOARD_ARRAYS; array++) {
            const struct parts parts = parts_of(board, array, keep, &of->cells[top + u]);
            for (int row = 0; row < height; row++) draw_array(canvas, of->x, y + row, array, board, of->rank, parts);
        }
    }
}
