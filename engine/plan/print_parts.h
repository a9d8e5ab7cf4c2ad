/* Shared by the files of `zerolab plan`'s text. Internal to engine/plan. */
#ifndef ENGINE_PLAN_PRINT_PARTS_H
#define ENGINE_PLAN_PRINT_PARTS_H

#include <stdio.h>

#include "engine/plan/setup.h"

/* Categories, model states, activations, buffers. */
void plan_print_memory(FILE *out, const struct setup *setup);

#endif
