/* Folders whose checkpoints are a run's own: the one that it goes on from, and those that it has saved into. Everywhere else what
 * stands is somebody's who may still want it, and no run writes there: its steps would take the places of theirs, `latest` would
 * be another run's, and checkpoint.keep would remove what is older. Folders are told apart by device and inode.
 *
 * A run that saves has its folders to itself until it ends, also before anything stands there. Which ones they are is written
 * down in the run's own folder (rundir.h), which all of its processes hold and which is nobody's when they are gone: so it
 * outlives an engine that is started again, and no crash. Runs that do not see each other's (another user's, another
 * machine's, with another $XDG_RUNTIME_DIR) still meet when both save. */
#ifndef ENGINE_TRAIN_SAVE_CLAIMS_H
#define ENGINE_TRAIN_SAVE_CLAIMS_H

#include "engine/base/text_list.h"
#include "engine/launch/rundir.h"

enum { SAVE_CLAIMS_MOST = 16 }; /* the first are forgotten where there are more: then the run keeps out of them, too */
struct save_claims { int count; char *folder[SAVE_CLAIMS_MOST]; };

void save_claims_init(struct save_claims *own, const struct text_list *folders);
void save_claims_release(struct save_claims *own);
void save_claims_add(struct save_claims *own, const char *folder);
bool save_claims_has(const struct save_claims *own, const char *folder);
bool save_claims_is_same(const char *one, const char *other); /* folder, by whatever name */

/* Whether a run may save there. STATUS_USAGE: it holds checkpoints of another; the text says what to do. */
int save_claims_check(const struct save_claims *own, const char *folder, struct error *err);

/* STATUS_USAGE: another run saves there, and goes on. dir: of the run that asks; NULL: it has none, or is none. */
int save_claims_check_others(const struct rundir *dir, const char *folder, struct error *err);

/* The same; and from here on no other run saves there. */
int save_claims_take(const struct rundir *dir, const char *folder, struct error *err);

/* As run_spec.own has it; points into `own`. */
struct text_list save_claims_folders(const struct save_claims *own);

#endif
