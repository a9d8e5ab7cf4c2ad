/* Blocks of int8 or int4 that travel in place of parameters and gradients (ZeRO++, sections 3.1 and 3.3): made before a collective, and
 * unpacked after a gather. (Sums of blocks are made by the reductions.) */
#include "engine/plan/footprint.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

/* Gradients that are quantized with error feedback (LoCo). It begins anew with the first reduction of a step. */
static struct quantize_feedback feedback_of(const struct zero *zero, const struct schedule *schedule,
                                            const struct op *op, int unit)
{
    const struct config_zero *knobs = &schedule->knobs;
    const int errors = op->bucket >= 0 ? schedule->layout[unit].errors : -1;
    const bool first = op->micro_step == 0 || knobs->no_sync,
               turn = (zero->progress.steps - zero->plan.errors_since) % knobs->loco_reset == 0;
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
