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
    int before = 0, dividers = board->divided[0];
    for (int i = 0; i < array; i++) {
        before += board->width[i];
        dividers += board->divided[i + 1];
    }
    *from = before * board->scale + dividers;
    *end = *from + board->width[array] * board->scale;
}

/* The state of the rank's own shard, and of the others'. tail: the share of elements, the last ones, that stay gathered. */
struct parts {
    enum slot own, others;
    double tail;
    bool lit; /* the newest operation works on it, and has begun on this rank */
};

static struct parts parts_of(const struct board *board, int array, const struct unit_keep *keep,
                             const struct unit_cell *cell)
{
    const struct shards of = shards_of((enum array)array, keep, cell);
    struct parts parts = {of.own, of.others, 0, false};
    if (array == 0 && keep->elems) parts.tail = (double)keep->tail_elems / (double)keep->elems;
    /* the optimizer's state is of the step before until its unit is updated */
    if (array == 2 && board->at.open && cell->update == CELL_NOT_UPDATED) parts.own = SLOT_STALE;
    if (array == 2 && !keep->shards_optimizer) parts.others = parts.own;
    if (array == 1 && !board->at.open && parts.own == SLOT_STALE) parts.own = SLOT_KEPT;
    if (array == 1 && !board->at.open && parts.others == SLOT_STALE && !keep->shards_gradient) parts.others = SLOT_KEPT;
    return parts;
}

/* Whole, left half, right half, and in ASCII by array; less than a quarter, on the left and on the right. */
static const uint32_t slivers[2] = {0x258f, 0x2595};
static const struct {
    uint32_t shown[3];
    char ascii[BOARD_ARRAYS + 1];
} glyphs[SLOTS] = {
    [SLOT_AWAY] = {{0x00b7, 0x00b7, 0x00b7}, "..."},
    [SLOT_KEPT] = {{0x2588, 0x258c, 0x2590}, "PGO"},
    [SLOT_STALE] = {{0x2584, 0x2596, 0x2597}, "---"},
    [SLOT_FLIGHT] = {{0x2591, 0x2591, 0x2591}, ":::"},
    [SLOT_BORROWED] = {{0x2592, 0x2592, 0x2592}, "LBB"},
    [SLOT_USED] = {{0x2593, 0x2593, 0x2593}, "###"},
    [SLOT_TAIL] = {{'+', '+', '+'}, "+++"},
};

static void draw_part(struct canvas canvas, int x, int y, int array, enum slot slot, int half, bool thin)
{
    static const enum category borrowed[] = {CATEGORY_GATHERED, CATEGORY_BUCKETS, CATEGORY_OPTIMIZER};
    const bool passing = slot == SLOT_BORROWED || slot == SLOT_FLIGHT;
    const struct category_look *look = category_look((int)(passing ? borrowed : board_categories)[array]);
    if (canvas.surface->ascii) draw_character(canvas, x, y, STYLE_TEXT, (uint32_t)glyphs[slot].ascii[array]);
    else if (slot == SLOT_AWAY) draw_character(canvas, x, y, STYLE_DIM, glyphs[slot].shown[0]);
    else
        draw_shape(canvas, x, y, look->style,
                   thin && half && slot == SLOT_KEPT ? slivers[half - 1] : glyphs[slot].shown[half]);
}

/* Halves [from, end) of an array of so many halves hold the rank's own shard: a half at least. */
struct halves {
    int from, end;
};

static struct halves own_halves(int rank, int ranks, int halves)
{
    int from = (int)lround((double)rank * halves / ranks), end = (int)lround((double)(rank + 1) * halves / ranks);
    if (end <= from) end = from + 1;
    if (end > halves) from = halves - 1, end = halves;
    return (struct halves){from, end};
}

static bool is_within(int half, struct halves of)
{
    return half >= of.from && half < of.end;
}

/* Small tensors that stay gathered are the end of a unit: a thin line where they are less than a quarter of a column. */
static void draw_tail(struct canvas canvas, int x, int y, int columns, struct parts parts)
{
    const int whole = (int)(parts.tail * columns + 0.75);
    if (parts.others != SLOT_AWAY || parts.tail <= 0) return;
    for (int c = columns - (whole ? whole : 1); c < columns; c++)
        if (whole || canvas.surface->ascii) draw_part(canvas, x + c, y, 0, SLOT_TAIL, 0, false);
        else draw_shape(canvas, x + c, y, category_look(CATEGORY_PARAMETERS)->style, slivers[1]);
}

/* The shards of a column: of a rank, or of a group without the chosen rank. Where the two halves of a column of the screen
 * differ, the shards' half is drawn. */
static void draw_array(struct canvas canvas, int x, int y, int array, const struct board *board,
                       const struct board_rank *of, struct parts parts)
{
    int from = 0, end = board->tile;
    if (!board->scene->state->large) board_span(board, array, &from, &end);
    const int halves = 2 * (end - from), ranks = board->shards, first = of->group.first % ranks,
              last = first + of->group.count - 1; /* in places of a shard group */
    const struct halves shards = {own_halves(last < ranks ? first : 0, ranks, halves).from,
                                  own_halves(smaller(last, ranks - 1), ranks, halves).end};
    struct halves chosen = {0};
    if (of->group.count > of->members && last < ranks && halves >= ranks)
        chosen = own_halves(board->rank % ranks, ranks, halves);
    for (int c = 0; c < end - from; c++) {
        const bool left = is_within(2 * c, shards) && !is_within(2 * c, chosen);
        const bool right = is_within(2 * c + 1, shards) && !is_within(2 * c + 1, chosen);
        const enum slot slot = left || right ? parts.own : parts.others;
        const int half = left == right || parts.own == parts.others ? 0 : left ? 1 : 2;
        draw_part(canvas, x + from + c, y, array, slot, half, of->members == 1 && 2 * halves < ranks);
        if (parts.lit) draw_lit(canvas, x + from + c, y, STYLE_LIT);
    }
    if (!is_within(halves - 1, shards)) draw_tail(canvas, x + from, y, end - from, parts);
}

/* Before an array that is kept on another tier than the array before it: the tier's letter, and a line below it. */
static void draw_divider(struct canvas canvas, int x, int y, int array, const struct board_row *row,
                         const struct board *board)
{
    static const char letters[TIERS] = {'d', 'h', 'n'};
    const unsigned char *tier = board->tier[row->units.first];
    int from, end;
    board_span(board, array, &from, &end);
    for (int h = 0; h < row->height && tier[array] != (array ? tier[array - 1] : TIER_DEVICE); h++)
        draw_character(canvas, x + from - 1, y + h, STYLE_DIM, h ? 0x2506 : (uint32_t)letters[tier[array]]);
}

/* What the rank keeps of the units, beside their tile. */
static void draw_kept(struct canvas canvas, int x, int y, const struct board_group *units, const struct board *board)
{
    int64_t bytes = 0;
    for (int u = units->first; u < units->first + units->count; u++) {
        const struct unit_keep *keep = &board->keep[u];
        bytes += keep->parameter_bytes + keep->tail_bytes + keep->gradient_bytes + keep->optimizer_bytes;
    }
    const struct text kept = format_bytes(board->scene->state->units, board->keep[units->first].known, (uint64_t)bytes);
    if (board->column - board->tile > (int)strlen(kept.text) + 1)
        draw_right(canvas, x + board->column - 1, y, STYLE_DIM, kept.text);
}

/* The number in a unit's name; "": it has none, so it is the first or the last. */
static struct text number_of(const struct board *board, int unit)
{
    const struct text name = unit_text(board->scene->model, unit);
    const char *number = strchr(name.text, ' ');
    return text_of("%s", number ? number + 1 : "");
}

/* "blk 4-46", or less where the label has no room; "blk..3": all up to block 3. */
static struct text group_text(const struct board_group *units, const struct board *board)
{
    static const char *const forms[] = {"blk %.8s%s%.8s", "blk%.8s%s%.8s", "%.8s%s%.8s"};
    const struct text from = number_of(board, units->first), end = number_of(board, units->first + units->count - 1);
    struct text out;
    for (int form = 0; form < 3; form++) {
        out = text_of(forms[form], from.text, *from.text && *end.text ? "-" : "..", end.text);
        if (strlen(out.text) < BOARD_LABEL + (size_t)(form > 0 && !board->boxed)) break;
    }
    return out;
}

/* "block 3", "blk 12" */
static struct text label_text(int unit, const struct board *board)
{
    const struct text name = unit_text(board->scene->model, unit);
    const char *number = strchr(name.text, ' ');
    return strlen(name.text) >= BOARD_LABEL && number ? text_of("blk%.8s", number) : name;
}

void board_unit_labels(struct canvas canvas, int y, const struct board_rows *rows, const struct board *board)
{
    const int chosen = list_kept(board->scene->state->row[VIEW_WHITEBOARD], board->units);
    for (int i = 0; i < rows->count; i++) {
        const struct board_row *row = &rows->row[i];
        const bool alone = row->units.count == 1;
        const struct text name = alone ? label_text(row->units.first, board) : group_text(&row->units, board);
        draw_text(canvas_part(canvas, 0, y + row->y, BOARD_LABEL, 1), 0, 0,
                  row->units.first == chosen && alone ? STYLE_FOCUS : STYLE_TEXT, name.text);
    }
}

/* Whether the newest operation works on the array of some unit, and has begun on the rank. */
static bool is_lit(const struct board *board, int array, const struct board_group *units, const struct progress *at)
{
    const struct op *op = board->newest < 0 ? NULL : &board->at.plan->ops.ops[board->newest];
    if (!op || board_array_of(op) != array || at->step != board->at.step || !board_has_begun(board, at)) return false;
    for (int u = units->first; u < units->first + units->count; u++)
        if (board->worked_on[u]) return true;
    return false;
}

/* The state of most units of a row. */
static struct parts parts_of_row(const struct board *board, int array, const struct board_group *units,
                                 const struct board_rank *of)
{
    int count[SLOTS][SLOTS] = {{0}};
    struct parts most = {0};
    for (int u = units->first; u < units->first + units->count; u++) {
        const struct parts parts = parts_of(board, array, &board->keep[u], &of->cells[u]);
        if (++count[parts.own][parts.others] > count[most.own][most.others]) most = parts;
    }
    most.lit = is_lit(board, array, units, &of->at);
    return most;
}

void board_tiles(struct canvas canvas, int y, const struct board_rows *rows, const struct board_rank *of,
                 const struct board *board)
{
    for (int i = 0; i < rows->count; i++) {
        const struct board_row *row = &rows->row[i];
        if (!of->known) draw_character(canvas, of->x, y + row->y, STYLE_DIM, '?');
        else draw_kept(canvas, of->x, y + row->y, &row->units, board);
        for (int array = 0; of->known && array < BOARD_ARRAYS; array++) {
            const struct parts parts = parts_of_row(board, array, &row->units, of);
            if (board->divided[array]) draw_divider(canvas, of->x, y + row->y, array, row, board);
            for (int h = 0; h < row->height; h++) draw_array(canvas, of->x, y + row->y + h, array, board, of, parts);
            if (parts.lit && board->column > board->tile)
                draw_character(canvas, of->x + board->tile, y + row->y, STYLE_SELECTED,
                               (uint32_t)category_letter(board_categories[array]));
        }
    }
}

static void draw_band(struct canvas canvas, int y, int rows, int array, const struct board_rank *of,
                      const struct board *board)
{
    const struct board_group all = {0, board->units};
    if (!of->known) {
        draw_character(canvas, of->x, y, STYLE_DIM, '?');
        return;
    }
    const struct parts parts = parts_of_row(board, array, &all, of);
    for (int row = 0; row < rows; row++) draw_array(canvas, of->x, y + row, array, board, of, parts);
}

/* ---- the form for the back row of a lecture hall: three bands a rank, and the sum of its bytes a parameter in large figures ---- */

enum { DIGIT_COLUMNS = 3, DIGIT_ROWS = 5, SUM_COLUMNS = 13 /* of "4.00" */, ZOOM_MAX = 3, BANDS_LEAST = 3 };

/* Rows of three bits from the top down, the highest first. */
static const unsigned short digits[10] = {0x7b6f, 0x2c97, 0x73e7, 0x73cf, 0x5bc9,
                                          0x79cf, 0x79ef, 0x7249, 0x7bef, 0x7bcf};

/* A digit, or a point of one column; returns the column behind it and a gap. */
static int draw_sign(struct canvas canvas, int x, int y, int zoom, char sign)
{
    const bool point = sign == '.';
    const int columns = point ? 1 : DIGIT_COLUMNS;
    for (int row = 0; row < DIGIT_ROWS * zoom; row++)
        for (int c = 0; c < columns * zoom; c++) {
            const int bit = DIGIT_COLUMNS * DIGIT_ROWS - 1 - row / zoom * DIGIT_COLUMNS - c / zoom;
            const bool filled = point ? row / zoom == DIGIT_ROWS - 1 : digits[sign - '0'] >> bit & 1;
            if (filled) draw_character(canvas, x + c, y + row, STYLE_STRONG, 0x2588);
        }
    return x + (columns + 1) * zoom;
}

/* Parameters, gradients and optimizer state together, in bytes a parameter. False: not known yet. */
static bool sum_of(double *sum, const struct board_rank *of, const struct board *board)
{
    const struct run_model *model = board->scene->model;
    uint64_t bytes;
    *sum = 0;
    for (int array = 0; array < BOARD_ARRAYS; array++) {
        if (!board_held(&model->rank[of->rank], board_categories[array], &bytes)) return false;
        *sum += (double)bytes / (double)model->header.parameters;
    }
    return model->header.parameters > 0;
}

static void draw_sum(struct canvas canvas, int y, int zoom, const struct board_rank *of, const struct board *board)
{
    double sum;
    int x = of->x;
    if (!sum_of(&sum, of, board)) return;
    const struct text text = text_of(sum < 9.995 ? "%.2f" : "%.1f", sum);
    for (const char *sign = text.text; *sign; sign++) x = draw_sign(canvas, x, y, zoom, *sign);
}

/* "O 2.00" and where it is kept, beside the first column. */
static void draw_label(struct canvas canvas, int y, int rows, int array, const struct board *board)
{
    const struct run_model *model = board->scene->model;
    uint64_t bytes;
    const int x = draw_format(canvas, 0, y, STYLE_STRONG, "%c ", category_look((int)board_categories[array])->letter);
    if (board_held(&model->rank[board->rank], board_categories[array], &bytes) && model->header.parameters > 0)
        draw_format(canvas, x, y, STYLE_TEXT, "%.2f", (double)bytes / (double)model->header.parameters);
    for (enum tier tier = TIER_HOST; tier < TIERS && rows > 1; tier++)
        if (board->tiers[array] >> tier & 1) draw_text(canvas, 0, ++y, STYLE_DIM, tiers_name(tier));
}

void board_bands(struct canvas canvas, int y, int rows, const struct board_rank *of, const struct board *board)
{
    const int all = board->width[0] + board->width[1] + board->width[2];
    int zoom = ZOOM_MAX, before = 0, top = 0;
    while (zoom > 1 && (SUM_COLUMNS * zoom > board->tile || 2 * DIGIT_ROWS * zoom > rows)) zoom--;
    const int room = rows - DIGIT_ROWS * zoom - 1, figures = y + rows - DIGIT_ROWS * zoom;
    for (int array = 0; array < BOARD_ARRAYS && room >= BANDS_LEAST; array++) {
        before += board->width[array];
        int end = (room * before + all / 2) / all;
        if (end <= top) end = top + 1;
        draw_band(canvas, y + top, end - top, array, of, board);
        if (of->x == BOARD_LABEL) draw_label(canvas, y + top, end - top, array, board);
        top = end;
    }
    draw_sum(canvas, figures, zoom, of, board);
    if (of->x > BOARD_LABEL) return;
    draw_format(canvas, 0, figures, STYLE_STRONG, "of %d", all);
    draw_text(canvas, 0, figures + 1, STYLE_TEXT, "bytes a");
    draw_text(canvas, 0, figures + 2, STYLE_TEXT, "param.");
}
