/* Floating-point operations of a schedule: its matrix products and attention, two to a multiply-add, as the kernels compute
 * them (attention is causal, so half of its T x T; its backward makes the scores again). Norms, GELU and the optimizer are
 * not counted: they are bound by memory. */
#ifndef ENGINE_PLAN_FLOPS_H
#define ENGINE_PLAN_FLOPS_H

#include "engine/plan/schedule.h"

int64_t op_flops(const struct schedule *schedule, const struct model *model, const struct op *op);

/* Of one rank in one step. */
struct flops { int64_t forward, backward, recomputed; };
void flops_of(struct flops *flops, const struct schedule *schedule, const struct model *model);

#endif
