/* Checkpoint folders that a run may save into: the one that it resumed from, and those that it has saved into. A run never saves into
 * a folder with checkpoints of another run: it would replace that run's steps and `latest`, and checkpoint.keep would remove old ones.
 * Folders are compared by device and inode.
 *
 * A claim is exclusive until the run ends, also while the folder is empty. Claims are written into the run's folder (rundir.h), which
 * is locked while any process of the run lives. So a claim outlives a relaunch, and ends with a crash. Runs that cannot see each
 * other's run folders (another user, another machine, another $XDG_RUNTIME_DIR) are detected when both save. */
#pragma once

#include "engine/base/text_list.h"
#include "engine/launch/rundir.h"

enum { SAVE_CLAIMS_MOST = 16 }; /* a further claim drops the oldest one, into whose folder the run may then not save again */

void save_claims_add(struct text_list *claims, const char *folder); /* a copy: `claims` owns its texts */
bool save_claims_has(const struct text_list *claims, const char *folder);
bool save_claims_is_same(const char *one, const char *other); /* two names of one folder */

/* STATUS_USAGE: the folder holds checkpoints and is not among `claims`; the text says what to do. */
int save_claims_check(const struct text_list *claims, const char *folder, struct error *err);

/* STATUS_USAGE: another live run has claimed the folder. dir: the folder of the asking run, which is left out; NULL:
 * none. */
int save_claims_check_others(const struct rundir *dir, const char *folder, struct error *err);

/* The same; also claims the folder for the run of `dir`, until that run ends. STATUS_RUN: the claim cannot be
 * written. */
int save_claims_take(const struct rundir *dir, const char *folder, struct error *err);
