/* The optimizer and the scheduler of a configuration: the parameters that each type has, their defaults, and the values
 * that follow from them. */
#pragma once

#include "engine/config/resolve.h"

/* Refuse a type that zerolab does not know, before its parameters are found to be unknown. `tree` is the file. */
int optimizer_refuse(const cJSON *tree, struct error *err);
int scheduler_refuse(const cJSON *tree, struct error *err);

int optimizer_resolve(struct config_source *source, struct error *err);
int scheduler_resolve(struct config_source *source, struct error *err);

/* After --set has changed the type: removes the file's parameters that the new type lacks, with a note. `section`: "optimizer". */
int optimizer_leave_out(struct config *config, cJSON *section, struct error *err);

/* False: a parameter of another optimizer or scheduler than the one in force. */
bool optimizer_has(const struct config *config, const char *path);
bool scheduler_has(const struct config *config, const char *path);
