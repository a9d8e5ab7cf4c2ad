/* Ways to start the ranks, one row for each, so that engine_start() and engine_end() (launch.h) need not tell them
 * apart.
 *
 *     local      `zerolab --worker-ranks FOLDER`, our own supervisor: ranks are its child processes (supervise.h)
 *     threads    `zerolab --worker-threads FOLDER`: ranks are threads of one process
 *     mpirun     `mpirun ... zerolab --worker FOLDER`: mpirun starts the ranks, over a network of its own
 *     external   another mpirun or srun started this program, once for each rank: refused so far
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
    const char *name;   /* of the started process, for error lines */
    const char *worker; /* the verb that it runs, with the run's folder as operand */
    bool has_children;  /* ranks are its child processes: once they have ended, it should end too */
    int (*check)(struct error *err); /* can it start ranks here? STATUS_USAGE and why not. NULL: always */
    void (*prefix)(struct launch_args *args, int ranks, const char *folder); /* words before the program; NULL: none */
    void (*environment)(const char *folder); /* in the child, before exec; folder: for its own files. NULL: nothing */
};

extern const struct launcher launcher_local, launcher_threads, launcher_mpirun, launcher_external;

const struct launcher *launcher_of(const struct config *config);

/* Called by a front end before a run: STATUS_USAGE if the ranks of this configuration cannot be started here. */
int launcher_check(const struct config *config, struct error *err);

#endif
