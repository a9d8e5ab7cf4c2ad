/* A switch of stage: the lasting state moves from one layout to another, in place.
 *
 * A rank owns the same elements at every stage, so it always holds its own shard of everything, and a switch is, unit by
 * unit, either *shrinking* (keep the own shard of a whole array) or *growing* (gather the whole from all shards). Addresses
 * stay packed: shrinking goes from the first unit up and growing from the last unit down, so a unit's new place never
 * reaches into one that has not moved yet. A shard on its way rests in a bounce buffer among the buckets, which peers can
 * read; that one shard is all the memory a switch needs beyond the larger of the two layouts.
 *
 * Whether it fits is computed first, so that a switch either happens on every rank or on none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/zero/internal.h"

struct move {
    const struct buffer *from, *to;
};

/* Lasting buffers come in the same order in every layout, but a layout may have tails or not. */
static int next_kept(const struct schedule *schedule, int b, int step)
{
    for (; b >= 0 && b < schedule->lasting_count; b += step) {
        enum category category = schedule->buffers[b].category;
        if (category == CATEGORY_PARAMETERS || category == CATEGORY_OPTIMIZER) return b;
    }
    return -1;
}

static int take(struct zero *zero, const struct buffer *buffer, struct error *err)
{
    return memory_take(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes, err);
}

static void give(struct zero *zero, const struct buffer *buffer)
{
    memory_give(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes);
}

static char *place(const struct zero *zero, const struct buffer *buffer)
{
    return memory_at(zero->memory, buffer->tier, buffer->category, buffer->offset);
}

/* Where a shard rests on its way, readable by peers. */
static struct buffer bounce_for(const struct zero *zero, const struct buffer *buffer)
{
    int64_t shard = shard_elems(zero->model.units[buffer->unit].elems, zero->ranks);
    return (struct buffer){
        .tier = TIER_DEVICE, .category = CATEGORY_BUCKETS, .bytes = shard * dtype_bytes(buffer->dtype)};
}

static int spread_from_bounce(struct zero *zero, const struct buffer *whole, struct error *err)
{
    return zero_spread(zero, whole->unit, whole->dtype, memory_symmetric_offset(zero->memory, CATEGORY_BUCKETS),
                       place(zero, whole), err);
}

int zero_spread_own(struct zero *zero, const struct schedule *schedule, int b, struct error *err)
{
    const struct buffer *whole = &schedule->buffers[b];
    struct buffer bounce = bounce_for(zero, whole);
    if (take(zero, &bounce, err)) return STATUS_RUN;
    memcpy(place(zero, &bounce), place(zero, whole) + zero->rank * bounce.bytes, (size_t)bounce.bytes);
    int status = spread_from_bounce(zero, whole, err);
    give(zero, &bounce);
    return status;
}

static int shrink(struct zero *zero, const struct move *move, struct error *err)
{
    struct buffer bounce = bounce_for(zero, move->from);
    if (take(zero, &bounce, err)) return err->status;
    memcpy(place(zero, &bounce), place(zero, move->from) + zero->rank * bounce.bytes, (size_t)bounce.bytes);
    give(zero, move->from);
    int status = take(zero, move->to, err);
    if (status == STATUS_OK) memcpy(place(zero, move->to), place(zero, &bounce), (size_t)bounce.bytes);
    give(zero, &bounce);
    return status;
}

static int grow(struct zero *zero, const struct move *move, struct error *err)
{
    struct buffer bounce = bounce_for(zero, move->from);
    if (take(zero, &bounce, err)) return err->status;
    memcpy(place(zero, &bounce), place(zero, move->from), (size_t)bounce.bytes);
    give(zero, move->from);
    int status = take(zero, move->to, err);
    if (status == STATUS_OK) status = spread_from_bounce(zero, move->to, err);
    give(zero, &bounce);
    return status;
}

/* ---- the moves in their order ---- */

/* Every buffer that changes its extent: those that shrink, upwards, then those that grow, downwards. Returns how many. */
static int list_moves(const struct schedule *from, const struct schedule *to, struct move *moves)
{
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        const int step = pass == 0 ? 1 : -1;
        const enum extent wanted = pass == 0 ? EXTENT_WHOLE : EXTENT_SHARD;
        int f = next_kept(from, pass == 0 ? 0 : from->lasting_count - 1, step),
            t = next_kept(to, pass == 0 ? 0 : to->lasting_count - 1, step);
        for (; f >= 0 && t >= 0; f = next_kept(from, f + step, step), t = next_kept(to, t + step, step))
            if (from->buffers[f].extent == wanted && to->buffers[t].extent != wanted)
                moves[count++] = (struct move){&from->buffers[f], &to->buffers[t]};
    }
    return count;
}

static bool is_remade(const struct buffer *buffer) /* given up before the moves, taken again after them */
{
    return buffer->category == CATEGORY_GRADIENTS || buffer->category == CATEGORY_GATHERED;
}

static int64_t remade_bytes(const struct schedule *schedule)
{
    int64_t bytes = 0;
    for (int b = 0; b < schedule->lasting_count; b++)
        bytes += is_remade(&schedule->buffers[b]) ? schedule->buffers[b].bytes : 0;
    return bytes;
}

/* Highest number of bytes live during the switch. */
static int64_t switch_peak(const struct zero *zero, const struct schedule *from, const struct schedule *to,
                           const struct move *moves, int count)
{
    int64_t live = -remade_bytes(from);
    for (int b = 0; b < from->lasting_count; b++) live += from->buffers[b].bytes;
    int64_t peak = live + remade_bytes(from);
    for (int m = 0; m < count; m++) {
        int64_t bounce = bounce_for(zero, moves[m].from).bytes;
        int64_t during = moves[m].to->bytes > moves[m].from->bytes ? moves[m].to->bytes - moves[m].from->bytes : 0;
        if (live + bounce + during > peak) peak = live + bounce + during;
        live += moves[m].to->bytes - moves[m].from->bytes;
    }
    live += remade_bytes(to);
    return live > peak ? live : peak;
}

static struct take_failure foresee(const struct zero *zero, int64_t peak_bytes)
{
    struct take_failure failure = {.op = -1, .tier = TIER_DEVICE, .category = CATEGORY_PARAMETERS};
    memory_snapshot(zero->memory, &failure.memory);
    const uint64_t budget = failure.memory.budget_bytes[TIER_DEVICE];
    failure.failed = budget && (uint64_t)peak_bytes > budget;
    failure.wanted_bytes = (uint64_t)peak_bytes;
    if (failure.failed)
        snprintf(failure.text, sizeof failure.text,
                 "the switch needs %lld bytes on the device at its widest; the budget is %llu", (long long)peak_bytes,
                 (unsigned long long)budget);
    return failure;
}

static int each_remade(struct zero *zero, const struct schedule *schedule, bool taken, struct error *err)
{
    for (int b = 0; b < schedule->lasting_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        if (!is_remade(buffer)) continue;
        if (!taken) give(zero, buffer);
        else if (take(zero, buffer, err)) return err->status;
    }
    return STATUS_OK;
}

static int apply(struct zero *zero, const struct schedule *from, const struct schedule *to, const struct move *moves,
                 int count, struct error *err)
{
    int status = each_remade(zero, from, false, err);
    for (int m = 0; m < count && status == STATUS_OK; m++)
        status = moves[m].to->extent == EXTENT_WHOLE ? grow(zero, &moves[m], err) : shrink(zero, &moves[m], err);
    if (status == STATUS_OK) status = each_remade(zero, to, true, err);
    return status == STATUS_OK ? zero_fill_tails(zero, to, err) : status;
}

int zero_reshard(struct zero *zero, const struct schedule *to, bool *failed, struct zero_shortage *shortage,
                 struct error *err)
{
    const struct schedule *from = &zero->schedules[PURPOSE_TRAIN];
    struct move *moves = calloc((size_t)from->lasting_count, sizeof *moves);
    struct error local;
    if (!moves) return error_set(err, STATUS_RUN, "no memory to plan a switch");
    int count = list_moves(from, to, moves);
    struct take_failure foreseen = foresee(zero, switch_peak(zero, from, to, moves, count));
    int status = zero_agree_on_failure(zero, &foreseen, failed, shortage, err);
    if (status == STATUS_OK && !*failed) {
        status = apply(zero, from, to, moves, count, err ? err : &local);
        memory_trim(zero->memory);
        memory_reset_peaks(zero->memory);
    }
    free(moves);
    return status;
}

/* ---- small tensors that stay gathered ---- */

/* The pieces of the step's own refresh say what goes where, so this is that operation, run outside a step. */
int zero_fill_tails(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    struct op_stat stat;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->kind != OP_REFRESH || op->piece_count == 0) continue;
        if (schedule->buffers[schedule->pieces[op->first_piece].destination].extent != EXTENT_TAIL) continue;
        int status = zero_communicate(zero, schedule, op, true, &stat, err);
        if (status) return status;
    }
    return STATUS_OK;
}
