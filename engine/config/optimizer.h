/* The optimizer and the scheduler that a configuration names: which parameters each has, what they default to, and what
 * follows from them. */
#ifndef ENGINE_CONFIG_OPTIMIZER_H
#define ENGINE_CONFIG_OPTIMIZER_H

#include "engine/config/resolve.h"

/* Refuse a type that zerolab does not know, before its parameters are found to be unknown. `tree` is the file. */
int optimizer_refuse(const cJSON *tree, struct error *err);
int scheduler_refuse(const cJSON *tree, struct error *err);

int optimizer_resolve(struct config_source *source, struct error *err);
int scheduler_resolve(struct config_source *source, struct error *err);

/* --set has changed the type: what the file gave to another one goes, and is said. `section` is "optimizer". */
int optimizer_leave_out(struct config *config, cJSON *section, struct error *err);

/* False: a parameter of another optimizer or scheduler than the one in force. */
bool optimizer_has(const struct config *config, const char *path);
bool scheduler_has(const struct config *config, const char *path);

#endif
