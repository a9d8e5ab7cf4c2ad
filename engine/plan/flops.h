/* Floating-point operations of a schedule: its matrix products and attention, two to a multiply-add, as the kernels compute
 * them (attention is causal, so half of its T x T; its backward makes the scores again). Norms, GELU and the optimizer are
 * not counted: they are bound by memory.
 *
 * Counts are doubles: a step of a model of 1e12 parameters takes 5e19 of them, more than 64 bits hold. They are exact up to 2^53, and
 * to 16 digits beyond. */
#ifndef ENGINE_PLAN_FLOPS_H
#define ENGINE_PLAN_FLOPS_H

#include "engine/plan/schedule.h"

double op_flops(const struct schedule *schedule, const struct model *model, const struct op *op);

/* Of one rank in one step. */
struct flops { double forward, backward, recomputed; };
void flops_of(struct flops *flops, const struct schedule *schedule, const struct model *model);

#endif
