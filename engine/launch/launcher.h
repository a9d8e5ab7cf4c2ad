/* How ranks are started: one row for each way, so that engine_start() and engine_end() (launch.h) need not know which it is.
 *
 *     local      `zerolab --worker-ranks FOLDER`, our own supervisor: ranks are its child processes (supervise.h)
 *     threads    `zerolab --worker-threads FOLDER`: ranks are threads of one process
 *     mpirun     `mpirun ... zerolab --worker FOLDER`: mpirun starts the ranks, over a network of its own
 *     external   somebody else's mpirun or srun started this program, once for each rank: refused so far
 *
 * topology.ranks_as chooses between the first three. The last is found in the environment. */
#ifndef ENGINE_LAUNCH_LAUNCHER_H
#define ENGINE_LAUNCH_LAUNCHER_H

#include <stdbool.h>

#include "engine/config/config.h"

enum { LAUNCH_ARGS_MAX = 48 };
struct launch_args { int count; const char *at[LAUNCH_ARGS_MAX]; char ranks[16]; };
void launch_add(struct launch_args *args, const char *text);

struct launcher {
    const char *name;   /* of the process that is started, for error lines */
    const char *worker; /* the verb that it runs, with the run's folder as operand */
    bool has_children;  /* ranks are its child processes: once they are gone, it has nothing left to do */
    int (*check)(struct error *err); /* can it start ranks here? STATUS_USAGE and why not. NULL: always */
    void (*prefix)(struct launch_args *args, int ranks, const char *folder); /* what stands before the program; NULL: nothing */
    void (*environment)(const char *folder); /* in the child, before exec; folder is for files of its own. NULL: nothing */
};

extern const struct launcher launcher_local, launcher_threads, launcher_mpirun, launcher_external;

const struct launcher *launcher_of(const struct config *config);

/* For a front end that begins a run: STATUS_USAGE if the ranks of this configuration cannot be started here. */
int launcher_check(const struct config *config, struct error *err);

#endif
