/* Buckets of gradients, by the schedule and the progress of a rank. */
#include "engine/observe/filling.h"

int bucket_after(const struct schedule *ops, int op)
{
    for (op++; op < ops->op_count; op++)
        if (ops->ops[op].bucket >= 0 && ops->ops[op].lane == LANE_COMM) return op; /* not its copy to the host */
    return -1;
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
    struct filling filling = {0};
    for (int p = 0; p < flush->piece_count; p++) {
        const struct piece *piece = &ops->pieces[flush->first_piece + p];
        const int maker = completed_by(ops, op, piece);
        filling.elems += piece->elems;
        if (maker >= 0 && progress_state(at, maker) == PROGRESS_ENDED) filling.filled_elems += piece->elems;
    }
    switch (progress_state(at, op)) {
    case PROGRESS_ENDED: filling.state = BUCKET_FLUSHED; break;
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
