/* Resumes from a checkpoint, or begins with weights of another program: finds the run's configuration, and which keys
 * follow from the saved state. */
#pragma once

#include "engine/checkpoint/checkpoint.h"
#include "engine/launch/spec.h"

enum { RESUME_SETS = 16 };

struct resume {
    char folder[CHECKPOINT_FOLDER_BYTES]; /* DIR/TAG */
    char dir[CHECKPOINT_FOLDER_BYTES];    /* the real path of DIR; "": not known */
    char set[RESUME_SETS][CHECKPOINT_FOLDER_BYTES + 32];
    int sets;
    char *config_json;
    int64_t steps_done;
    struct data_fingerprint data; /* of the training data of the saved run */
    char note[200]; /* something the user should know; "": nothing */
};

/* Fills the spec of a run that resumes from DIR or DIR/TAG: the checkpoint and, if no CONFIG is given, the saved
 * configuration. Settings that the spec already has override it. The spec points into `resume`. STATUS_INPUT: there
 * is no good checkpoint. */
int resume_prepare(struct resume *resume, struct run_spec *spec, const char *from, bool weights_only, struct error *err);

/* The same for a run that begins with a file of weights: the file's sizes override CONFIG or the built-in default, whose optimizer
 * settings, without CONFIG, give way to those that "auto" stands for.
 * STATUS_USAGE: neither the file nor the user gives the number of heads. */
int resume_prepare_weights(struct resume *resume, struct run_spec *spec, const char *path, struct error *err);

/* Whether the resolved configuration describes the model in the file of weights `path`. */
int resume_check_weights(const char *path, const struct config *config, struct error *err);

void resume_release(struct resume *resume);
