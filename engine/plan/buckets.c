#include "engine/plan/buckets.h"

#include <stdlib.h>

#include "engine/base/transfer.h"
#include "engine/plan/footprint.h"

void buckets_init(struct buckets *buckets, struct builder *builder, enum op_kind kind, bool every_time)
{
    const struct schedule *schedule = builder->schedule;
    *buckets = (struct buckets){.builder = builder,
                                .kind = kind,
                                .every_time = every_time,
                                .quantized = schedule_quantizes_gradients(schedule),
                                .last_op = -1};
}

void buckets_release(struct buckets *buckets)
{
    for (int b = 0; b < buckets->full_count; b++) free(buckets->full[b].pieces);
    free(buckets->full);
    free(buckets->open.pieces);
}

static void flush_open(struct buckets *buckets, enum flush why)
{
    if (buckets->open.count == 0) return;
    if (!builder_grow(buckets->builder, (void **)&buckets->full, buckets->full_count, &buckets->full_room,
                      sizeof *buckets->full))
        return;
    buckets->open.why = why;
    buckets->full[buckets->full_count++] = buckets->open;
    buckets->open = (struct bucket){0};
}

/* What stays and what leaves for the host tier is not reduced in one: one is added to what is there, the other not. */
static bool belongs(const struct buckets *buckets, const struct piece *piece)
{
    const struct buffer *buffers = buckets->builder->schedule->buffers;
    if (buckets->open.count == 0 || buckets->builder->failed) return true;
    return buffers[buckets->open.pieces[0].destination].lasting == buffers[piece->destination].lasting;
}

static void add_piece(struct buckets *buckets, const struct piece *piece, int micro_step, int ready_op)
{
    struct bucket *open = &buckets->open;
    if (open->elems + piece->elems > buckets->builder->schedule->knobs.reduce_bucket_elems || !belongs(buckets, piece))
        flush_open(buckets, FLUSH_FULL);
    if (!builder_grow(buckets->builder, (void **)&open->pieces, open->count, &open->room, sizeof *open->pieces)) return;
    open->pieces[open->count++] = *piece;
    open->elems += piece->elems;
    open->micro_step = micro_step;
    open->ready_op = ready_op;
}

void buckets_add_unit(struct buckets *buckets, int micro_step, int u, int source, int destination, int ready_op)
{
    const struct unit *unit = &buckets->builder->model->units[u];
    int64_t end = schedule_padded_elems(buckets->builder->schedule, buckets->builder->model, u);
    for (int t = unit->tensor_count - 1; t >= 0; t--) { /* the padding travels with the last tensor */
        int64_t first = unit->tensors[t].offset;
        add_piece(buckets, &(struct piece){u, first, end - first, source, destination}, micro_step, ready_op);
        end = first;
    }
}

void buckets_close(struct buckets *buckets)
{
    flush_open(buckets, FLUSH_END);
}

/* The last tensor comes first: then a result that leaves for another tier gets a buffer of the step. */
static bool takes_destination(const struct buckets *buckets, const struct piece *piece)
{
    const struct schedule *schedule = buckets->builder->schedule;
    const int64_t padded = schedule_padded_elems(schedule, buckets->builder->model, piece->unit);
    return !buckets->builder->failed && piece->first + piece->elems == padded &&
           !schedule->buffers[piece->destination].lasting;
}

/* ---- what other ranks send of a reduction, where none can read another's memory (topology.collectives nccl) ---- */

/* What one owner's parts take of a strip, each from a whole line on. */
static int64_t owner_bytes(const struct schedule *schedule, const struct model *model, const struct piece *pieces,
                           int count, int owner)
{
    int64_t bytes = 0;
    for (int p = 0; p < count; p++) {
        const struct piece *piece = &pieces[p];
        const int64_t own = piece_elems(schedule, model, piece, EXTENT_SHARD, owner, NULL) *
                            dtype_bytes(schedule->buffers[piece->source].dtype);
        bytes += (own + TRANSFER_ALIGN - 1) / TRANSFER_ALIGN * TRANSFER_ALIGN;
    }
    return bytes;
}

static int64_t arrivals_bytes(const struct schedule *schedule, const struct model *model, const struct piece *pieces,
                              int count)
{
    const int others = schedule->ranks - 1;
    if (!model->passes || others == 0) return 0;
    int64_t strip = 0;
    for (int owner = 0; owner <= others; owner++) {
        const int64_t bytes = owner_bytes(schedule, model, pieces, count, owner);
        if (bytes > strip) strip = bytes;
    }
    const int64_t most = ARRIVALS_BYTES / others / TRANSFER_ALIGN * TRANSFER_ALIGN;
    return (strip < most ? strip : most) * others;
}

/* While the reduction runs, and no longer: reductions stand on one lane, so there is one such buffer at a time. */
static void take_arrivals(struct buckets *buckets, const struct bucket *bucket)
{
    struct builder *builder = buckets->builder;
    if (builder->failed) return;
    const int64_t bytes = arrivals_bytes(builder->schedule, builder->model, bucket->pieces, bucket->count);
    if (bytes == 0) return;
    const int buffer = builder_bytes(builder, "arriving", CATEGORY_BUCKETS, bytes);
    builder_take(builder, ROLE_SCRATCH, buffer);
    builder_give(builder, buffer);
}

/* Hybrid sharding's second hop: the replicas of a shard all-reduce what their groups have reduced to it. What is added up over
 * micro-steps on the device goes once, after the last; what leaves for the host tier goes each time, before it leaves. */
static void write_replicas(struct buckets *buckets, const struct bucket *bucket)
{
    struct builder *builder = buckets->builder;
    const struct schedule *schedule = builder->schedule;
    const bool stays = schedule->buffers[bucket->pieces[0].destination].lasting;
    if (builder->failed || (stays && bucket->micro_step < schedule->micro_steps - 1)) return;
    struct op *op = builder_begin(builder, OP_ALL_REDUCE, bucket->micro_step, -1);
    op->group = GROUP_REPLICAS;
    op->bucket = buckets->written - 1;
    for (int p = 0; p < bucket->count; p++) {
        const struct piece *piece = &bucket->pieces[p];
        builder_piece(builder, piece->unit, piece->first, piece->elems, piece->destination, piece->destination);
    }
    buckets->last_op = builder_end(builder);
}

/* Results are added to what earlier micro-steps left. */
static bool accumulates(const struct buckets *buckets, const struct bucket *bucket)
{
    return buckets->every_time && bucket->micro_step > 0 && !buckets->builder->failed &&
           buckets->builder->schedule->buffers[bucket->pieces[0].destination].lasting;
}

/* The operation now begun makes arrays, one for each slice, of the gradients of a bucket: blocks of int4, or sums of a node. A
 * gradient buffer of the step goes back with element 0. */
static void write_arrays(struct buckets *buckets, const struct bucket *bucket, const char *name, enum extent extent,
                         enum dtype dtype)
{
    struct builder *builder = buckets->builder;
    const struct schedule *schedule = builder->schedule;
    builder->op->bucket = buckets->written++;
    for (int p = 0; p < bucket->count && !builder->failed; p++) {
        const struct piece *piece = &bucket->pieces[p];
        builder_piece(builder, piece->unit, piece->first, piece->elems, piece->source, -1);
        if (piece->first == 0 && !schedule->buffers[piece->source].lasting) builder_give(builder, piece->source);
    }
    for (int p = 0; p < builder->op->piece_count && !builder->failed; p++) {
        struct piece *piece = &schedule->pieces[builder->op->first_piece + p];
        piece->destination = builder_piece_buffer(builder, name, extent, dtype, piece);
        builder_take(builder, ROLES, piece->destination);
    }
}

/* One hop of ZeRO++'s reduction (section 3.3), or the second of another, from the arrays that operation `made` has made. To int4
 * blocks again, or to where the gradients are kept. */
static int write_hop(struct buckets *buckets, const struct bucket *bucket, int made, enum group group)
{
    struct builder *builder = buckets->builder;
    const struct schedule *schedule = builder->schedule;
    struct op *op = builder_begin(builder, OP_REDUCE_SCATTER, bucket->micro_step, -1);
    op->group = group;
    op->bucket = buckets->written - 1;
    op->flush = bucket->why;
    op->accumulate = group == GROUP_ACROSS && accumulates(buckets, bucket);
    for (int p = 0; !builder->failed && p < schedule->ops[made].piece_count; p++) {
        const struct piece from = schedule->pieces[schedule->ops[made].first_piece + p];
        int to = group == GROUP_NODE
                     ? builder_piece_buffer(builder, "quantized node sum", EXTENT_NODE_PIECE, DTYPE_Q4, &from)
                     : -1;
        if (to >= 0) builder_take(builder, ROLES, to);
        for (int b = 0; to < 0 && b < bucket->count; b++)
            if (bucket->pieces[b].unit == from.unit) to = bucket->pieces[b].destination;
        builder_piece(builder, from.unit, from.first, from.elems, from.destination, to);
        builder_give(builder, from.destination);
    }
    for (int p = 0; group == GROUP_ACROSS && p < bucket->count; p++)
        if (takes_destination(buckets, &bucket->pieces[p])) builder_take(builder, ROLES, bucket->pieces[p].destination);
    builder_depend(builder, made, WAIT_DATA);
    return builder_end(builder);
}

/* Quantizing stands on the lane of what made the gradients, so nothing else needs to be waited for. */
static void write_quantized(struct buckets *buckets, const struct bucket *bucket)
{
    builder_begin(buckets->builder, OP_QUANTIZE, bucket->micro_step, -1)->phase = PHASE_BACKWARD;
    write_arrays(buckets, bucket, "quantized gradient", EXTENT_PIECE, DTYPE_Q4);
    int made = builder_end(buckets->builder);
    if (buckets->builder->schedule->node_ranks > 1) made = write_hop(buckets, bucket, made, GROUP_NODE);
    buckets->last_op = write_hop(buckets, bucket, made, GROUP_ACROSS);
}

/* A node's sums in the type that travels, for the ranks at the same place in their nodes; then their sums. */
static void write_in_hops(struct buckets *buckets, const struct bucket *bucket, int serial)
{
    struct builder *builder = buckets->builder;
    struct op *op = builder_begin(builder, OP_REDUCE_SCATTER, bucket->micro_step, -1);
    op->group = GROUP_NODE;
    op->flush = bucket->why;
    write_arrays(buckets, bucket, "node sum", EXTENT_NODE_PIECE, builder->model->wire);
    builder_depend(builder, bucket->ready_op, WAIT_DATA);
    builder_depend(builder, serial, WAIT_LIMIT);
    buckets->last_op = write_hop(buckets, bucket, builder_end(builder), GROUP_ACROSS);
}

static void write_one(struct buckets *buckets, const struct bucket *bucket, int serial)
{
    struct builder *builder = buckets->builder;
    if (buckets->quantized) {
        write_quantized(buckets, bucket);
        return;
    }
    if (schedule_reduces_in_hops(builder->schedule)) {
        write_in_hops(buckets, bucket, serial);
        return;
    }
    struct op *op = builder_begin(builder, buckets->kind, bucket->micro_step, -1);
    if (!builder->schedule->knobs.rank_order) op->group = schedule_shard_group(builder->schedule);
    op->bucket = buckets->written++;
    op->flush = bucket->why;
    for (int p = 0; p < bucket->count; p++) {
        const struct piece *piece = &bucket->pieces[p];
        builder_piece(builder, piece->unit, piece->first, piece->elems, piece->source, piece->destination);
        if (takes_destination(buckets, piece)) builder_take(builder, ROLES, piece->destination);
        /* Element 0 comes last out of a unit: then a gradient buffer of the step is no longer needed, unless the result
         * of an all-reduce stands in it. */
        if (piece->first == 0 && buckets->kind != OP_ALL_REDUCE && !builder->failed &&
            !builder->schedule->buffers[piece->source].lasting)
            builder_give(builder, piece->source);
    }
    take_arrivals(buckets, bucket);
    op->accumulate = accumulates(buckets, bucket);
    builder_depend(builder, bucket->ready_op, WAIT_DATA);
    builder_depend(builder, serial, WAIT_LIMIT);
    buckets->last_op = builder_end(builder);
    if (builder->schedule->ops[buckets->last_op].group == GROUP_SHARDS) write_replicas(buckets, bucket);
}

void buckets_write(struct buckets *buckets, int serial)
{
    for (int b = 0; b < buckets->full_count; b++) {
        write_one(buckets, &buckets->full[b], serial);
        free(buckets->full[b].pieces);
    }
    buckets->full_count = 0;
}
