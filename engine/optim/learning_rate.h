/* DeepSpeed's learning rate schedules as pure functions of the step. */
#ifndef ENGINE_OPTIM_LEARNING_RATE_H
#define ENGINE_OPTIM_LEARNING_RATE_H

#include "engine/config/config.h"

/* What a scheduler sets for one step. Only OneCycle touches the betas, and only of optimizers that have them. */
struct learning_rate { double rate, beta1, beta2; };

/* For the step after `updates` updates. DeepSpeed steps a schedule after each update that was not skipped, and the first
 * step runs at the schedule's initial value: in its counting this is iteration updates - 1, from -1. */
struct learning_rate learning_rate_at(const struct config *config, int64_t updates);

#endif
