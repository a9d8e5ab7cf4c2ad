/* The host lane: gradients that are added up, measured and used for updates where they lie, in host memory. The same kernels as
 * on the device of the CPU backend, so the same bits, on threads of the lane's own. */
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

/* Into their place, or into a buffer of the step that holds just this tile. */
static void cast_parameters(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    int64_t first, end;
    update_range(schedule, &zero->model, op, zero->rank, &first, &end);
    kernels_cast(zero->host_kernels, zero->model.dtype, zero_tile(zero, schedule, op, op->buffer[ROLE_PARAMETERS]),
                 DTYPE_F32, zero_tile(zero, schedule, op, op->buffer[ROLE_SOURCE]), end - first);
}

int zero_host(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    switch (op->kind) {
    case OP_HOST_ADD: zero_add_gradient(zero, zero->host_kernels, schedule, op); break;
    case OP_HOST_NORM: zero_sum_squares(zero, zero->host_kernels, schedule, TIER_HOST); break;
    case OP_HOST_CAST: cast_parameters(zero, schedule, op); break;
    default: zero_update(zero, zero->host_kernels, schedule, op);
    }
    return STATUS_OK;
}
