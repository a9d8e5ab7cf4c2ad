#include "engine/observe/history.h"

/* What other lanes than compute bring: whoever waits for it waits for that. A bucket in flight is awaited for the memory of
 * its gradients, save at the end of backward; a copy to the host for the memory of what it copies. */
static enum stall stall_of_kind(enum op_kind kind)
{
    switch (op_lane(kind)) {
    case LANE_D2H:
    case LANE_H2D: return STALL_COPY;
    case LANE_HOST: return STALL_HOST;
    case LANE_NVME_READ:
    case LANE_NVME_WRITE: return STALL_NVME;
    default: break;
    }
    switch (kind) {
    case OP_GATHER: return STALL_GATHER;
    case OP_REDUCE_SCATTER:
    case OP_ALL_REDUCE: return STALL_BUCKET;
    case OP_REFRESH: return STALL_REFRESH;
    case OP_AGREE: return STALL_AGREE;
    default: return STALL_COMPUTE;
    }
}

static bool is_staging(const struct schedule *schedule, int first, int count)
{
    for (int e = first; e < first + count; e++) {
        const struct buffer *buffer = &schedule->buffers[schedule->effects[e]];
        if (buffer->tier == TIER_HOST && buffer->category == CATEGORY_STAGING) return true;
    }
    return false;
}

/* Whether the operation takes staging memory that the other one gives back: the fixed pool of NVMe's reads and writes
 * (STALL_POOL), else pinned memory of device copies (STALL_PINNED). STALL_NONE: it does not. */
static enum stall stall_for_staging(const struct schedule *schedule, const struct op *op, const struct op *awaited)
{
    if (!is_staging(schedule, op->first_take, op->take_count) ||
        !is_staging(schedule, awaited->first_give, awaited->give_count))
        return STALL_NONE;
    return op_swaps(op->kind) || op_swaps(awaited->kind) ? STALL_POOL : STALL_PINNED;
}

/* Whether stage3_max_live_parameters would have let the unit be gathered before `awaited` gave memory back. Then only the
 * prefetch bucket held back its gather, or the copy to the device that comes before its gather. */
static bool would_fit(const struct run_schedule *plan, const struct op *gather, const struct op *awaited)
{
    int64_t live = plan->gathered ? plan->gathered[awaited - plan->ops.ops] : 0;
    for (int p = gather->first_piece; p < gather->first_piece + gather->piece_count; p++) live += plan->ops.pieces[p].elems;
    return live <= plan->ops.knobs.max_live_parameters;
}

static enum why_wait dependency_on(const struct op *op, int awaited)
{
    for (int d = 0; d < op->dependency_count; d++)
        if (op->dependency[d].op == awaited) return op->dependency[d].why;
    return WAIT_DATA;
}

static enum stall stall_for(const struct run_schedule *plan, const struct op *op, const struct op *awaited, enum why_wait why)
{
    const enum stall staging = why == WAIT_MEMORY ? stall_for_staging(&plan->ops, op, awaited) : STALL_NONE;
    bool own_gather = awaited->kind == OP_GATHER && awaited->unit == op->unit; /* needed with or without overlap */
    if (why == WAIT_LIMIT && !own_gather) return STALL_LIMIT;
    if (staging != STALL_NONE) return staging;
    const bool gradient = op->kind == OP_GRAD_D2H || (op->lane == LANE_HOST && awaited->kind == OP_GRAD_D2H);
    if (why == WAIT_DATA && gradient) return STALL_GRADIENT; /* on its way from the device to host memory */
    if (why == WAIT_MEMORY && awaited->lane == LANE_COMPUTE)
        return (op->kind == OP_GATHER || op->kind == OP_PARAM_H2D) && would_fit(plan, op, awaited) ? STALL_ASKED
                                                                                                       : STALL_MEMORY;
    return stall_of_kind(awaited->kind);
}

struct stall_reason stall_before(const struct run_schedule *plan, const struct span *span)
{
    const struct schedule *schedule = &plan->ops;
    bool waited = span->waited_on >= 0 && span->waited_on < schedule->op_count &&
                  span->op < (uint32_t)schedule->op_count && span->ready_ns > span->issued_ns;
    if (!waited) return (struct stall_reason){STALL_NONE, 0, -1};
    const struct op *op = &schedule->ops[span->op];
    enum stall why = stall_for(plan, op, &schedule->ops[span->waited_on], dependency_on(op, span->waited_on));
    return (struct stall_reason){why, span->ready_ns - span->issued_ns, span->waited_on};
}

const struct stall_words stall_table[STALLS] = {
#define STALL(ID, letter, name, help) {letter, name, help},
#include "engine/observe/stalls.def"
#undef STALL
};
