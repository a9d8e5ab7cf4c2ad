/* `zerolab plan`: what a setup costs, before anything runs. Memory by category with each buffer's formula, traffic held
 * against the paper's volume unit by unit, and the operations of a step. All numbers come from the schedule that would run. */
#ifndef ENGINE_ADVISE_PRINT_H
#define ENGINE_ADVISE_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/config/config.h"
#include "engine/plan/model.h"

int plan_print(FILE *out, const struct config *config, bool with_schedule, struct error *err);

/* The same as one JSON object. */
int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err);

/* What cannot be seen under these knobs, and which of them makes it so: a line each after `prefix`, or nothing. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero);

#endif
