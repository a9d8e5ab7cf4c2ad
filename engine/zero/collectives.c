/* The communication lane: makes the ranges of a collective from the pieces of an operation. A piece is cut where the owner of its
 * elements changes (op_owner()). Also runs the agreement of a step. */
#include <math.h>

#include "engine/zero/internal.h"

/* The times of a meeting are read when its operation has ended, so all operations in flight need meetings of their own. */
_Static_assert(LANE_FLIGHTS *COMM_MEETINGS_EACH <= COMM_MEETINGS, "COMM_MEETINGS is too small");

uint64_t zero_piece_place(const struct zero *zero, const struct schedule *schedule, const struct piece *piece,
                          int buffer, int rank, int64_t elem)
{
    const struct buffer *b = &schedule->buffers[buffer];
    int64_t first, end;
    buffer_range(schedule, &zero->model, b, rank, &first, &end);
    if (!dtype_is_quantized(b->dtype) && b->extent != EXTENT_NODE_PIECE)
        return (uint64_t)((elem - first) * dtype_bytes(b->dtype));
    if (b->extent == EXTENT_PIECE || b->extent == EXTENT_NODE_PIECE) first = piece->first;
    return (uint64_t)quantized_place(schedule, &zero->model, b, rank, first, elem);
}

/* Reductions deliver to the owner only; other ranks have no destination. */
static int cut_pieces(const struct zero *zero, const struct schedule *schedule, const struct op *op, int round,
                      struct comm_range *ranges)
{
    const bool gathers = op->kind == OP_GATHER || op->kind == OP_REFRESH;
    int count = 0;
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        const struct buffer *from = &schedule->buffers[piece->source];
        const uint64_t source = memory_symmetric(zero->memory)->offset[from->category] + from->offset;
        char *to = zero_buffer(zero, schedule, piece->destination);
        const int64_t end = piece->first + piece->elems;
        for (int64_t at = piece->first, next; at < end; at = next) {
            const int owner = op_owner(schedule, &zero->model, op, piece->unit, zero->rank, round, at, &next);
            if (next > end) next = end;
            if (owner < 0) continue;
            struct comm_range *range = &ranges[count++];
            *range = (struct comm_range){.owner = owner, .elems = next - at, .source = source};
            range->source += zero_piece_place(zero, schedule, piece, piece->source, owner, at);
            if (gathers || owner == zero->rank)
                range->destination = to + zero_piece_place(zero, schedule, piece, piece->destination, zero->rank, at);
        }
    }
    return count;
}

/* DeepSpeed's two ways to divide by the number of ranks before the sum: wholly or in part. Of two hops the first makes the mean of a
 * group, the second the mean of these. (DeepSpeed's quantized reduction divides by the nodes alone, so that its result is too large by
 * the ranks of a node.) */
static void scale_reduction(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    const struct config_zero *knobs = &schedule->knobs;
    const float ranks = (float)zero->ranks, range = (float)op_ranks(schedule, op) / ranks,
                predivide = knobs->gradient_predivide_factor;
    if (op->group == GROUP_REPLICAS || op->group == GROUP_ACROSS || schedule_quantizes_gradients(schedule))
        comm_scale(zero->comm, 1, 1 / (ranks * range));
    else if (knobs->prescale_gradients) comm_scale(zero->comm, 1 / ranks, 1 / range);
    else comm_scale(zero->comm, 1 / predivide, predivide / (ranks * range));
}

static int call_comm(struct zero *zero, const struct op *op, enum dtype dtype, enum dtype to, int count, bool healthy,
                struct comm_stat *stat, struct error *err)
{
    switch (op->kind) {
    case OP_REDUCE_SCATTER:
        return comm_reduce_scatter(zero->comm, dtype, to, zero->ranges, count, op->accumulate, healthy, stat, err);
    case OP_ALL_REDUCE: return comm_all_reduce(zero->comm, dtype, zero->ranges, count, healthy, stat, err);
    default: return comm_all_gather(zero->comm, dtype, zero->ranges, count, healthy, stat, err);
    }
}

static void add_stat(struct comm_stat *sum, const struct comm_stat *stat)
{
    if (!sum->peers_ns) sum->arrival_ns = stat->arrival_ns;
    for (int link = 0; link < 2; link++) sum->sent_bytes[link] += stat->sent_bytes[link];
    for (int link = 0; link < 2; link++) sum->link_ns[link] += stat->link_ns[link];
    sum->peers_ns += stat->peers_ns;
    if (!sum->meetings) sum->meeting = stat->meeting;
    sum->meetings += stat->meetings;
    sum->healthy &= stat->healthy;
}

static int run_collective(struct zero *zero, const struct schedule *schedule, const struct op *op, bool healthy,
                struct comm_stat *stat, struct error *err)
{
    const struct piece *piece = op->piece_count ? &schedule->pieces[op->first_piece] : NULL;
    const enum dtype dtype = piece ? schedule->buffers[piece->source].dtype : zero->model.dtype,
                     to = piece ? schedule->buffers[piece->destination].dtype : dtype;
    const int room = op->buffer[ROLE_SCRATCH];
    const struct process_group group = schedule_group(schedule, op->group, zero->rank);
    int status = STATUS_OK;
    comm_room(zero->comm, zero_buffer(zero, schedule, room), room >= 0 ? (uint64_t)schedule->buffers[room].bytes : 0);
    comm_set_group(zero->comm, &group);
    scale_reduction(zero, schedule, op);
    for (int round = 0; round < op_rounds(schedule, op) && !status; round++) {
        struct comm_stat moved;
        const int count = cut_pieces(zero, schedule, op, round, zero->ranges);
        status = call_comm(zero, op, dtype, to, count, healthy, &moved, err);
        add_stat(stat, &moved);
    }
    comm_set_group(zero->comm, NULL);
    return status;
}

/* ---- agreement ---- */

/* After the exchange every rank computes the same loss and norm, and whether the update may happen. A gradient that is inf or NaN
 * makes its shard's sum of squares inf or NaN; finite ones cannot, because the sum is in double. The norm is that of unscaled
 * gradients: they are divided by the scale of this backward (DeepSpeed's stages divide by the next scale, which is twice as
 * large if it has just been raised). */
static void conclude(struct zero *zero, const struct schedule *schedule)
{
    double loss = 0, squares = 0, clip = zero->config->gradient_clipping;
    zero->step.concluded.failed = false;
    for (int r = 0; r < zero->ranks; r++) {
        loss += zero->step.agreed[r].loss;
        squares += zero->step.agreed[slice_owner(schedule, r)].sum_squares; /* in the order of the slices */
        zero->step.concluded.failed |= zero->step.agreed[r].failed != 0;
    }
    double norm = zero->step.concluded.grad_norm = sqrt(squares) / zero->progress.scaler.scale;
    zero->step.concluded.loss = loss / zero->ranks;
    zero->step.gradient_factor =
        (float)((clip > 0 && norm + 1e-6 > clip ? clip / (norm + 1e-6) : 1) / zero->progress.scaler.scale);
    zero->step.concluded.not_finite = zero->step.purpose == PURPOSE_TRAIN && !(isfinite(squares) && isfinite(loss));
    if (zero->step.concluded.failed || zero->step.concluded.not_finite) executor_drop_rest(zero->executor);
}

static int agree(struct zero *zero, const struct schedule *schedule, bool healthy, struct comm_stat *stat,
                 struct error *err)
{
    const bool good = healthy && zero_update_fits(zero, schedule);
    struct agreement mine = {0, zero->step.spoiled_blocks ? INFINITY : 0, !good};
    for (int m = 0; m < schedule->micro_steps; m++) mine.loss += (double)zero->mailbox.losses[m];
    mine.loss /= schedule->micro_steps;
    for (int u = 0; u < zero->model.unit_count; u++) mine.sum_squares += zero->mailbox.unit_squares[u];
    int status = comm_exchange(zero->comm, &mine, zero->step.agreed, sizeof mine, stat, err);
    if (status == STATUS_OK) conclude(zero, schedule);
    stat->healthy = status == STATUS_OK && !zero->step.concluded.failed;
    return status;
}

int zero_communicate(struct zero *zero, const struct schedule *schedule, const struct op *op, bool healthy,
                     struct op_stat *stat, struct error *err)
{
    *stat = (struct op_stat){.moved.healthy = true};
    int status = op->kind == OP_AGREE ? agree(zero, schedule, healthy, &stat->moved, err)
                                      : run_collective(zero, schedule, op, healthy, &stat->moved, err);
    const enum traffic kind = op_traffic(op->kind);
    zero->trace.traffic[kind].count++;
    for (int link = 0; link < 2; link++) zero->trace.traffic[kind].sent_bytes[link] += stat->moved.sent_bytes[link];
    return status;
}

int zero_spread(struct zero *zero, const struct schedule *owners, const struct buffer *to, const struct schedule *of,
                uint64_t source, struct error *err)
{
    const int64_t slice = shard_elems(zero->model.units[to->unit].elems, zero->ranks);
    char *const place = zero_place(zero, to);
    int64_t first, end;
    buffer_range(of, &zero->model, to, zero->rank, &first, &end);
    for (int s = 0; s < zero->ranks; s++) {
        const int64_t at = s * slice;
        const bool wanted = at >= first && at < end;
        zero->ranges[s] =
            (struct comm_range){.owner = slice_owner(owners, s),
                               .elems = slice,
                               .source = source,
                               .destination = wanted ? place + (at - first) * dtype_bytes(to->dtype) : NULL};
    }
    int status = comm_all_gather(zero->comm, to->dtype, zero->ranges, zero->ranks, true, NULL, err);
    return status ? status : mover_finish(zero->movers[LANE_COMM], err);
}
