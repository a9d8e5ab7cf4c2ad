/* All ranks as threads of this process: one comm group, the GPUs if the configuration asks for some, a thread for each rank. */
#ifndef ENGINE_TRAIN_RANK_THREADS_H
#define ENGINE_TRAIN_RANK_THREADS_H

#include "engine/comm/comm.h"
#include "engine/config/config.h"

struct gpu_rank;

/* What a rank does, on a thread of its own. It closes comm, and nothing else of what it was given; gpu is NULL where the processor
 * computes. When it fails it tells the others (comm_abort()). */
typedef int rank_threads_live(void *user, struct comm *comm, struct gpu_rank *gpu, struct error *err);

/* Returns when all ranks have, with the status and error of the first that failed. The configuration is one of gpu_settle(). Where a
 * thread cannot be started, the process ends with STATUS_RUN and a line that says so. */
int rank_threads_run(const struct config *config, rank_threads_live *live, void *user, struct error *err);

#endif
