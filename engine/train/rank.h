/* Lifecycle of one rank: open (rank_open.c, rank_trace.c), carry out orders, close (rank.c). worker.c
 * starts it, as a process or as a thread; apply_command.c carries out the commands. */
#pragma once

#include <stdio.h>

#include "engine/launch/rundir.h"
#include "engine/launch/spec.h"
#include "engine/plan/model.h"
#include "engine/trace/writer.h"
#include "engine/train/director.h"
#include "engine/train/records.h"
#include "engine/train/relaunch_config.h"
#include "engine/train/save_claims.h"
#include "engine/zero/zero.h"

struct checkpoint;
struct gpu_rank;
struct saver;
/* csv_monitor.c: the files of DeepSpeed's csv_monitor, which rank 0 writes: output_path/job_name/Train_Samples_lr.csv and the like, a line
 * "samples,value" after each step. Names, heads and line ends are those of deepspeed/monitor/csv_monitor.py (0.19). Lines are appended to
 * a file that exists; a run that begins also writes a head there. docs/LOGS.md says what differs. */
enum { CSV_MONITOR_FILES = 3 };

struct csv_monitor { FILE *file[CSV_MONITOR_FILES]; }; /* all NULL: it is off */

/* Progress of a relaunch's saving or loading, in elements. said_ns: when it was last recorded. */
struct rank_progress { const char *doing; int64_t elems, all; uint64_t said_ns; };

struct rank {
    int rank, ranks;
    const struct rundir *dir;
    const struct run_spec *spec;
    struct config config;
    struct model model;
    struct comm *comm;
    struct data *data;
    struct zero *zero;
    struct gpu_rank *gpu; /* NULL: the processor computes */
    struct trace_ring *rings[ZERO_RINGS]; /* in shared memory, except rank 0's ring of schedules */
    struct relay *relay;                  /* on the leader of another machine: sends its ranks' records to rank 0; else NULL */
    struct trace_ring *ring;              /* the control thread's ring (one of `rings`), for records of the run */
    struct gate *gate;                    /* one for all ranks; NULL: rank 0 is on another machine */
    int64_t steps_done;
    int64_t updated_at;           /* the last step that made an update, or the last one before this engine began */
    char diverged[256];           /* how and in which step the run diverged; "": it has not. Equal on every rank */
    struct command applied;       /* the command that is being applied */
    struct checkpoint *from;      /* the checkpoint to resume from, while it is being read; NULL: none, or done */
    struct weights_file *weights; /* ... or the file of weights to begin with */
    struct state_source source;   /* reads `from` or `weights` */
    struct saver *saver;

    struct { /* what the trace last said */
        uint64_t outside_bytes; /* GPU memory outside of all tiers; UINT64_MAX: nothing yet */
        uint64_t sensors_ns;    /* when the GPU's sensors were read; 0: not yet */
        struct process_told process;
        bool pinning; /* that the system does not lock all of the host tier */
        bool gelu;    /* that GELU is not computed within products */
    } recorded;

    struct { /* relaunch.h */
        bool leaves; /* this engine is to end, and the next engine continues the run */
        char key[CONFIG_PATH_MAX], value[160]; /* the key that changes, and its new value */
        uint64_t applied_ns;
        int batch, micro_batch; /* rank 0: samples of a step and of a rank's micro-batch after the relaunch */
        struct state_source watched; /* the source that is read; another one wraps it to record progress */
        struct rank_progress moved;
        struct relaunch_config next;
        bool told, settled; /* rank 0: the change is recorded; the saved state is loaded and removed */
    } relaunch;

    struct {
        struct director *director;
        struct trace_writer *writer;
        bool opened;
        void *saver_ring, *schedules_ring;
        struct text_list claims; /* owned: folders into which the run may save (save_claims.h) */
        struct csv_monitor monitor;
        int signal_fd; /* SIGINT and SIGTERM arrive here; -1: elsewhere */
    } rank0; /* on rank 0 only */
};

/* Runs the rank from opening to closing, on an open comm, which it closes. */
int rank_run(struct rank *rank, struct error *err);

/* Carries out a command that changes the run or asks it for something. Collective. 0: director_applied() was called,
 * before the effects were recorded. Else the command is refused: err says why, nothing has changed, and the caller
 * calls director_applied(). (The broadcast of the next order detects a rank that died meanwhile.) */
int rank_apply(struct rank *rank, const struct command *command, struct error *err);

/* Collective: every rank gets the error of the first rank that has one. status, err: this rank's own error, or 0. */
int rank_agree(struct rank *rank, int status, struct error *err);

/* Ranks on this rank's machine. */
int rank_count_here(const struct rank *rank);

/* Collective; record the validation loss, or a sample of `tokens` tokens. command: the command that asked for it, or
 * NULL. loss: equal on every rank. */
int rank_validate(struct rank *rank, const struct command *command, float *loss, struct error *err);
int rank_sample(struct rank *rank, const struct command *command, int64_t tokens, struct error *err);

/* ---- what the files of a rank share: its loop of orders (rank.c), its opening (rank_open.c), its trace (rank_trace.c) ---- */

/* Collective. After a failure rank_run() closes the parts that were opened. */
int rank_open(struct rank *rank, struct error *err);
/* Closes the checkpoint or file of weights to begin from, if the state has been made from it. */
void rank_close_source(struct rank *rank);

/* Opens the rings, and on rank 0 the director and the writer. Collective: afterwards rank 0's writer drains every
 * ring. */
int rank_open_trace(struct rank *rank, struct error *err);
/* Rank 0 writes the end of the trace, or hands writer and viewers over to the next engine. error: why the run failed,
 * or "". */
void rank_close_trace(struct rank *rank, enum outcome outcome, const char *error);

/* Collective. Rank 0 records the shortage, and the director enters RUN_OUT_OF_MEMORY. */
int rank_short_of_memory(struct rank *rank, const struct zero_shortage *shortage, struct error *err);

/* ---- shared.c: what ranks on several hosts must have in common. All are collective, give every rank the same result, and name a host
 * that differs. If all ranks are on one machine, only shared_check_room() checks anything, and only for ranks on GPUs or of another
 * launcher. ---- */

/* STATUS_USAGE: a host does not see files that rank 0 writes in checkpoint folder `dir` (or where it would be made), so the
 * shards of that host would be lost. */
int shared_check_folder(struct rank *rank, const char *dir, struct error *err);

/* STATUS_INPUT: a host's text, or checkpoint to begin from, is not rank 0's. Called when all ranks have opened them. */
int shared_check_input(struct rank *rank, struct error *err);

/* STATUS_USAGE: the ranks of a host do not fit into its memory or its GPUs (capacity_check()). */
int shared_check_room(struct rank *rank, struct error *err);

/* ---- csv_monitor.c ---- */

/* Makes the folders and opens the files. begins: the run begins here, so the files get heads. STATUS_USAGE: a file cannot be
 * written; then none is open. */
int csv_monitor_open(struct csv_monitor *monitor, const struct config *config, bool begins, struct error *err);

/* Writes the loss of a step and, as DeepSpeed does, learning rate and loss scale of the step after it. updates: number made until now.
 * STATUS_RUN: a write failed; then the monitor is off. */
int csv_monitor_step(struct csv_monitor *monitor, const struct config *config, const struct zero_result *result, int64_t updates, struct error *err);
void csv_monitor_close(struct csv_monitor *monitor);
