/* The lanes between device and host memory: each operation copies from a buffer of one tier to a buffer of another. On the CPU
 * backend that is a copy in memory, and a paced PCIe link adds the time that a real link would take. */
#include "engine/plan/footprint.h"
#include "engine/zero/internal.h"

/* Copies the rank's own part of the pieces; adds its bytes to *copied_bytes. */
static int copy_pieces(const struct zero *zero, const struct schedule *schedule, const struct op *op,
                       uint64_t *copied_bytes, struct error *err)
{
    int status = STATUS_OK;
    for (int p = 0; p < op->piece_count && !status; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        int64_t first;
        const int64_t elems = piece_elems(schedule, &zero->model, piece, EXTENT_SHARD, zero->rank, &first);
        if (elems == 0) continue;
        const uint64_t bytes = (uint64_t)(elems * dtype_bytes(schedule->buffers[piece->source].dtype));
        status = mover_copy(zero->movers[op->lane], zero_at(zero, schedule, piece->destination, first),
                            zero_at(zero, schedule, piece->source, first), bytes, err);
        *copied_bytes += bytes;
    }
    return status;
}

static int copy_whole(const struct zero *zero, const struct schedule *schedule, const struct op *op,
                      uint64_t *copied_bytes, struct error *err)
{
    *copied_bytes = (uint64_t)op->bytes;
    return mover_copy(zero->movers[op->lane], zero_tile(zero, schedule, op, op->buffer[ROLE_OUTPUT]),
                      zero_tile(zero, schedule, op, op->buffer[ROLE_SOURCE]), (uint64_t)op->bytes, err);
}

int zero_keep_secondary(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err)
{
    const struct piece *piece = &schedule->pieces[op->first_piece];
    int64_t first;
    const int64_t elems = piece_elems(schedule, &zero->model, piece, EXTENT_SECONDARY, zero->rank, &first);
    if (elems == 0) return STATUS_OK;
    return mover_copy(zero->movers[op->lane], zero_at(zero, schedule, piece->destination, first),
                      zero_at(zero, schedule, piece->source, first),
                      (uint64_t)(elems * dtype_bytes(schedule->buffers[piece->source].dtype)), err);
}

int zero_copy(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat,
              struct error *err)
{
    uint64_t bytes = 0;
    int status =
        op->piece_count ? copy_pieces(zero, schedule, op, &bytes, err) : copy_whole(zero, schedule, op, &bytes, err);
    const enum traffic kind = op_traffic(op->kind);
    zero->trace.traffic[kind].count++;
    zero->trace.traffic[kind].sent_bytes[0] += bytes;
    *stat = (struct op_stat){.sent_bytes = {[LINK_PCIE] = bytes}, .healthy = true};
    return status;
}
