/* The configuration at the viewer's cursor: the header's, with the changes made since. */
#pragma once

#include "engine/observe/questions.h"

/* STATUS_INPUT: the trace has no configuration, or none that can be read. The caller releases it with config_release(). */
int present_config(struct config *config, const struct run_model *model, struct error *err);

/* A hash of what present_config() reads (the header's configuration, events, the schedule, budgets); never 0. Requires a model with a
 * configuration. */
uint64_t present_fingerprint(const struct run_model *model);

/* A key changed during the run, and the step before which it changed. Only changes whose events are kept are known. */
struct present_change { char key[CONFIG_PATH_MAX], value[64]; uint32_t step; };

enum { PRESENT_CHANGES_MAX = 64 };

/* Writes the newest changes that fit, in the order in which they were made. Returns how many. */
int present_changes(const struct run_model *model, struct present_change changes[PRESENT_CHANGES_MAX]);
