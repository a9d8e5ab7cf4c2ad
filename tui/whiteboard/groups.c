/* Chooses which ranks share a column and which units share a row, if there are more than fit. */
#include "tui/whiteboard/board.h"

enum { ALONE_MAX = 8 }; /* so many ranks have a column each */
enum { AROUND = 3 };    /* the unit in use and its neighbours */
enum { HEIGHT_MAX = 12 };

/* ---- ranks ---- */

/* Group `number` of `groups`, of the ranks in equal parts: whole nodes, where each group has one at least. */
static struct board_group group_of_ranks(const struct board *board, int number, int groups)
{
    const int ranks = board->scene->model->ranks, node = board->scene->model->header.ranks_per_node;
    const int unit = node > 1 && ranks % node == 0 && ranks / node >= groups ? node : 1, parts = ranks / unit;
    const int first = number * parts / groups * unit;
    return (struct board_group){first, (number + 1) * parts / groups * unit - first};
}

int board_columns_wanted(const struct board *board)
{
    const int ranks = board->scene->model->ranks, node = board->scene->model->header.ranks_per_node;
    const int nodes = node > 1 && ranks % node == 0 ? ranks / node : 0;
    if (ranks <= ALONE_MAX) return ranks;
    return nodes > 1 && nodes < BOARD_COLUMNS_MAX - 1 ? nodes + 1 : BOARD_COLUMNS_MAX;
}

void board_group_ranks(struct board *board, int fit)
{
    const int ranks = board->scene->model->ranks;
    if (ranks <= ALONE_MAX || fit < 2) {
        board->ranks = smaller(fit, ranks);
        const int page = board->rank / board->ranks * board->ranks;
        const int first = page + board->ranks > ranks ? ranks - board->ranks : page;
        for (int i = 0; i < board->ranks; i++) board->group[i] = (struct board_group){first + i, 1};
        return;
    }
    const int wanted = board_columns_wanted(board), groups = smaller(fit, wanted) - 1;
    board->group[0] = (struct board_group){board->rank, 1};
    board->ranks = 1;
    for (int g = 0; g < groups; g++) {
        const struct board_group group = group_of_ranks(board, g, groups);
        if (group.count > 1 || group.first != board->rank) board->group[board->ranks++] = group;
    }
}

const struct run_instant *board_instant(const struct board *board, int rank)
{
    const struct run_tier *tier = &board->scene->model->rank[rank].tier[TIER_DEVICE];
    return board->calm && tier->step_peak.known ? &tier->step_peak : &tier->now;
}

/* ---- units ---- */

/* The unit that the rows are around: the chosen one, or the one that the rank computes with, or updates. */
static int unit_in_use(const struct board *board)
{
    const int chosen = list_kept(board->scene->state->row[VIEW_WHITEBOARD], board->units);
    const struct schedule *ops = &board->at.plan->ops;
    if (chosen > 0 || !board->at.open) return chosen;
    for (int op = ops->op_count - 1; op >= 0; op--) {
        const struct op *of = &ops->ops[op];
        if ((of->lane == LANE_COMPUTE || op_is_update(of->kind)) && of->unit >= 0 && op < board->at.begun[of->lane])
            return of->unit;
    }
    return 0;
}

static void add_row(struct board_rows *out, int first, int end)
{
    if (end > first) out->row[out->count++] = (struct board_row){.units = {first, end - first}, .height = 1};
}

/* The window of single rows moves by so much that it always holds the unit in use and its neighbours, and stays where it is
 * until that unit leaves its inner part. The first and the last unit are no blocks: where there is room, they are no part of
 * a group. */
static void group_units(struct board_rows *out, int rows, int units, int in_use)
{
    const int ends = rows >= AROUND + 4, window = rows - 2 - 2 * ends, inner = window < AROUND ? 1 : window - 2;
    const int blocks = units - 2 * ends;
    const int at = within(in_use - ends, 0, blocks - 1);
    int first = at == 0 ? 0 : window < AROUND ? at : (at - 1) / inner * inner, end = first + window;
    if (first == 0) end++; /* there is one group only */
    if (end >= blocks) first = blocks - window - 1, end = blocks;
    add_row(out, 0, ends);
    add_row(out, ends, ends + first);
    for (int i = first; i < end; i++) add_row(out, ends + i, ends + i + 1);
    add_row(out, ends + end, units - ends);
    add_row(out, units - ends, units);
}

/* To scale: the largest unit takes `tallest` rows; with a blank row below each one of several rows, if wanted. Returns the rows of all. */
static int scale_rows(struct board_rows *out, int tallest, bool gaps, const struct board *board)
{
    int64_t most = 1;
    for (int u = 0; u < board->units; u++)
        if (board->keep[u].elems > most) most = board->keep[u].elems;
    out->used = 0;
    for (int i = 0; i < out->count; i++) {
        struct board_row *row = &out->row[i];
        const int64_t height = (board->keep[row->units.first].elems * tallest + most / 2) / most;
        row->height = row->units.count > 1 || height < 1 ? 1 : (int)height;
        row->y = out->used;
        out->used += row->height + (gaps && row->height > 1 && i + 1 < out->count);
    }
    return out->used;
}

void board_group_units(struct board_rows *out, int rows, const struct board *board)
{
    int tallest = HEIGHT_MAX;
    out->count = 0;
    if (rows > BOARD_ROWS_MAX) rows = BOARD_ROWS_MAX;
    for (int unit = 0; unit < board->units && board->units <= rows; unit++) add_row(out, unit, unit + 1);
    if (board->units > rows && rows > 2) group_units(out, rows, board->units, unit_in_use(board));
    if (!out->count) add_row(out, 0, board->units);
    while (tallest > 0 && scale_rows(out, tallest, true, board) > rows) tallest--;
    if (tallest > 0 && out->used * 4 > rows * 3) return;
    for (tallest = HEIGHT_MAX; tallest > 0 && scale_rows(out, tallest, false, board) > rows;) tallest--;
}
