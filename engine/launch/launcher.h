/* Ways to start the ranks, one row for each, so that engine_start() and engine_end() (launch.h) need not tell them
 * apart.
 *
 *     local      `zerolab --worker-ranks FOLDER`, our own supervisor: ranks are its child processes (supervise.h)
 *     threads    `zerolab --worker-threads FOLDER`: ranks are threads of one process
 *     mpirun     `mpirun ... zerolab --worker FOLDER`: mpirun starts the ranks, over a network of its own
 *     external   another mpirun or srun started this program, once for each rank. Rank 0's process is the front end and
 *                starts `zerolab --worker FOLDER`, which becomes rank 0 of that world; the others become ranks at once
 *
 * topology.ranks_as chooses between the first three. The last is found in the environment (launcher_outer()). */
#pragma once

#include <stdbool.h>

#include "engine/config/config.h"
#include "engine/launch/spec.h"

enum { LAUNCH_ARGS_MAX = 80 };
struct launch_args { int count; const char *at[LAUNCH_ARGS_MAX]; char ranks[16], agent[8192]; };
void launch_add(struct launch_args *args, const char *text);

struct launcher {
    const char *name;   /* of the started process, for error lines */
    const char *worker; /* the verb that it runs, with the run's folder as operand */
    bool has_children;  /* ranks are its child processes: once they have ended, it should end too */
    int (*check)(struct error *err); /* can it start ranks here? STATUS_USAGE and why not. NULL: always */
    /* Words before the program; of `spec` it reads hosts and agent. NULL: none. Called after `environment`. */
    void (*prefix)(struct launch_args *args, int ranks, const char *program, const char *folder, const struct run_spec *spec);
    void (*environment)(const char *folder); /* in the child, before exec; folder: for its own files. NULL: nothing */
};

/* `zerolab --launch-on N AGENT... HOST COMMAND...`: what mpirun runs in place of ssh. Runs AGENT, of N words, with all that follows,
 * and names the host in a line that begins with LAUNCH_ON_LOST if it fails, because mpirun does not. words: from N on, ended by
 * NULL. Returns the exit status. */
#define LAUNCH_ON      "--launch-on"
#define LAUNCH_ON_LOST "the connection to host "
int launch_on(char *const words[]);

/* After a failure a rank that has left MPI together with all others prints a line that begins with this; its status and the reason
 * follow, "3: text". Its exit status is 0: after another one mpirun takes seconds to end the other ranks. */
#define RANK_FAILED "zerolab: status "

extern const struct launcher launcher_local, launcher_threads, launcher_mpirun, launcher_external;

const struct launcher *launcher_of(const struct run_spec *spec, const struct config *config);

/* Whether another launcher started this process as one of several ranks. */
struct launcher_outer { int rank, ranks; };
bool launcher_outer(struct launcher_outer *outer);
