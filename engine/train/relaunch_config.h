/* The settings of a run, each key once: settings given at its start and settings that commands changed later. Rank 0
 * keeps them, so that a relaunched engine begins with the configuration with which this one ended. */
#pragma once

#include <stdbool.h>

#include "engine/base/text_list.h"
#include "engine/config/config.h"

/* sets: "KEY=VALUE" texts, as for --set, which it owns. full: a setting did not fit and is lost. */
struct relaunch_config { struct text_list sets; bool full; };

void relaunch_config_init(struct relaunch_config *settings, const struct text_list *sets);
void relaunch_config_set(struct relaunch_config *settings, const char *key, const char *value);

/* The same for a key that needs a relaunch, in a run with configuration `now`; also sets the batch sizes that follow
 * from it: train_batch_size = micro-batch x accumulation x ranks. For another number of ranks the step keeps its
 * train_batch_size if it divides evenly, and the micro-batch changes. (`zerolab train --resume` decides alike.) */
void relaunch_config_change(struct relaunch_config *settings, const struct config *now, const char *key,
                            const char *value);
