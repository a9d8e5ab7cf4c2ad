/* How long a step takes at least: each operation lasts what pacing makes it last (paced links, a paced device, slow motion) and
 * nothing else does; lanes are in order, and an operation begins when all that it waits for has ended. The executor makes every
 * operation last that long, so no machine is faster; one whose own work is short beside the pace comes near it. */
#ifndef ENGINE_PLAN_PACED_H
#define ENGINE_PLAN_PACED_H

#include "engine/plan/setup.h"

/* Of one operation: what the executor makes it last at least. */
double paced_op_seconds(const struct setup *setup, const struct config *config, const struct op *op);

/* Of a training step; 0: nothing is paced. NAN: there was no memory to follow it. */
double paced_seconds(const struct setup *setup, const struct config *config);

/* What moves or uses parameters and gradients; the rest (tokens, norms, agreement, updates) is bookkeeping beside it, which
 * slow motion does not draw out to be looked at. */
bool op_is_followed(const struct op *op);

#endif
