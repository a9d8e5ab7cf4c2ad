/* The supervisor of the local launcher: this process forks the ranks, waits for them, and notices when a rank dies.
 *
 * No rank outlives the supervisor: the kernel ends ranks with SIGKILL when it is gone. When a rank ends badly, the
 * others learn which one and why within microseconds (comm_group_fail()), and have SUPERVISE_GRACE_MS to end the
 * trace; remaining ranks are then killed. SIGINT and SIGTERM are passed on to rank 0, which stops the run between two
 * steps. The ranks have SUPERVISE_GRACE_MS for it, or SUPERVISE_LAST_MS if the process that started the supervisor is
 * gone. The caller has blocked both signals, and has no threads. */
#pragma once

#include "engine/comm/comm.h"

enum { SUPERVISE_GRACE_MS = 2500, SUPERVISE_LAST_MS = 30000 };

/* The work of one rank, in a process of its own; opens the rank with comm_open_process(). Returns the exit status. */
typedef int supervise_live(void *user, struct comm_group *group, int rank);

/* Returns in the parent only, when all ranks have ended: STATUS_OK, or the status and the reason of the first that ended badly. */
int supervise(int ranks, int ranks_per_node, supervise_live *live, void *user, struct error *err);
