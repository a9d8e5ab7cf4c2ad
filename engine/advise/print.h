/* `zerolab plan`: prints the cost of a setup before it runs. Memory by category with each buffer's formula, traffic
 * compared with the paper's volume for each unit, and the operations of a step. All numbers come from the schedule that
 * the engine would run. */
#ifndef ENGINE_ADVISE_PRINT_H
#define ENGINE_ADVISE_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/config/config.h"
#include "engine/plan/setup.h"

/* Both return the status of setup_init() or schedule_check(). */
int plan_print(FILE *out, const struct config *config, bool with_schedule, struct error *err);

/* The same as one JSON object. */
int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err);

/* Prints a line for each effect that this configuration hides: prefix, effect, and the key that hides it. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero);

/* print_memory.c: tiers, model states, activations, buffers. */
void plan_print_memory(FILE *out, const struct setup *setup, const struct config *config);

#endif
