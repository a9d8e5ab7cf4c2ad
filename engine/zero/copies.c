/* The lanes between tiers: a buffer of one tier becomes a buffer of another. On the CPU backend that is a copy in memory; a
 * paced PCIe link gives it the time that it would take. */
#include <string.h>

#include "engine/plan/footprint.h"
#include "engine/zero/internal.h"

/* What the rank owns of the pieces; returns how many bytes that was. */
static uint64_t copy_pieces(const struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    uint64_t copied_bytes = 0;
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        const int64_t shard = shard_elems(zero->model.units[piece->unit].elems, zero->ranks),
                      piece_end = piece->first + piece->elems;
        const int64_t own = zero->rank * shard, own_end = own + shard;
        const int64_t first = piece->first > own ? piece->first : own, end = piece_end < own_end ? piece_end : own_end;
        if (first >= end) continue;
        const uint64_t bytes = (uint64_t)((end - first) * dtype_bytes(schedule->buffers[piece->source].dtype));
        memcpy(zero_at(zero, schedule, piece->destination, first), zero_at(zero, schedule, piece->source, first),
               bytes);
        copied_bytes += bytes;
    }
    return copied_bytes;
}

static uint64_t copy_whole(const struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    memcpy(zero_tile(zero, schedule, op, op->buffer[ROLE_OUTPUT]),
           zero_tile(zero, schedule, op, op->buffer[ROLE_SOURCE]), (size_t)op->bytes);
    return (uint64_t)op->bytes;
}

int zero_copy(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat)
{
    const uint64_t bytes = op->piece_count ? copy_pieces(zero, schedule, op) : copy_whole(zero, schedule, op);
    const enum traffic kind = op_traffic(op->kind);
    zero->traffic[kind].count++;
    zero->traffic[kind].sent_bytes[0] += bytes;
    *stat = (struct op_stat){.sent_bytes = {[LINK_PCIE] = bytes}, .healthy = true};
    return STATUS_OK;
}
