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

/* ---- between print.c, print_head.c, print_memory.c and print_json.c ---- */

/* Plans and checks the schedule, as the engine does before it runs. The caller releases *setup on STATUS_OK. */
int plan_checked_setup(struct setup *setup, const struct config *config, struct error *err);

/* Model, ranks, precision, and the keys that the figures depend on. */
void plan_print_head(FILE *out, const struct setup *setup, const struct config *config);

/* Tiers, model states, activations, buffers. */
void plan_print_memory(FILE *out, const struct setup *setup, const struct config *config);

/* The paced link of this traffic; NULL: not paced, or links inside and between nodes differ. */
const struct config_link *plan_pace_of(const struct config *config, enum traffic kind);

#endif
