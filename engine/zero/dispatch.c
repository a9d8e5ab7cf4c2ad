/* Calls the function for each kind of operation, and waits for devices after it. The executor calls these for every lane. */
#include <stdio.h>

#include "engine/plan/footprint.h"
#include "engine/plan/schedule_io.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

/* No default case, so that the compiler reports a kind of ops.def without a function. */
static int run_kind(struct zero *zero, const struct schedule *schedule, const struct op *op, bool healthy,
                    struct op_stat *stat, struct error *err)
{
    switch (op->kind) {
    case OP_LOAD: return zero_load(zero, schedule, op, err);
    case OP_FORWARD:
    case OP_BACKWARD:
    case OP_RECOMPUTE: return zero_use_unit(zero, schedule, op, err);
    case OP_CAST:
    case OP_HOST_ADD: return zero_add_gradient(zero, schedule, op);
    case OP_GRAD_NORM:
    case OP_HOST_NORM: return zero_sum_squares(zero, schedule, op);
    case OP_UPDATE:
    case OP_HOST_UPDATE: return zero_update(zero, schedule, op);
    case OP_HOST_CAST: return zero_cast_parameters(zero, schedule, op);
    case OP_GATHER:
    case OP_REFRESH:
    case OP_REDUCE_SCATTER:
    case OP_ALL_REDUCE:
    case OP_AGREE: return zero_communicate(zero, schedule, op, healthy, stat, err);
    case OP_QUANTIZE:
    case OP_DEQUANTIZE: return zero_quantize(zero, schedule, op);
    case OP_SECONDARY: return zero_keep_secondary(zero, schedule, op, err);
    case OP_OFFLOAD:
    case OP_FETCH:
    case OP_GRAD_D2H:
    case OP_UPLOAD:
    case OP_PARAM_H2D:
    case OP_STORE: return zero_copy(zero, schedule, op, stat, err);
    case OP_SWAP_IN:
    case OP_SWAP_OUT: return zero_swap(zero, schedule, op, stat, err);
    case OP_WORK: /* another program's */
    case OP_HOST_WORK:
    case OP_BROADCAST:
    case OP_ALL_TO_ALL:
    case OP_EXCHANGE:
    case OP_COPY:
    case OP_COPY_D2H:
    case OP_COPY_H2D:
    case OP_KINDS: break;
    }
    return error_set(err, STATUS_RUN, "operation %d of the schedule is of no known kind", (int)op->kind);
}

/* "forward block 3, step 12, rank 1"; between steps "..., before step 13, rank 1" */
static void name_work(const struct zero *zero, const struct op *op)
{
    char what[64], name[128];
    op_describe(what, sizeof what, op, &zero->model);
    snprintf(name, sizeof name, "%s, %sstep %d, rank %d", what, zero->step.purpose == PURPOSE_TRAIN ? "" : "before ",
             (int)zero->progress.steps_done + 1, zero->rank);
    zero->device->name_work(name);
}

int zero_run_op(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat,
                struct error *err)
{
    struct zero *zero = user;
    const bool is_named = zero->device && zero->device->name_work;
    if (is_named) name_work(zero, op);
    int status = run_kind(zero, schedule, op, healthy, stat, err);
    if (is_named) zero->device->name_work(NULL);
    if (op->lane == LANE_COMPUTE && zero->config->topology.device_flops > 0)
        stat->flops = op_flops(schedule, &zero->model, op);
    if (!status && op->lane == LANE_COMPUTE) status = kernels_check(zero->kernels, err);
    const bool delays = schedule == &zero->plan.schedules[PURPOSE_TRAIN] && schedule->knobs.delayed_update;
    if (!status && stat->moved.healthy && delays) zero->pending.done[op - schedule->ops] = 1;
    return status;
}

int zero_finish_op(void *user, const struct op *op, struct error *err)
{
    const struct zero *zero = user;
    return mover_finish(zero->movers[op->lane], err);
}

int zero_settle_op(void *user, const struct op *op, struct op_stat *stat, struct error *err)
{
    const struct zero *zero = user;
    (void)op;
    return comm_waited(zero->comm, &stat->moved, err);
}
