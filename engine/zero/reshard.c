/* A switch of stage or tier: moves the lasting state from one layout to another, in place.
 *
 * A rank always holds the slice of every array that it owns (schedule.h). At one grouping of ranks it owns the same slice at every
 * stage. Each array *shrinks* (keeps the own shard of the whole), *grows* (gathers the whole from all slices), changes its tier,
 * moves within its address range, or changes its grouping (gathers the slices of the new shard).
 * Ranges stay packed, so an array's new place may overlap an array that has not moved yet. Each move waits until its place is
 * free: first moves that free device memory, from the first unit to the last, then moves that take it, from the last to the
 * first. A slice that cannot move directly passes through a bounce buffer among the buckets, which peers can read. This one
 * slice is all that a switch needs beyond the larger layout, except that a move to or from NVMe also takes the window of
 * array_io.c (at most 8 MiB of host memory).
 *
 * The order depends on the two layouts alone. So the peak in each tier is computed before the first move, and a switch happens on
 * every rank or on none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/zero/internal.h"

struct move {
    const struct buffer *from, *to; /* to NULL: the array is given up */
    const struct schedule *layout_from, *layout_to;
    bool copies; /* `from` is the source of another array, and stays */
    bool done;
};

/* ---- one move ---- */

/* Where the own slice rests on its way, readable by peers. */
static struct buffer bounce_for(const struct zero *zero, const struct buffer *buffer)
{
    int64_t slice = shard_elems(zero->model.units[buffer->unit].elems, zero->ranks);
    return (struct buffer){
        .tier = TIER_DEVICE, .category = CATEGORY_BUCKETS, .bytes = slice * dtype_bytes(buffer->dtype)};
}

static bool regroups(const struct schedule *from, const struct schedule *to)
{
    return schedule_shard_ranks(from) != schedule_shard_ranks(to);
}

/* Bytes from the first element of a buffer to an element. */
static uint64_t bytes_to(const struct zero *zero, const struct schedule *layout, const struct buffer *buffer,
                         int64_t elem)
{
    int64_t first, end;
    buffer_range(layout, &zero->model, buffer, zero->rank, &first, &end);
    return (uint64_t)((elem - first) * dtype_bytes(buffer->dtype));
}

static uint64_t slice_at(const struct zero *zero, const struct schedule *layout, const struct buffer *buffer)
{
    int64_t first, end;
    slice_range(layout, &zero->model, buffer->unit, zero->rank, &first, &end);
    return bytes_to(zero, layout, buffer, first);
}

static int spread_from_bounce(struct zero *zero, const struct schedule *owners, const struct buffer *to,
                              const struct schedule *of, struct error *err)
{
    return zero_spread(zero, owners, to, of, memory_symmetric(zero->memory)->offset[CATEGORY_BUCKETS], err);
}

int zero_spread_own(struct zero *zero, const struct schedule *schedule, int b, struct error *err)
{
    const struct buffer *whole = &schedule->buffers[b];
    struct buffer bounce = bounce_for(zero, whole);
    if (zero_take(zero, &bounce, err)) return STATUS_RUN;
    int status = zero_move_bytes(zero, zero_place(zero, &bounce), zero_place(zero, whole) + slice_at(zero, schedule, whole),
                                 (uint64_t)bounce.bytes, err);
    if (status == STATUS_OK) status = spread_from_bounce(zero, schedule, whole, schedule, err);
    zero_give(zero, &bounce);
    return status;
}

/* Straight from one tier to another, if nothing has to be gathered. */
static bool goes_straight(const struct move *move)
{
    return move->to->extent == EXTENT_SHARD && (move->copies || move->from->tier != move->to->tier) &&
           (move->from->extent == EXTENT_WHOLE || !regroups(move->layout_from, move->layout_to));
}

static int move_straight(struct zero *zero, const struct move *move, struct error *err)
{
    int64_t first, end;
    buffer_range(move->layout_to, &zero->model, move->to, zero->rank, &first, &end);
    if (zero_take(zero, move->to, err)) return err->status;
    int status = zero_array_copy(zero, move->from, bytes_to(zero, move->layout_from, move->from, first), move->to,
                                 (uint64_t)((end - first) * dtype_bytes(move->to->dtype)), err);
    if (!move->copies) zero_give(zero, move->from);
    return status;
}

/* Whether what a rank holds after the move is the slice that it owned before. */
static bool keeps_slice(const struct zero *zero, const struct move *move)
{
    return move->to->extent == EXTENT_SHARD && schedule_shard_ranks(move->layout_from) == zero->ranks &&
           schedule_shard_ranks(move->layout_to) == zero->ranks;
}

static int move_over_bounce(struct zero *zero, const struct move *move, struct error *err)
{
    struct buffer bounce = bounce_for(zero, move->from);
    if (zero_take(zero, &bounce, err)) return err->status;
    int status = zero_array_copy(zero, move->from, slice_at(zero, move->layout_from, move->from), &bounce,
                                 (uint64_t)bounce.bytes, err);
    if (!move->copies) zero_give(zero, move->from);
    if (status == STATUS_OK) status = zero_take(zero, move->to, err);
    if (status == STATUS_OK && keeps_slice(zero, move))
        status = zero_array_copy(zero, &bounce, 0, move->to, (uint64_t)bounce.bytes, err);
    else if (status == STATUS_OK) status = spread_from_bounce(zero, move->layout_from, move->to, move->layout_to, err);
    zero_give(zero, &bounce);
    return status;
}

/* ---- which moves there are ---- */

/* Device bytes that a move gives back, less those that it takes. */
static int64_t frees(const struct move *move)
{
    int64_t bytes = !move->copies && move->from->tier == TIER_DEVICE ? move->from->bytes : 0;
    return bytes - (move->to && move->to->tier == TIER_DEVICE ? move->to->bytes : 0);
}

static const enum role kept[] = {ROLE_PARAMETERS, ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};
enum { KEPT = sizeof kept / sizeof *kept };

/* What becomes of an array of a unit. A master of its own is made from the parameters where there was none (fp32: the same
 * values), and given up where they are it again. False: nothing. */
static bool move_of(const struct schedule *from, const struct schedule *to, int unit, enum role role, struct move *move)
{
    const int f = zero_array(from, unit, role), t = zero_array(to, unit, role);
    const bool shared = role == ROLE_MASTER && f == zero_array(from, unit, ROLE_PARAMETERS);
    const bool shares = role == ROLE_MASTER && t == zero_array(to, unit, ROLE_PARAMETERS);
    if (f < 0 || (shared && shares)) return false;
    *move = (struct move){&from->buffers[f], shares ? NULL : &to->buffers[t], from, to, shared, false};
    const struct buffer *a = move->from, *b = move->to;
    return shared || shares || a->tier != b->tier || a->category != b->category || a->offset != b->offset ||
           a->bytes != b->bytes || (regroups(from, to) && b->extent == EXTENT_SHARD);
}

/* In the order in which they are tried: masters that are copied before their source moves, what leaves room on the device
 * upwards, what takes it downwards. Returns how many. */
static int list_moves(const struct zero *zero, const struct schedule *from, const struct schedule *to,
                      struct move *moves)
{
    const int all = zero->model.unit_count * KEPT;
    struct move move;
    int count = 0;
    for (int i = 0; i < all; i++)
        if (move_of(from, to, i / KEPT, kept[i % KEPT], &move) && move.copies) moves[count++] = move;
    for (int i = 0; i < all; i++)
        if (move_of(from, to, i / KEPT, kept[i % KEPT], &move) && !move.copies && frees(&move) >= 0)
            moves[count++] = move;
    for (int i = all - 1; i >= 0; i--)
        if (move_of(from, to, i / KEPT, kept[i % KEPT], &move) && !move.copies && frees(&move) < 0)
            moves[count++] = move;
    return count;
}

/* ---- their order ---- */

static bool overlap(const struct buffer *a, const struct buffer *b)
{
    return a->tier == b->tier && a->category == b->category && a->offset < b->offset + (uint64_t)b->bytes &&
           b->offset < a->offset + (uint64_t)a->bytes;
}

/* Its place is free, and nobody has still to copy what it takes away. */
static bool may_go(const struct move *moves, int count, int m)
{
    for (int other = 0; other < count; other++) {
        if (other == m || moves[other].done) continue;
        if (moves[other].copies && moves[other].from == moves[m].from) return false;
        if (moves[m].to && !moves[other].copies && overlap(moves[other].from, moves[m].to)) return false;
    }
    return true;
}

/* Puts the list in an order in which every move finds its place free. False: there is none. */
static bool order_moves(struct move *moves, int count)
{
    struct move *ordered = calloc((size_t)count + 1, sizeof *ordered);
    int placed = 0;
    for (bool any = true; ordered && any && placed < count;) {
        any = false;
        for (int m = 0; m < count; m++) {
            if (moves[m].done || !may_go(moves, count, m)) continue;
            ordered[placed++] = moves[m];
            moves[m].done = any = true;
        }
    }
    if (ordered && placed == count) memcpy(moves, ordered, (size_t)count * sizeof *moves);
    free(ordered);
    return placed == count;
}

/* ---- does it fit? ---- */

/* Given up before the moves, taken again after them. Pending gradients stay: they lie at the same place in every layout that
 * delays updates. */
static bool is_remade(const struct zero *zero, const struct buffer *buffer)
{
    if (buffer->category == CATEGORY_GATHERED) return true;
    return buffer->category == CATEGORY_GRADIENTS && !(zero->progress.pending && buffer->tier == TIER_HOST);
}

struct holding {
    int64_t live_bytes[TIERS], peak_bytes[TIERS];
};

static void hold(struct holding *holding, const struct buffer *buffer, int64_t sign)
{
    int64_t *live = &holding->live_bytes[buffer->tier], *peak = &holding->peak_bytes[buffer->tier];
    *live += sign * buffer->bytes;
    if (*live > *peak) *peak = *live;
}

/* The same takes and gives as the move itself. */
static void hold_move(const struct zero *zero, struct holding *holding, const struct move *move)
{
    const bool over_bounce = move->to && !goes_straight(move);
    const struct buffer bounce = bounce_for(zero, move->from),
                        window = {.tier = TIER_HOST, .bytes = (int64_t)zero->window_bytes};
    if (over_bounce) hold(holding, &bounce, 1);
    if (over_bounce && !move->copies) hold(holding, move->from, -1);
    if (move->to) hold(holding, move->to, 1);
    if (move->to && (zero_is_on_nvme(move->from) || zero_is_on_nvme(move->to)))
        hold(holding, &window, 1), hold(holding, &window, -1);
    if (!over_bounce && !move->copies) hold(holding, move->from, -1);
    if (over_bounce) hold(holding, &bounce, -1);
}

/* The most that is live in each tier during the switch. */
static struct holding widest(const struct zero *zero, const struct schedule *from, const struct schedule *to,
                             const struct move *moves, int count)
{
    struct holding holding = {0};
    for (int b = 0; b < from->lasting_count; b++) hold(&holding, &from->buffers[b], 1);
    for (int b = 0; b < from->lasting_count; b++)
        if (is_remade(zero, &from->buffers[b])) hold(&holding, &from->buffers[b], -1);
    for (int m = 0; m < count; m++) hold_move(zero, &holding, &moves[m]);
    for (int b = 0; b < to->lasting_count; b++)
        if (is_remade(zero, &to->buffers[b])) hold(&holding, &to->buffers[b], 1);
    return holding;
}

static struct zero_shortage foresee(const struct zero *zero, const struct holding *holding)
{
    static const char *const where[TIERS] = {"on the device", "of the host tier", "on NVMe"};
    struct zero_shortage failure = {.op = -1};
    struct memory_snapshot now;
    memory_snapshot(zero->memory, &now);
    for (int tier = TIERS - 1; tier >= 0; tier--) {
        const struct buffer all = {.tier = tier, .category = CATEGORY_PARAMETERS, .bytes = holding->peak_bytes[tier]};
        struct error why;
        if (!now.budget_bytes[tier] || (uint64_t)all.bytes <= now.budget_bytes[tier]) continue;
        error_set(&why, STATUS_RUN, "the switch needs %lld bytes %s at its widest; the budget is %llu",
                  (long long)all.bytes, where[tier], (unsigned long long)now.budget_bytes[tier]);
        failure = take_failure_of(zero->memory, -1, &all, &why);
    }
    return failure;
}

/* A disk may be fuller than its budget says: blocks for all that will lie there. */
static void reserve_disk(struct zero *zero, const struct schedule *to, struct zero_shortage *failure)
{
    for (int b = 0; b < to->lasting_count && !failure->failed; b++) {
        const struct buffer *buffer = &to->buffers[b];
        struct error err;
        if (!zero_is_on_nvme(buffer)) continue;
        if (memory_reserve(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes, &err))
            *failure = take_failure_of(zero->memory, -1, buffer, &err);
    }
}

/* ---- all of it ---- */

static int each_remade(struct zero *zero, const struct schedule *schedule, bool taken, struct error *err)
{
    for (int b = 0; b < schedule->lasting_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        if (!is_remade(zero, buffer)) continue;
        if (!taken) zero_give(zero, buffer);
        else if (zero_take(zero, buffer, err)) return err->status;
    }
    return STATUS_OK;
}

static int apply(struct zero *zero, const struct schedule *from, const struct schedule *to, const struct move *moves,
                 int count, struct error *err)
{
    int status = STATUS_OK;
    if (zero->progress.pending && !to->knobs.delayed_update) status = zero_apply_pending(zero, from, err);
    if (status == STATUS_OK) status = each_remade(zero, from, false, err);
    for (int m = 0; m < count && status == STATUS_OK; m++) {
        if (!moves[m].to) zero_give(zero, moves[m].from);
        else status = (goes_straight(&moves[m]) ? move_straight : move_over_bounce)(zero, &moves[m], err);
    }
    if (status == STATUS_OK) status = each_remade(zero, to, true, err);
    return status == STATUS_OK ? zero_fill_tails(zero, to, err) : status;
}

/* Slices of another grouping are gathered into memory. */
int zero_check_switch(const struct zero *zero, const struct schedule *to, struct error *err)
{
    const struct schedule *from = &zero->plan.schedules[PURPOSE_TRAIN];
    if (!zero->ready || !regroups(from, to) || !(zero_needs_storage(from) || zero_needs_storage(to))) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "zero_optimization.mics_shard_size: cannot change in a run while arrays lie on NVMe; offload to "
                     "cpu first, or save and resume");
}

int zero_reshard(struct zero *zero, const struct schedule *to, bool *failed, struct zero_shortage *shortage,
                 struct error *err)
{
    const struct schedule *from = &zero->plan.schedules[PURPOSE_TRAIN];
    struct move *moves = calloc((size_t)zero->model.unit_count * KEPT, sizeof *moves);
    if (!moves) return error_set(err, STATUS_RUN, "no memory to plan a switch");
    if (zero->progress.pending && regroups(from, to)) { /* pending gradients are of the old shards */
        int applied = zero_apply_pending(zero, from, err);
        if (applied) return free(moves), applied;
    }
    int count = list_moves(zero, from, to, moves);
    int status = order_moves(moves, count) ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to order a switch");
    const struct holding holding = widest(zero, from, to, moves, count);
    struct zero_shortage foreseen = foresee(zero, &holding);
    reserve_disk(zero, to, &foreseen);
    if (status == STATUS_OK) status = zero_agree_on_failure(zero, &foreseen, failed, shortage, err);
    if (status == STATUS_OK && !*failed) {
        status = apply(zero, from, to, moves, count, err);
        memory_reset_peaks(zero->memory);
    }
    memory_trim(zero->memory);
    free(moves);
    return status;
}

/* ---- small tensors that stay gathered ---- */

int zero_run_alone(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err)
{
    struct op_stat stat = {0};
    int status = STATUS_OK, taken = 0;
    while (taken < op->take_count && !status)
        if (!(status = zero_take(zero, &schedule->buffers[schedule->effects[op->first_take + taken]], err))) taken++;
    if (status) {
        while (taken > 0) zero_give(zero, &schedule->buffers[schedule->effects[op->first_take + --taken]]);
        return status;
    }
    status = zero_run_op(zero, schedule, op, true, &stat, err);
    if (!status) status = zero_finish_op(zero, op, err);
    for (int g = 0; g < op->give_count; g++) zero_give(zero, &schedule->buffers[schedule->effects[op->first_give + g]]);
    return status;
}

static bool fills_tails(const struct schedule *schedule, const struct op *op)
{
    if (op->kind == OP_PARAM_H2D) return op->phase == PHASE_OPTIMIZER;
    if (op->kind == OP_SWAP_IN) return op->phase == PHASE_OPTIMIZER && op->buffer[ROLE_SOURCE] >= 0;
    return op->kind == OP_REFRESH && op->piece_count > 0 &&
           schedule->buffers[schedule->pieces[op->first_piece].destination].extent == EXTENT_TAIL;
}

/* The step's own operations say what goes where, so these are they, run outside a step. */
int zero_fill_tails(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    int status = STATUS_OK;
    for (int i = 0; i < schedule->op_count && status == STATUS_OK; i++)
        if (fills_tails(schedule, &schedule->ops[i])) status = zero_run_alone(zero, schedule, &schedule->ops[i], err);
    return status;
}
