/* Below the tiles: what moves between ranks and between tiers now, and what a rank holds for a while (copies, buckets, activations). */
#include <stdlib.h>
#include <string.h>

#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"
#include "tui/view/op_text.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

/* ---- packets ---- */

static uint64_t length_ns(const struct span *span)
{
    return span && span->ended_ns > span->started_ns ? span->ended_ns - span->started_ns : 0;
}

/* How much of an operation is done, from 0 to 1: by its end if that is in the history, else by the time that it took in the step
 * before. */
static double done_of(const struct board *board, int rank, enum lane lane, int op)
{
    enum { GUESSED_PERCENT = 90 };
    const struct history *history = board->scene->history;
    const struct run_lane *of = &board->scene->model->rank[rank].lane[lane];
    const uint64_t shown_ns = board->scene->state->motion_ns, model_ns = board->scene->model->now_ns,
                   now_ns = shown_ns > model_ns ? shown_ns : model_ns;
    const uint64_t known_ns = length_ns(span_of_op(history, rank, lane, of->step, op)),
                   before_ns = of->step ? length_ns(span_of_op(history, rank, lane, of->step - 1, op)) : 0;
    if (!known_ns && !before_ns) return 0.5;
    const double done = (double)(now_ns - of->started_ns) / (double)(known_ns ? known_ns : before_ns),
                 most = known_ns ? 1 : GUESSED_PERCENT / 100.0;
    return done < most ? done : most;
}

/* The members of an operation's group that are in the node of a rank, or in other nodes, without the rank. */
struct others {
    int count, rank[4]; /* the first of them */
};

static struct others others_of(const struct board *board, const struct op *op, int rank, bool in_node)
{
    const struct process_group group = schedule_group(&board->at.plan->ops, op->group, rank);
    const int node = board_links(board) > 1 ? board->scene->model->header.ranks_per_node : board->at.plan->ops.ranks;
    struct others others = {0};
    for (int m = 0; m < group.count; m++) {
        const int other = member_rank(&group, m);
        if (other == rank || (other / node == rank / node) != in_node) continue;
        if (others.count < 4) others.rank[others.count] = other;
        others.count++;
    }
    return others;
}

/* " from 2, 3": what a gather or refresh brings; " to" what a reduction sends. */
static struct text ends_text(const struct op *op, const struct others *others)
{
    const bool brings = op->kind == OP_GATHER || op->kind == OP_REFRESH;
    struct text out = text_of(brings ? " from" : op->kind == OP_ALL_REDUCE ? " with" : " to");
    if (others->count > 4) text_add(&out, " %d ranks", others->count);
    for (int i = 0; i < others->count && others->count <= 4; i++)
        text_add(&out, "%s %d", i ? "," : "", others->rank[i]);
    return out;
}

/* What an operation moves between a rank and `others`, in so many columns; with the other end, where there are nodes. */
static struct text packet_text(int room, const struct board *board, int number, const struct others *others)
{
    const struct schedule *ops = &board->at.plan->ops;
    const struct op *op = &ops->ops[number];
    const int ranks = op_ranks(ops, op);
    const int64_t sent = ranks > 1 ? op->sent_bytes * others->count / (ranks - 1) : 0;
    const enum dtype dtype = op->piece_count ? ops->buffers[ops->pieces[op->first_piece].source].dtype : DTYPE_F32;
    const char *blocks = dtype == DTYPE_Q8 ? " int8" : dtype == DTYPE_Q4 ? " int4" : "";
    const struct text of = op_object(board->scene->model, ops, number), with = ends_text(op, others),
                      sends = format_bytes_bare(board->scene->state->units, (uint64_t)sent);
    const char *object = of.text, *bytes = sends.text;
    struct text out = text_of("[agree]");
    for (int form = board_links(board) > 1 ? 0 : 1; form < 4 && op->kind != OP_AGREE; form++) {
        const char *ends = form == 0 ? with.text : "";
        if (form == 3) out = text_of(op->prefetch ? "(%.40s)▸" : "[%.40s]▸", object);
        else if (form == 2)
            out = text_of(op->prefetch ? "(%.40s%s, plan %s)▸" : "[%.40s%s, plan %s]▸", object, blocks, bytes);
        else if (op->kind == OP_GATHER)
            out = text_of(op->prefetch ? "(%.40s%s: %d/%d%s, plan %s)▸" : "[! %.40s%s: %d/%d%s, plan %s]▸", object,
                          blocks, others->count, ranks, ends, bytes);
        else if (op->kind == OP_REFRESH) out = text_of("[refresh %.40s%s, plan sends %s]▸", object, ends, bytes);
        else
            out = text_of("[%s %.40s%s%s, plan sends %s]▸", op->kind == OP_ALL_REDUCE ? "mean of" : "reduce", object,
                          blocks, ends, bytes);
        if (utf8_columns(out.text) <= room) break;
    }
    return out;
}

/* A packet is coloured by what it holds, its arrow, in column `arrow`, by the operation. */
static void draw_packet(struct canvas canvas, int x, int y, enum style style, const char *packet, int arrow,
                        const struct op *op)
{
    const struct cell *cell;
    draw_text(canvas, x, y, style, packet);
    if (op->kind == OP_AGREE) return;
    cell = surface_at(canvas.surface, canvas.at.x + arrow, canvas.at.y + y);
    draw_shape(canvas, arrow, y, mark_look(mark_of_op(op->kind, op->phase, op->prefetch)).style, cell->character);
}

/* What moves over a link of a rank, in columns [x, x + room). */
static void draw_moving(struct canvas canvas, int x, int y, int room, int rank, bool in_node, const struct board *board)
{
    const struct progress at =
        rank == board->rank ? board->at : board_progress(board->scene->model, rank); /* the board's may be calm */
    const struct schedule *ops = &board->at.plan->ops;
    const bool known = !board->calm && at.plan == board->at.plan && !at.lost;
    const int running = known ? progress_running(&at, LANE_COMM) : -1;
    if (running < 0) {
        const struct text none =
            text_of(board->at.open ? " nothing moves to rank %d now " : " nothing moves between steps ", rank);
        if (utf8_columns(none.text) + 2 <= room && (rank == board->rank || !in_node))
            draw_text(canvas, x + 2, y, STYLE_DIM, none.text);
        return;
    }
    const struct op *op = &ops->ops[running];
    const struct others others = others_of(board, op, rank, in_node);
    if (!others.count) {
        const struct text none =
            text_of(in_node ? " %.40s goes to other nodes only " : " nothing: %.40s stays in the node ",
                    op_text(board->scene->model, board->at.plan->number, running).text);
        if (utf8_columns(none.text) + 2 <= room) draw_text(canvas, x + 2, y, STYLE_DIM, none.text);
        return;
    }
    const struct text packet = packet_text(room - (board->boxed && in_node ? 2 : 0), board, running, &others);
    const int columns = utf8_columns(packet.text), free_columns = room > columns ? room - columns : 0;
    const int begin = x + (int)(done_of(board, rank, LANE_COMM, running) * free_columns);
    const bool blocks = op->piece_count && dtype_is_quantized(ops->buffers[ops->pieces[op->first_piece].source].dtype);
    const enum category of =
        (op->kind == OP_GATHER || op->kind == OP_REFRESH) && !blocks ? CATEGORY_GATHERED : CATEGORY_BUCKETS;
    draw_packet(canvas_part(canvas, 0, 0, x + room, canvas.at.rows), begin, y,
                op->kind == OP_AGREE ? STYLE_STRONG : category_look((int)of)->style, packet.text, begin + columns - 1,
                op);
}

int board_links(const struct board *board)
{
    const int node = board->scene->model->header.ranks_per_node;
    return node > 0 && node < board->at.plan->ops.ranks ? 2 : 1;
}

/* The lower edge of the boxes of nodes: what moves in each. */
static void draw_in_nodes(struct canvas canvas, int y, const struct board *board)
{
    const int node = board->scene->model->header.ranks_per_node;
    int edge[BOARD_EDGES_MAX], box[BOARD_EDGES_MAX];
    const int edges = board_edges(board, edge, box);
    for (int i = 0; i + 1 < edges; i++) {
        const struct board_group *group = &board->group[box[i]];
        const bool chosen = board->rank / node == group->first / node;
        draw_fill(canvas, edge[i], y, edge[i + 1] - edge[i], STYLE_FRAME, 0x2550);
        draw_character(canvas, edge[i], y, STYLE_FRAME, i ? 0x2569 : 0x255a);
        draw_character(canvas, edge[i + 1], y, STYLE_FRAME, 0x255d);
        if (node > 1)
            draw_moving(canvas, edge[i] + 1, y, edge[i + 1] - edge[i] - 1, chosen ? board->rank : group->first, true,
                        board);
        else if (edge[i + 1] - edge[i] > 22) draw_text(canvas, edge[i] + 2, y, STYLE_DIM, " a node has one rank ");
    }
}

int board_link(struct canvas canvas, int y, const struct board *board)
{
    const int room = canvas.at.columns - BOARD_LABEL;
    if (board->boxed) {
        draw_text(canvas, 0, y, STYLE_DIM, "in node");
        draw_in_nodes(canvas, y++, board);
    }
    draw_text(canvas, 0, y, STYLE_DIM, board->boxed ? "between" : "link");
    draw_fill(canvas, BOARD_LABEL, y, room, STYLE_FRAME, 0x2500);
    draw_moving(canvas, BOARD_LABEL, y, room, board->rank, !board->boxed, board);
    return y + 1;
}

/* ---- transfers between tiers ---- */

/* Below the device, and below the host: the lane that goes down, and the one that comes up, with their signs on the timeline. */
static const enum lane tier_lanes[2][2] = {{LANE_D2H, LANE_H2D}, {LANE_NVME_WRITE, LANE_NVME_READ}};

bool board_has_transfers(const struct board *board, enum tier below)
{
    const enum lane *lanes = tier_lanes[below != TIER_DEVICE];
    return board->at.plan->lanes >> lanes[0] & 1 || board->at.plan->lanes >> lanes[1] & 1;
}

/* "▼ bucket 2 290.4 KiB", "▼2 290.4 KiB", "▼2 290 KiB", "▼2": the longest that leaves room to move. */
static struct text transfer_text(int room, const struct board *board, int number)
{
    enum { TO_MOVE = 3 };
    const struct schedule *ops = &board->at.plan->ops;
    const struct op *op = &ops->ops[number];
    const struct text bytes = format_bytes_bare(board->scene->state->units, (uint64_t)op->bytes);
    const char sign = op->bucket >= 0 ? (char)('0' + op->bucket % 10)
                      : op->unit >= 0 ? board_unit_sign(board, op->unit)
                                      : ' ';
    const struct utf8 arrow = utf8_of(mark_look(mark_of_op(op->kind, op->phase, op->prefetch)).letter);
    struct text out = text_of("%s %.40s %s", arrow.text, op_object(board->scene->model, ops, number).text, bytes.text);
    if (utf8_columns(out.text) + TO_MOVE > room) out = text_of("%s%c %s", arrow.text, sign, bytes.text);
    if (utf8_columns(out.text) > room && strchr(bytes.text, '.'))
        out = text_of("%s%c %.3g%s", arrow.text, sign, strtod(bytes.text, NULL), strchr(bytes.text, ' '));
    return utf8_columns(out.text) > room ? text_of("%s%c", arrow.text, sign) : out;
}

/* Each rank has its own links to the host and to NVMe. Packets go from the left above to the right below, and back; where both ways are in
 * use, each has half of the columns. */
void board_transfers(struct canvas canvas, int y, int rows, enum tier below, const struct board_rank *of,
                     const struct board *board)
{
    const enum lane *lanes = tier_lanes[below != TIER_DEVICE];
    int running[2];
    for (int way = 0; way < 2; way++) running[way] = of->known ? progress_running(&of->at, lanes[way]) : -1;
    const bool both = running[0] >= 0 && running[1] >= 0;
    const int room = both ? (board->column - 1) / 2 : board->column - 1;
    for (int way = 0; way < 2; way++) {
        if (running[way] < 0) continue;
        const struct op *op = &board->at.plan->ops.ops[running[way]];
        const int array = board_array_of(op);
        const double done = done_of(board, of->rank, lanes[way], running[way]), depth = way ? 1 - done : done;
        const int row = (int)(depth * rows);
        const struct text packet = transfer_text(room, board, running[way]);
        const int x = of->x + (both && way ? room + 1 : 0) + (int)(depth * (room - utf8_columns(packet.text)));
        draw_packet(canvas, x, y + smaller(row, rows - 1),
                    category_look(array < 0 ? CATEGORY_ACTIVATIONS : (int)board_categories[array])->style, packet.text,
                    x, op);
    }
}

/* ---- here for a while ---- */

static void draw_nothing(struct canvas canvas, int x, int y)
{
    draw_text(canvas, x, y, STYLE_DIM, "· none");
}

/* A copy: its unit's sign, then the shards, those that have come filled; the rank's own is there at once. */
static void draw_copy(struct canvas canvas, int x, int y, int columns, int unit, const struct unit_cell *cell, int rank,
                      const struct board *board)
{
    const int ranks = board->shards, shards = columns - 1;
    draw_character(canvas, x, y, STYLE_STRONG, (uint32_t)board_unit_sign(board, unit));
    for (int c = 0; c < shards; c++) {
        const bool own = c * ranks / shards == rank % ranks;
        const uint32_t sign = cell->parameters != CELL_WHOLE && !own ? 0x2591 : cell->used_by >= 0 ? 0x2593 : 0x2592;
        if (canvas.surface->ascii)
            draw_character(canvas, x + 1 + c, y, STYLE_TEXT, sign == 0x2591 ? ':' : sign == 0x2593 ? '#' : 'L');
        else draw_shape(canvas, x + 1 + c, y, category_look(CATEGORY_GATHERED)->style, sign);
    }
}

void board_copies(struct canvas canvas, int y, const struct board_rank *of, const struct board *board)
{
    int count = 0, shown = 0;
    for (int unit = 0; of->known && unit < board->units; unit++) count += of->cells[unit].gathered_bytes > 0;
    const int columns = count > 2 ? board->tile / count : board->tile / 2;
    if (of->known && !count) draw_nothing(canvas, of->x, y);
    if (columns <= 1) draw_format(canvas, of->x, y, STYLE_TEXT, "%d units", count);
    for (int unit = 0; columns > 1 && shown < count; unit++)
        if (of->cells[unit].gathered_bytes > 0)
            draw_copy(canvas, of->x + shown++ * columns, y, columns, unit, &of->cells[unit], of->rank, board);
}

/* A bucket: its number, and how full it is; full ones are solid, one in flight is shaded. */
static void draw_bucket(struct canvas canvas, int x, int y, int columns, int number, const struct filling *filling)
{
    const int from = draw_format(canvas, x, y, STYLE_STRONG, "%d", number), cells = x + columns - 1 - from;
    const int full = filling->elems ? (int)(filling->filled_elems * cells / filling->elems) : 0;
    for (int c = 0; c < cells; c++) {
        const bool flies = filling->state == BUCKET_IN_FLIGHT, here = flies || c < full;
        if (canvas.surface->ascii) draw_character(canvas, from + c, y, STYLE_TEXT, flies ? '>' : here ? 'B' : '.');
        else if (here) draw_shape(canvas, from + c, y, category_look(CATEGORY_BUCKETS)->style, flies ? 0x2592 : 0x2588);
        else draw_character(canvas, from + c, y, STYLE_DIM, 0x00b7);
    }
}

void board_buckets(struct canvas canvas, int y, const struct board_rank *of, const struct board *board)
{
    enum { BUCKET_COLUMNS = 8 };
    const struct schedule *ops = &board->at.plan->ops;
    int shown = 0;
    if (!of->known) return;
    for (int op = bucket_after(ops, -1); op >= 0 && of->at.open; op = bucket_after(ops, op)) {
        const struct filling filling = filling_of(&of->at, op);
        const bool is_here =
            filling.state == BUCKET_FILLING || filling.state == BUCKET_FULL || filling.state == BUCKET_IN_FLIGHT;
        if (!is_here || (shown + 1) * BUCKET_COLUMNS > board->column) continue;
        draw_bucket(canvas, of->x + shown++ * BUCKET_COLUMNS, y, BUCKET_COLUMNS, ops->ops[op].bucket, &filling);
    }
    const struct run_instant *now = board_instant(board, of->rank);
    /* Of no bucket that is open: shards from the host, to be gathered; sums of gradients. */
    const uint64_t other_bytes = now->known ? now->held_bytes[CATEGORY_BUCKETS] : 0;
    if (!shown && other_bytes)
        draw_text(canvas, of->x, y, STYLE_DIM, format_bytes_bare(board->scene->state->units, other_bytes).text);
    else if (!shown) draw_nothing(canvas, of->x, y);
}

/* Activations against their planned peak. */
void board_saved(struct canvas canvas, int y, const struct board_rank *of, const struct board *board)
{
    const struct category_look *look = category_look(CATEGORY_ACTIVATIONS);
    const struct run_predicted *planned = &board->at.plan->category[TIER_DEVICE][CATEGORY_ACTIVATIONS];
    const struct run_instant *shown = board_instant(board, of->rank);
    const struct segment saved = {shown->held_bytes[CATEGORY_ACTIVATIONS], look->letter, look->pattern, look->style};
    const int bar = board->tile - 10;
    if (bar > 2 && planned->known && planned->peak_bytes) {
        draw_fill(canvas, of->x, y, bar, STYLE_DIM, 0x00b7);
        draw_bar(canvas, of->x, y, bar, &saved, 1, planned->peak_bytes);
    }
    draw_right(canvas, of->x + board->tile, y, STYLE_TEXT,
               format_bytes(board->scene->state->units, shown->known, saved.value).text);
}
