/* From what a dead engine left behind (its wait status and all that it printed) to one clear line. */
#ifndef ENGINE_LAUNCH_FAILURE_H
#define ENGINE_LAUNCH_FAILURE_H

#include "engine/base/error.h"

/* launcher: the process that was started, "mpirun" or "the engine". Sets err and returns its status; STATUS_OK and an
 * untouched err when nothing indicates a failure. */
int failure_explain(int wait_status, const char *printed, const char *launcher, struct error *err);

/* The same for processes that were ended by force, whose wait status says nothing. */
int failure_explain_forced(const char *printed, struct error *err);

#endif
