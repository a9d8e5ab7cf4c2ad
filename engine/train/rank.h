/* Lifecycle of one rank: open (rank_open.c, rank_trace.c), carry out orders, close (rank.c). worker.c
 * starts it, as a process or as a thread (worker.c); apply_command.c carries out the commands. */
#ifndef ENGINE_TRAIN_RANK_H
#define ENGINE_TRAIN_RANK_H

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
/* How far saving or loading is. */
struct rank_progress { int64_t elems, all; uint64_t said_ns; };

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
    struct trace_ring *rings[ZERO_RINGS]; /* in shared memory: rank 0's writer drains those of all */
    struct trace_ring *ring;              /* its control thread's: for records of the run */
    struct gate *gate;                    /* one for all ranks; NULL: rank 0 is on another machine */
    uint64_t told_outside_bytes; /* UINT64_MAX: nothing has been */
    struct process_told told_process;
    bool told_pinning; /* that the system does not lock all of the host tier */
    int64_t steps_done;
    struct checkpoint *from;    /* what it was resumed from, while it is read; NULL: nothing, or done */
    struct weights_file *weights; /* ... or the file of weights that it begins with */
    struct state_source source; /* ... as that */
    struct saver *saver;
    struct command applied; /* while it is being applied */
    char diverged[256];         /* how, and in which step; "": it has not. Equal on every rank */
    int64_t updated_at;         /* the last step that made an update, or that this engine began after */

    /* Of a relaunch (relaunch.h). */
    bool leaves;                     /* this engine is to end, and another to go on */
    char left_key[CONFIG_PATH_MAX], left_value[160]; /* what is to change */
    uint64_t left_ns;
    int left_batch, left_micro;      /* samples of a step, and of a rank's micro-batch, from there on; rank 0 */
    struct state_source saved;       /* what rank->source reads from, telling how far it is */
    struct rank_progress moved;
    struct relaunch_config next;

    /* Rank 0 only. */
    void *saver_ring;
    struct save_claims own;             /* where it may save */
    bool opened, told, settled; /* told: what changed; settled: what was saved for this engine has been read and is gone */
    int signal_fd; /* SIGINT and SIGTERM arrive here; -1: elsewhere */
    struct director *director;
    struct trace_writer *writer;
};

/* The whole life, on an open comm, which it closes. */
int rank_live(struct rank *rank, struct error *err);

/* Carries out a command that changes the run or asks it for something. Collective. 0: the director has been told, before
 * what came of it was recorded. Else refused: err says why, nothing has changed, and the caller tells the director. (A rank
 * that died meanwhile is found out by the next order.) */
int rank_apply(struct rank *rank, const struct command *command, struct error *err);

/* Collective: the error of the first rank that has one is the error of all ranks. status, err: this rank's. */
int rank_agree(struct rank *rank, int status, struct error *err);

/* Ranks on this rank's machine. */
int rank_count_here(const struct rank *rank);

/* Collective; records what came out of it. command: that asked for it; NULL: none did. loss: equal on every rank. */
int rank_validate(struct rank *rank, const struct command *command, float *loss, struct error *err);
int rank_sample(struct rank *rank, const struct command *command, int64_t tokens, struct error *err);

#endif
