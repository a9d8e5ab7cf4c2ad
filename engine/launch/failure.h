/* From what a dead engine left behind (its wait status and all that it printed) to one clear line. */
#ifndef ENGINE_LAUNCH_FAILURE_H
#define ENGINE_LAUNCH_FAILURE_H

#include "engine/base/error.h"

/* launcher: what was started, "mpirun" or "the engine". Sets err, also its status, and returns it; STATUS_OK and err
 * untouched when nothing tells of a failure. */
int failure_explain(int wait_status, const char *printed, const char *launcher, struct error *err);

/* Of processes that had to be ended by force, so that their status says nothing. */
int failure_explain_forced(const char *printed, struct error *err);

#endif
