/* Loads and saves a learner's progress: $XDG_STATE_HOME/zerolab/labs/NAME.json, else below ~/.local/state. */
#ifndef ENGINE_LAB_PROGRESS_FILES_H
#define ENGINE_LAB_PROGRESS_FILES_H

#include "engine/lab/progress.h"

/* Loads the saved progress. Without one, or if it cannot be read (the error says why), begins at the first step. */
int lab_load(struct lab_progress *progress, const struct lab *lab, struct error *err);
int lab_save(const struct lab_progress *progress, const struct lab *lab, struct error *err);

/* True if no lab was ever played here and the tour was not refused. False too if no state folder can be named. */
bool lab_nobody_played(void);
int lab_refuse_tour(struct error *err); /* permanently */

/* Deletes saved progress; none is no error. All: of every lab that was ever played, the learner's own too. */
int lab_forget(const char *name, struct error *err);
int lab_forget_all(struct error *err);

#endif
