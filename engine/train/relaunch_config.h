/* The settings of a run, each key once: those given at its start, and those that commands have changed since. Rank 0 keeps them, so
 * that a relaunched engine begins with the configuration that this one ended with. */
#ifndef ENGINE_TRAIN_RELAUNCH_CONFIG_H
#define ENGINE_TRAIN_RELAUNCH_CONFIG_H

#include <stdbool.h>

#include "engine/base/text_list.h"
#include "engine/config/config.h"

struct relaunch_config { char *sets[TEXT_LIST_MAX]; int count; bool full; /* one did not fit: it cannot be told any more */ };

void relaunch_config_init(struct relaunch_config *settings, const struct text_list *sets);
void relaunch_config_set(struct relaunch_config *settings, const char *key, const char *value);

/* The same for a key that needs a new start, in a run with this configuration: with it the batch sizes that go with it. They
 * are train_batch_size = micro-batch x accumulation x ranks. What is learned from a step stays as it is as long as that comes
 * out even: other ranks take other micro-batches. (`zerolab train --resume` decides alike.) */
void relaunch_config_change(struct relaunch_config *settings, const struct config *now, const char *key,
                            const char *value);
void relaunch_config_release(struct relaunch_config *settings);

/* As --set would say it; points into `settings`. */
struct text_list relaunch_config_sets(const struct relaunch_config *settings);

#endif
