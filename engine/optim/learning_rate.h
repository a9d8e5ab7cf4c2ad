/* DeepSpeed's learning rate schedules, as pure functions of the number of updates. */
#pragma once

#include "engine/config/config.h"

/* The values of one step. Only OneCycle changes the betas, and only for optimizers that have them. */
struct learning_rate { double rate, beta1, beta2; };

/* The values of the step after `updates` updates. DeepSpeed steps a schedule after each update that was not skipped, and the
 * first step has the schedule's initial value. DeepSpeed's last_batch_iteration is updates - 1, so it starts at -1. */
struct learning_rate learning_rate_at(const struct config *config, int64_t updates);
