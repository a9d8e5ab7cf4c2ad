/* Shared by the files of `zerolab plan`'s text. Internal to engine/plan. */
#ifndef ENGINE_PLAN_PRINT_PARTS_H
#define ENGINE_PLAN_PRINT_PARTS_H

#include <stdio.h>

#include "engine/plan/setup.h"

/* Categories, model states, activations, buffers. */
void plan_print_memory(FILE *out, const struct setup *setup);

/* Words over as many lines as they need: the first from `column` on, where the line stands, the others from `hang` on. */
void plan_print_words(FILE *out, int column, int hang, const char *text);

#endif
