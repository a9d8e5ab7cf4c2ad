/* Units x ranks: one pass over the operations of a step, each of which changes the cell of its unit when it begins and when
 * it ends. */
#include "engine/observe/cells.h"

static int64_t elems_of(const struct buffer *buffer)
{
    return buffer->bytes / (int64_t)dtype_bytes(buffer->dtype);
}

static bool is_gathered(const struct buffer *buffer)
{
    return buffer->category == CATEGORY_GATHERED && !buffer->lasting && buffer->unit >= 0;
}

int units_of(const struct schedule *ops)
{
    int most = -1;
    for (int b = 0; b < ops->lasting_count; b++)
        if (ops->buffers[b].unit > most) most = ops->buffers[b].unit;
    return most + 1;
}

static void keep_buffer(struct unit_keep *keep, const struct buffer *buffer, int shards)
{
    const bool shard = buffer->extent == EXTENT_SHARD;
    keep->known = true;
    if (buffer->extent == EXTENT_TAIL) {
        keep->tail_elems = elems_of(buffer);
        keep->tail_bytes += buffer->bytes;
        return;
    }
    keep->shard_elems = shard ? elems_of(buffer) : elems_of(buffer) / shards;
    keep->elems = keep->shard_elems * shards;
    switch (buffer->category) {
    case CATEGORY_PARAMETERS:
        keep->parameter_bytes += buffer->bytes;
        keep->shards_parameters = shard;
        break;
    case CATEGORY_GRADIENTS:
        keep->gradient_bytes += buffer->bytes;
        keep->shards_gradient |= shard; /* not their errors */
        break;
    case CATEGORY_OPTIMIZER:
        keep->optimizer_bytes += buffer->bytes;
        keep->shards_optimizer = shard;
        break;
    default: break;
    }
}

void units_keep(const struct schedule *ops, struct unit_keep keep[], int units)
{
    for (int u = 0; u < units; u++) keep[u] = (struct unit_keep){0};
    for (int b = 0; b < ops->lasting_count; b++) {
        const struct buffer *buffer = &ops->buffers[b];
        if (buffer->unit >= 0 && buffer->unit < units && buffer->extent != EXTENT_BYTES)
            keep_buffer(&keep[buffer->unit], buffer, schedule_shard_ranks(ops));
    }
}

static bool is_first_hop(const struct op *op)
{
    return op->group == GROUP_SHARDS || op->group == GROUP_NODE;
}

/* ---- what an operation does to cells ---- */

/* takes: the buffer is taken; false: it is given back. */
static void hold(const struct buffer *buffer, bool takes, struct unit_cell cells[], int units)
{
    if (buffer->lasting || buffer->unit < 0 || buffer->unit >= units) return;
    struct unit_cell *cell = &cells[buffer->unit];
    if (is_gathered(buffer)) {
        cell->gathered = takes;
        cell->let_go |= !takes;
        cell->parameters = takes ? CELL_IN_FLIGHT : CELL_SHARD;
        cell->gathered_bytes = takes ? buffer->bytes : 0;
    } else if (dtype_is_quantized(buffer->dtype) || buffer->extent == EXTENT_NODE_PIECE) {
        cell->block_bytes += takes ? buffer->bytes : -buffer->bytes;
    } else if (buffer->category == CATEGORY_BUCKETS && buffer->extent == EXTENT_WHOLE) {
        cell->unreduced_bytes = takes ? buffer->bytes : 0;
    }
}

/* The other shards are here after the second hop, where there are two. */
static bool has_brought(const struct op *op, bool ended)
{
    return ended && op->group != GROUP_ACROSS;
}

/* Of a reduction, or of a refresh. A unit goes back from its last tensor to its first, so the piece with its first
 * element completes its gradient. */
static void move_pieces(const struct schedule *ops, const struct op *op, bool ended, struct unit_cell cells[],
                        int units)
{
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &ops->pieces[op->first_piece + p];
        if (piece->unit >= units) continue;
        struct unit_cell *cell = &cells[piece->unit];
        if (op->kind == OP_REFRESH) cell->update = has_brought(op, ended) ? CELL_REFRESHED : CELL_REFRESHING;
        else if (!ended) cell->gradient = CELL_REDUCING;
        else cell->gradient = piece->first == 0 && !is_first_hop(op) ? CELL_REDUCED : CELL_WRITTEN;
    }
}

static void apply(const struct schedule *ops, int number, bool ended, struct unit_cell cells[], int units)
{
    const struct op *op = &ops->ops[number];
    for (int t = 0; t < op->take_count; t++) hold(&ops->buffers[ops->effects[op->first_take + t]], true, cells, units);
    if (op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE || op->kind == OP_REFRESH)
        move_pieces(ops, op, ended, cells, units);
    if (op->unit >= 0 && op->unit < units) {
        struct unit_cell *cell = &cells[op->unit];
        const bool blocks =
            op->kind == OP_GATHER && dtype_is_quantized(ops->buffers[ops->pieces[op->first_piece].source].dtype);
        if (blocks) cell->parameters = has_brought(op, ended) ? CELL_BLOCKS : CELL_IN_FLIGHT;
        else if ((op->kind == OP_GATHER || op->kind == OP_DEQUANTIZE) && has_brought(op, ended))
            cell->parameters = CELL_WHOLE;
        if (op->kind == OP_BACKWARD) cell->gradient = CELL_WRITTEN;
        if (op_is_update(op->kind)) cell->update = ended ? CELL_UPDATED : CELL_UPDATING;
        if (op->lane == LANE_COMPUTE && !ended) cell->used_by = number;
    }
    for (int g = 0; ended && g < op->give_count; g++)
        hold(&ops->buffers[ops->effects[op->first_give + g]], false, cells, units);
}

/* Between steps there is nothing to gather and nothing to hold but the layout: stage 0 to 2 whole, or all of it tail. */
static void rest(const struct schedule *ops, struct unit_cell cells[], int units)
{
    for (int u = 0; u < units; u++) cells[u] = (struct unit_cell){.used_by = -1, .parameters = CELL_WHOLE};
    for (int b = 0; b < ops->lasting_count; b++) {
        const struct buffer *buffer = &ops->buffers[b];
        if (buffer->category == CATEGORY_PARAMETERS && buffer->extent == EXTENT_SHARD && buffer->unit >= 0 &&
            buffer->unit < units)
            cells[buffer->unit].parameters = CELL_SHARD;
    }
}

void cells_of(const struct progress *at, struct unit_cell cells[], int units)
{
    const struct schedule *ops = &at->plan->ops;
    rest(ops, cells, units);
    for (int op = 0; op < ops->op_count; op++) {
        const enum lane lane = ops->ops[op].lane;
        if (op < at->begun[lane]) apply(ops, op, op < at->ended[lane], cells, units);
    }
}

static void add_gathered(struct gathered *sum, const struct schedule *ops, int first, int count, int sign)
{
    for (int e = first; e < first + count; e++) {
        const struct buffer *buffer = &ops->buffers[ops->effects[e]];
        if (!is_gathered(buffer)) continue;
        sum->units += sign;
        sum->elems += sign * elems_of(buffer);
        sum->bytes += sign * buffer->bytes;
    }
}

struct gathered gathered_of(const struct progress *at)
{
    const struct schedule *ops = &at->plan->ops;
    struct gathered sum = {0};
    for (int number = 0; number < ops->op_count; number++) {
        const struct op *op = &ops->ops[number];
        const bool ended = number < at->ended[op->lane];
        if (number >= at->begun[op->lane]) continue;
        if (op->kind == OP_GATHER && !ended) sum.in_flight++;
        add_gathered(&sum, ops, op->first_take, op->take_count, 1);
        if (ended) add_gathered(&sum, ops, op->first_give, op->give_count, -1);
    }
    return sum;
}

/* ---- buckets of gradients, by the schedule and the progress of a rank ---- */

int bucket_after(const struct schedule *ops, int op)
{
    for (op++; op < ops->op_count; op++) {
        const enum group group = ops->ops[op].group;
        const bool second_hop = group == GROUP_REPLICAS || (group == GROUP_ACROSS && ops->node_ranks > 1);
        if (ops->ops[op].bucket >= 0 && ops->ops[op].lane == LANE_COMM && !second_hop)
            return op; /* not its copy to the host, nor what is made of it to be sent */
    }
    return -1;
}

/* An operation of the bucket, other than its flush, before or behind it: what quantizes it, its second hop. -1: none. */
static int other_of_bucket(const struct schedule *ops, int flush, enum lane lane)
{
    const int way = lane == LANE_COMPUTE ? -1 : 1;
    for (int op = flush + way; op >= 0 && op < ops->op_count; op += way)
        if (ops->ops[op].bucket == ops->ops[flush].bucket && ops->ops[op].lane == lane &&
            ops->ops[op].micro_step == ops->ops[flush].micro_step)
            return op;
    return -1;
}

int bucket_second_hop(const struct schedule *ops, int flush)
{
    return is_first_hop(&ops->ops[flush]) ? other_of_bucket(ops, flush, LANE_COMM) : -1;
}

/* The operation that completes the gradient of a piece: the last of its micro-step, above the flush, that writes into the
 * piece's source. The tied embedding is written twice. */
static int completed_by(const struct schedule *ops, int flush, const struct piece *piece)
{
    for (int op = flush - 1; op >= 0; op--) {
        const struct op *of = &ops->ops[op];
        if (of->lane == LANE_COMPUTE && of->buffer[ROLE_GRADIENT] == piece->source &&
            of->micro_step == ops->ops[flush].micro_step)
            return op;
    }
    return -1;
}

struct filling filling_of(const struct progress *at, int op)
{
    const struct schedule *ops = &at->plan->ops;
    const struct op *flush = &ops->ops[op];
    const int quantize = other_of_bucket(ops, op, LANE_COMPUTE), second = bucket_second_hop(ops, op);
    const struct op *collects = quantize >= 0 ? &ops->ops[quantize] : flush;
    struct filling filling = {0};
    for (int p = 0; p < collects->piece_count; p++) {
        const struct piece *piece = &ops->pieces[collects->first_piece + p];
        const int maker = completed_by(ops, quantize >= 0 ? quantize : op, piece);
        filling.elems += piece->elems;
        if (maker >= 0 && progress_state(at, maker) == PROGRESS_ENDED) filling.filled_elems += piece->elems;
    }
    switch (progress_state(at, op)) {
    case PROGRESS_ENDED:
        filling.state = second >= 0 && progress_state(at, second) != PROGRESS_ENDED ? BUCKET_IN_FLIGHT : BUCKET_FLUSHED;
        break;
    case PROGRESS_RUNNING: filling.state = BUCKET_IN_FLIGHT; break;
    case PROGRESS_DROPPED: filling.state = BUCKET_DROPPED; break;
    default:
        filling.state = filling.filled_elems == 0               ? BUCKET_EMPTY
                        : filling.filled_elems == filling.elems ? BUCKET_FULL
                                                                : BUCKET_FILLING;
    }
    return filling;
}

struct bucket_sums bucket_sums_of(const struct schedule *ops)
{
    struct bucket_sums sums = {0};
    for (int op = bucket_after(ops, -1); op >= 0; op = bucket_after(ops, op)) {
        const struct op *flush = &ops->ops[op];
        sums.count++;
        sums.full += flush->flush == FLUSH_FULL;
        sums.by_end += flush->flush == FLUSH_END;
        sums.bytes += flush->bytes;
        if (flush->bytes > sums.largest_bytes) sums.largest_bytes = flush->bytes;
        for (int p = 0; p < flush->piece_count; p++) sums.elems += ops->pieces[flush->first_piece + p].elems;
    }
    return sums;
}
