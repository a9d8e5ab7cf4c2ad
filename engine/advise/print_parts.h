/* Shared by the files that print a plan. Internal to engine/plan. */
#ifndef ENGINE_ADVISE_PRINT_PARTS_H
#define ENGINE_ADVISE_PRINT_PARTS_H

#include <stdio.h>

#include "engine/plan/setup.h"

/* A plan is only shown of a schedule that an engine would run. */
int plan_checked_setup(struct setup *setup, const struct config *config, struct error *err);

/* What the figures hang on. */
void plan_print_head(FILE *out, const struct setup *setup, const struct config *config);

/* Tiers, model states, activations, buffers. */
void plan_print_memory(FILE *out, const struct setup *setup, const struct config *config);

/* The pace that traffic of a kind is held to; NULL: none, or not one: between nodes and inside them links differ. */
const struct config_link *plan_pace_of(const struct config *config, enum traffic kind);

#endif
