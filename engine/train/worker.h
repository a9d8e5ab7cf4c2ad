/* The engine's side of a run: what `zerolab --worker-ranks FOLDER` (all ranks, as child processes), `zerolab --worker FOLDER` (one
 * rank, started by mpirun) and `zerolab --worker-threads FOLDER` (all ranks, as threads) do. Returns the exit status: not 0 only if the
 * run ended without the agreement of all ranks; the trace's last record says what became of the run. */
#ifndef ENGINE_TRAIN_WORKER_H
#define ENGINE_TRAIN_WORKER_H

#include "engine/comm/comm.h"
#include "engine/config/config.h"

int worker_ranks(const char *folder);
int worker_process(const char *folder);
int worker_threads(const char *folder);

/* ---- all ranks as threads of this process: one comm group, a thread for each rank, and the GPUs that the configuration asks for ---- */

struct gpu_rank;

/* What a rank does, on a thread of its own. It closes comm, and nothing else of what it was given; gpu is NULL where the processor
 * computes. When it fails it tells the others (comm_abort()). */
typedef int rank_threads_live(void *user, struct comm *comm, struct gpu_rank *gpu, struct error *err);

/* Returns when all ranks have, with the status and error of the first that failed. The configuration is one of gpu_settle(). Where a
 * thread cannot be started, the process ends with STATUS_RUN and a line that says so. */
int rank_threads_run(const struct config *config, rank_threads_live *live, void *user, struct error *err);

#endif
