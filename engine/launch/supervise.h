/* The local launcher's side of the engine: this process forks the ranks, waits for them, and is the one who sees a rank die.
 *
 * No rank outlives it: the kernel ends them with SIGKILL when this process is gone. When a rank ends badly, the others
 * learn which one and why within microseconds (comm_group_fail()), and have SUPERVISE_GRACE_MS to end the trace; what is
 * left then is killed. SIGINT and SIGTERM go on to rank 0, which stops the run between two steps if it comes to that within
 * the same time; where the process that started this one is gone, within SUPERVISE_LAST_MS. The caller has blocked both
 * signals, and has no threads. */
#ifndef ENGINE_LAUNCH_SUPERVISE_H
#define ENGINE_LAUNCH_SUPERVISE_H

#include "engine/comm/comm.h"

enum { SUPERVISE_GRACE_MS = 2500, SUPERVISE_LAST_MS = 30000 };

/* What a rank does, in a process of its own; it opens the rank with comm_open_process(). Returns its exit status. */
typedef int supervise_live(void *user, struct comm_group *group, int rank);

/* Returns in the parent only, when all ranks have ended: STATUS_OK, or the status and the reason of the first that ended badly. */
int supervise(int ranks, int ranks_per_node, supervise_live *live, void *user, struct error *err);

#endif
