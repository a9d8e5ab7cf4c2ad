/* The host lane: gradients that are added up, measured and used for updates where they lie, in host memory. The same kernels as
 * on the device of the CPU backend, so the same bits, on threads of the lane's own. */
#include "engine/zero/internal.h"

int zero_host(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    switch (op->kind) {
    case OP_HOST_ADD: zero_add_gradient(zero, zero->host_kernels, schedule, op); break;
    case OP_HOST_NORM: zero_sum_squares(zero, zero->host_kernels, schedule, TIER_HOST); break;
    default: zero_update(zero, zero->host_kernels, schedule, op);
    }
    return STATUS_OK;
}
