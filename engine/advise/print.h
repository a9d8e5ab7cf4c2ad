/* `zerolab plan`: what a setup costs, before anything runs. Memory by category with each buffer's formula, traffic held
 * against the paper's volume unit by unit, and the operations of a step. All numbers come from the schedule that would run. */
#ifndef ENGINE_ADVISE_PRINT_H
#define ENGINE_ADVISE_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/config/config.h"
#include "engine/plan/setup.h"

int plan_print(FILE *out, const struct config *config, bool with_schedule, struct error *err);

/* The same as one JSON object. */
int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err);

/* What cannot be seen under these knobs, and which of them makes it so: a line each after `prefix`, or nothing. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero);

/* ---- between print.c, print_head.c, print_memory.c and print_json.c ---- */

/* A plan is only shown of a schedule that an engine would run. */
int plan_checked_setup(struct setup *setup, const struct config *config, struct error *err);

/* What the figures hang on. */
void plan_print_head(FILE *out, const struct setup *setup, const struct config *config);

/* Tiers, model states, activations, buffers. */
void plan_print_memory(FILE *out, const struct setup *setup, const struct config *config);

/* The pace that traffic of a kind is held to; NULL: none, or not one: between nodes and inside them links differ. */
const struct config_link *plan_pace_of(const struct config *config, enum traffic kind);

#endif
