/* The lanes between device and host memory: each operation copies from a buffer of one tier to a buffer of another. On the CPU
 * backend that is a copy in memory, and a paced PCIe link adds the time that a real link would take. Also makes and unpacks blocks. */
#include "engine/plan/footprint.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

/* Copies the rank's own part of the pieces, of that extent; adds its bytes to *copied_bytes. */
static int copy_pieces(const struct zero *zero, const struct schedule *schedule, const struct op *op,
                       enum extent extent, uint64_t *copied_bytes, struct error *err)
{
    int status = STATUS_OK;
    for (int p = 0; p < op->piece_count && !status; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        int64_t first;
        const int64_t elems = piece_elems(schedule, &zero->model, piece, extent, zero->rank, &first);
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
    uint64_t bytes = 0;
    return copy_pieces(zero, schedule, op, EXTENT_SECONDARY, &bytes, err);
}

int zero_copy(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat,
              struct error *err)
{
    uint64_t bytes = 0;
    int status = op->piece_count ? copy_pieces(zero, schedule, op, EXTENT_SHARD, &bytes, err)
                                 : copy_whole(zero, schedule, op, &bytes, err);
    const enum traffic kind = op_traffic(op->kind);
    zero->trace.traffic[kind].count++;
    zero->trace.traffic[kind].sent_bytes[0] += bytes;
    *stat = (struct op_stat){.moved = {.sent_bytes = {[LINK_PCIE] = bytes}, .healthy = true}};
    return status;
}

/* ---- blocks of int8 or int4 that travel in place of parameters and gradients (ZeRO++, sections 3.1 and 3.3): made before a
 * collective, and unpacked after a gather. (Sums of blocks are made by the reductions.) ---- */

/* Gradients that are quantized with error feedback (LoCo). It begins anew with the first reduction of a step. */
static struct quantize_feedback feedback_of(const struct zero *zero, const struct schedule *schedule,
                                            const struct op *op, int unit)
{
    const struct config_zero *knobs = &schedule->knobs;
    const int errors = op->bucket >= 0 ? schedule->layout[unit].errors : -1;
    const bool first = op->micro_step == 0 || knobs->no_sync,
               turn = (zero->progress.steps_done - zero->plan.errors_since) % knobs->loco_reset == 0;
    return (struct quantize_feedback){zero_buffer(zero, schedule, errors), knobs->loco_beta, first && turn};
}

/* Returns how many elements it quantized. */
static int64_t make_blocks(struct zero *zero, const struct schedule *schedule, const struct op *op,
                           const struct piece *piece, struct quantize_error *error)
{
    const struct buffer *from = &schedule->buffers[piece->source], *to = &schedule->buffers[piece->destination];
    char *const blocks = zero_buffer(zero, schedule, piece->destination);
    const struct quantize_feedback feedback = feedback_of(zero, schedule, op, piece->unit);
    int64_t first = piece->first, elems = piece->elems;
    if (to->extent == EXTENT_SHARD)
        elems = piece_elems(schedule, &zero->model, piece, EXTENT_SHARD, zero->rank, &first);
    for (int64_t at = first, next; at < first + elems; at = next) {
        struct quantize_feedback here = feedback;
        next = quantized_next(schedule, &zero->model, to, at);
        if (next > first + elems) next = first + elems;
        if (here.errors) here.errors += at;
        kernels_quantize(
            to->dtype, blocks + zero_piece_place(zero, schedule, piece, piece->destination, zero->rank, at),
            from->dtype, zero_at(zero, schedule, piece->source, at), next - at, here.errors ? &here : NULL, error);
    }
    return elems;
}

static void unpack(struct zero *zero, const struct schedule *schedule, const struct piece *piece)
{
    const struct buffer *from = &schedule->buffers[piece->source], *to = &schedule->buffers[piece->destination];
    const char *const blocks = zero_buffer(zero, schedule, piece->source);
    const int64_t end = piece->first + piece->elems;
    for (int64_t at = piece->first, next; at < end; at = next) {
        next = quantized_next(schedule, &zero->model, from, at);
        if (next > end) next = end;
        kernels_dequantize(to->dtype, zero_at(zero, schedule, piece->destination, at), from->dtype,
                           blocks + zero_piece_place(zero, schedule, piece, piece->source, zero->rank, at), next - at);
    }
}

int zero_quantize(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        struct quantize_error error = {0};
        if (op->kind == OP_DEQUANTIZE) {
            unpack(zero, schedule, piece);
            continue;
        }
        const int64_t elems = make_blocks(zero, schedule, op, piece, &error);
        zero->step.spoiled_blocks |= error.not_finite > 0;
        zero_record_quantized(zero, piece, schedule->buffers[piece->destination].dtype == DTYPE_Q4, elems, &error);
    }
    return STATUS_OK;
}
