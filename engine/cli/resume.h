/* Going on from a checkpoint, or beginning with the weights of another program: which configuration the run has, and what
 * of it follows from what was saved. */
#ifndef ENGINE_CLI_RESUME_H
#define ENGINE_CLI_RESUME_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/launch/spec.h"

enum { RESUME_SETS = 6 };

struct resume {
    char folder[CHECKPOINT_FOLDER_BYTES]; /* DIR/TAG */
    char dir[CHECKPOINT_FOLDER_BYTES];    /* DIR, as the system calls it; "": not known */
    char set[RESUME_SETS][CHECKPOINT_FOLDER_BYTES + 32];
    int sets;
    char *config_json;
    int64_t steps_done;
    struct data_fingerprint data; /* what it was trained on */
    char note[200]; /* something the user should know; "": nothing */
};

/* Fills the spec of a run that goes on from DIR or DIR/TAG: where from, and if no CONFIG is given the saved configuration,
 * with the sets that the spec already has going before it. `resume` must stay as long as the spec. STATUS_INPUT: there is no
 * good checkpoint. */
int resume_prepare(struct resume *resume, struct run_spec *spec, const char *from, bool weights_only, struct error *err);

/* The same of a run that begins with the weights of a file: its sizes go before those of CONFIG, or of the built-in default.
 * STATUS_USAGE: it does not say how many heads it has, and neither does the user. */
int resume_prepare_weights(struct resume *resume, struct run_spec *spec, const char *path, struct error *err);

/* Whether the configuration that it came to is of the model that the file holds. */
int resume_check_weights(const char *path, const struct config *config, struct error *err);

void resume_release(struct resume *resume);

#endif
