/* Resolves given values to final ones: "auto", the batch triad, the model's sizes, and the checks across keys. */
#pragma once

#include "engine/config/config.h"
#include "engine/config/keys.h"

enum given { GIVEN_NOT, GIVEN_VALUE, GIVEN_AUTO };

struct config_source {
    struct config *config;
    bool is_set[CONFIG_KEYS_MAX];         /* by row of config_keys: given with --set */
    enum given given[CONFIG_KEYS_MAX];    /* by row */
    const char *spelled[CONFIG_KEYS_MAX]; /* by row: the file's spelling if it is not the path; else NULL */
};

/* How a key was given; 0: not. */
static inline enum given given(const struct config_source *source, const char *path)
{
    return source->given[key_index(path)];
}

/* Sets an error about missing memory; returns STATUS_RUN. */
int config_no_memory(struct error *err);

/* Appends one line to an owned text (config->notes, config->given). */
int config_add_line(char **text, struct error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Appends a line to config->notes. */
#define config_note(config, ...) config_add_line(&(config)->notes, __VA_ARGS__)

/* spellings_rename() replaces older spellings in the tree by the current keys, so that all later code, also --set, sees only those.
 * spellings_of_offload() does the same for the old offload switches, after the values of --set are in the tree. */
int spellings_rename(struct config_source *source, cJSON *tree, struct error *err);
int spellings_of_offload(struct config_source *source, cJSON *tree, struct error *err);

/* optimizer.c: the types of optimizer and scheduler, the parameters that each type has, their defaults, and the values that follow
 * from them. types_refuse() refuses a type that zerolab does not know, before its parameters are found to be unknown; `tree` is the
 * file. optimizer_leave_out(): after --set has changed the type, removes the file's parameters that the new type lacks, with a note;
 * `section`: "optimizer". config_type_has(): false for a parameter of another type than the one in force. */
int types_refuse(const cJSON *tree, struct error *err);
int types_resolve(struct config_source *source, struct error *err);
int optimizer_leave_out(struct config *config, cJSON *section, struct error *err);
bool config_type_has(const struct config *config, const char *path);

int config_resolve(struct config_source *source, struct error *err);

/* Checks rules between keys; also called after a live change. */
int config_check(const struct config *config, struct error *err);

/* STATUS_USAGE: sizes whose product would not fit where it is computed (bounds.c); the text names the keys. */
int config_check_bounds(const struct config *config, struct error *err);
