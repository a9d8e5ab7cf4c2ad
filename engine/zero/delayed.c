/* One-step delayed parameter update (ZeRO-Offload, section 5.2): the gradients of a step stay in the host tier, with the factor
 * that clips and unscales them, and the host updates with them while the next step computes. Gradients and factor are part of
 * the state, so a checkpoint and a switch of stage keep them.
 *
 * Where no update may stay pending, it runs at once, between two steps, with the schedule's own operations in the order of the
 * list: before a switch to updates without delay, and after a step that ran out of memory, which may have done a part of it. */
#include "engine/zero/internal.h"

bool zero_is_delayed(const struct zero *zero)
{
    return zero->plan.schedules[PURPOSE_TRAIN].knobs.delayed_update;
}

bool zero_delay_is_due(const struct zero *zero)
{
    return zero->ready && zero->plan.knobs.delayed_update && !zero_is_delayed(zero) &&
           zero->progress.steps >= zero->plan.knobs.delayed_update_after;
}

void zero_note_pending(struct zero *zero, bool updates)
{
    zero->pending.there = updates;
    zero->pending.update = (struct update_of){zero->step.gradient_factor, zero->step.rate, zero->progress.updates};
}

/* Whether an operation before the agreement belongs to the update: it updates, or reads or writes states for it. All operations
 * after the agreement belong to it. */
static bool is_part(const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    return op_is_update(op->kind) || (op_swaps(op->kind) && op->buffer[ROLE_SOURCE] < 0);
}

/* The operation with which a part is complete: states on NVMe must have been written back. */
static int done_with(const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    for (int k = i; k < schedule->op_count && schedule->ops[k].kind != OP_AGREE; k++) {
        const struct op *other = &schedule->ops[k];
        if (other->kind == OP_SWAP_OUT && other->unit == op->unit && other->tile == op->tile) return k;
    }
    return i;
}

int zero_apply_pending(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    const int agreement = schedule_agreement(schedule);
    int status = STATUS_OK;
    zero->step.applies_pending = true;
    for (int i = 0; i < schedule->op_count && status == STATUS_OK; i++) {
        if (i == agreement || (i < agreement && !is_part(schedule, i))) continue;
        if (i < agreement && zero->pending.done && zero->pending.done[done_with(schedule, i)]) continue;
        status = zero_run_alone(zero, schedule, &schedule->ops[i], err);
    }
    zero->step.applies_pending = zero->pending.there = false;
    return status;
}
