/* The engine's side of a run: what `zerolab --worker-ranks FOLDER` (all ranks, as child processes), `zerolab --worker FOLDER`
 * (one rank, started by mpirun) and `zerolab --worker-threads FOLDER` (all ranks, as threads) do. Returns the exit status: not 0 only if the run ended without the agreement of all
 * ranks; what became of the run is said by the trace's last record. */
#ifndef ENGINE_TRAIN_WORKER_H
#define ENGINE_TRAIN_WORKER_H

int worker_ranks(const char *folder);
int worker_process(const char *folder);
int worker_threads(const char *folder);

#endif
