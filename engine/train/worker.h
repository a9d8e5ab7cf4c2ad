/* Entry points of the engine (launch/launcher.h): `zerolab --worker-ranks FOLDER` (all ranks, as child processes), `zerolab --worker
 * FOLDER` (one rank, started by our mpirun, or as rank 0 of an mpirun or srun that is not ours) and `zerolab --worker-threads FOLDER`
 * (all ranks, as threads). worker_process(NULL) runs the other ranks of an mpirun or srun that is not ours. Each returns the exit
 * status: that of the error, if there is one. It is 0 also if the run diverged or ran out of memory, and for a rank that has failed and has
 * printed its status in a line instead (RANK_FAILED in launch/launcher.h). The trace's last record says how the run ended. */
#pragma once

#include "engine/comm/comm.h"
#include "engine/config/config.h"

int worker_ranks(const char *folder);
int worker_process(const char *folder);
int worker_threads(const char *folder);

/* ---- all ranks as threads of this process: one comm group, a thread for each rank, and the GPUs that the configuration asks for ---- */

struct gpu_rank;

/* The work of one rank, on a thread of its own. It closes comm and no other argument. gpu NULL: the processor
 * computes. A rank that fails calls comm_abort(), which tells the others. */
typedef int rank_threads_live(void *user, struct comm *comm, struct gpu_rank *gpu, struct error *err);

/* Returns when all ranks have returned, with the status and error of the lowest rank that failed. The caller has
 * called gpu_settle() on config. If a thread cannot be started, the process ends with STATUS_RUN and a line that says so. */
int rank_threads_run(const struct config *config, rank_threads_live *live, void *user, struct error *err);
