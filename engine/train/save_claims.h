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

enum { OWN_MOST = 16 }; /* the first are forgotten where there are more: then the run keeps out of them, too */
struct own { int count; char *folder[OWN_MOST]; };

void own_init(struct own *own, const struct text_list *folders);
void own_release(struct own *own);
void own_add(struct own *own, const char *folder);
bool own_has(const struct own *own, const char *folder);
bool own_is_same(const char *one, const char *other); /* folder, by whatever name */

/* Whether a run may save there. STATUS_USAGE: it holds checkpoints of another; the text says what to do. */
int own_check(const struct own *own, const char *folder, struct error *err);

/* STATUS_USAGE: another run saves there, and goes on. dir: of the run that asks; NULL: it has none, or is none. */
int own_check_others(const struct rundir *dir, const char *folder, struct error *err);

/* The same; and from here on no other run saves there. */
int own_take(const struct rundir *dir, const char *folder, struct error *err);

/* As run_spec.own has it; points into `own`. */
struct text_list own_folders(const struct own *own);

#endif
