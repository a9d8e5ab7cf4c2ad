/* `zerolab plan`: prints the cost of a setup before it runs. Memory by category with each buffer's formula, traffic
 * compared with the paper's volume for each unit, and the operations of a step. All numbers come from the schedule that
 * the engine would run. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "engine/config/config.h"
#include "engine/plan/setup.h"

/* As text, or as one JSON object. Returns the status of setup_init() or schedule_check(). */
int plan_print(FILE *out, bool as_json, const struct config *config, bool with_schedule, struct error *err);

/* Prints a line for each effect that this configuration hides: prefix, effect, and the key that hides it. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero);

/* psi.c: figures that follow from a number of parameters alone: model states by stage, as each accounting counts them (accountings.def),
 * and the paper's traffic (ZeRO, section 7). The configuration gives ranks, types and settings; its model is ignored.
 * psi_read() parses 1 to 2^56: "7e9", "7B" (K, M, B, T: powers of 1000), "7,241,732,096". STATUS_USAGE: anything else. */
int psi_read(int64_t *psi, const char *text, struct error *err);
int psi_print(FILE *out, bool as_json, const struct config *config, int64_t psi, struct error *err);

/* print_memory.c: tiers, model states, activations, buffers; and the page for them (engine/base/template.h). */
struct cJSON;
void plan_add_memory(struct cJSON *facts, const struct setup *setup, const struct config *config);
extern const char plan_memory_page[];
