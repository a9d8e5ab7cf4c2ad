/* Where a learner's progress is kept: $XDG_STATE_HOME/zerolab/labs/NAME.json, else below ~/.local/state. */
#ifndef ENGINE_LAB_PROGRESS_FILES_H
#define ENGINE_LAB_PROGRESS_FILES_H

#include "engine/lab/progress.h"

/* Progress that was kept; none, or none that can be read: from the first step (the error says why then). */
int lab_load(struct lab_progress *progress, const struct lab *lab, struct error *err);
int lab_save(const struct lab_progress *progress, const struct lab *lab, struct error *err);

/* Nobody has played a lab here, nor said that the tour is not wanted. False too where that could not be kept. */
bool lab_nobody_played(void);
int lab_refuse_tour(struct error *err); /* for ever */

/* No progress is no error. All: of every lab that was ever played, the learner's own too. */
int lab_forget(const char *name, struct error *err);
int lab_forget_all(struct error *err);

#endif
