/* Internals of the logs: measuring is apart from printing, so that tests can compare the figures with other counts.
 * Pure functions of model and history; only logs*.c and tests include this. */
#pragma once

#include <stdio.h>

#include "engine/advise/logs.h"
#include "engine/plan/footprint.h"

/* ---- wall_clock_breakdown: logs_phases.c ---- */

/* Sums over steps and ranks, in ns. On every rank the parts of a step follow each other without gaps, so forward +
 * inner + reduce + gradients + update + allgather is the whole step, from the first rank's begin to the last one's
 * end. */
struct log_clock {
    uint64_t forward, inner;              /* until the compute lane ended the phase, its waits included */
    uint64_t reduce;                      /* after the last backward, until the first operation of the optimizer could start */
    uint64_t gradients, update, allgather;/* until the first update, until the last one's end, until the step's end */
    uint32_t steps, micro_steps;          /* that were added, counted once per rank */
};

/* Adds a step that all ranks ended. False: it is not known in full, and nothing was added. */
bool log_clock_add(struct log_clock *clock, const struct history *history, const struct run_model *model, const struct history_step *step);
void log_clock_print(const struct log_clock *clock, FILE *out);

/* ---- memory_breakdown: logs_phases.c ---- */

/* A moment between two phases: bytes held then, and the highest since the moment before. */
struct log_moment { const char *name; int micro_step; uint64_t when_ns; struct run_instant now; uint64_t most_bytes; };

/* The moments of a step on a rank, in order; the first one's peak is the bytes held. Returns how many; 0: unknown. */
int log_moments(struct log_moment *moments, int room, const struct history *history, const struct history_step *step, int rank, enum tier tier);
void log_memory_print(const struct history *history, const struct history_step *step, FILE *out);

/* ---- comms_logger: logs_comms.c ---- */

/* Collectives of one kind, size and number of ranks. Sums are over operations and ranks; divide by `ranks`. */
struct log_comm {
    enum traffic kind;
    enum op_kind op;       /* kind of the operation; rows differ by it only if by_op */
    int ranks, members;    /* of the run; of the group that takes part */
    uint64_t bytes;        /* payload, all members' parts */
    uint64_t count;        /* operations, each counted once */
    uint64_t latency_ns;   /* from start to end, ranks summed */
    uint64_t fastest_ns;   /* the fastest rank's time, for every rank. The rest is the straggler effect */
};
struct log_comms {
    bool by_op;
    const char *only;      /* names, one a line; NULL: everything */
    int rows, room;
    uint64_t lost_steps;   /* steps that were not counted because records were lost */
    struct log_comm *row;  /* owned */
};

/* Adds the collectives of a step; where `verbose` is not NULL, rank 0's are printed to it one by one. */
void log_comms_add(struct log_comms *comms, const struct history *history, const struct run_model *model, const struct history_step *step, FILE *verbose);
void log_comms_print(struct log_comms *comms, FILE *out); /* sorts the rows */
void log_comms_release(struct log_comms *comms);

/* ---- flops_profiler: logs_flops.c ---- */

/* A part of the model. Sums over the micro-steps of a step; times are means over ranks of the operations themselves. */
enum { LOG_MODULE_DEPTH = 3 };
struct log_module {
    char name[40], class[16];
    int depth;               /* 0: the model */
    int64_t params;
    double macs;             /* multiply-adds of forward */
    bool timed;              /* false: it is only part of an operation, so the trace has no time for it */
    uint64_t forward_ns, backward_ns;
};
struct log_profile {
    uint32_t step;
    int ranks, micro_batch;
    int64_t samples;         /* of all ranks */
    struct flops executed;   /* one rank, as the kernels count */
    double model_flops;      /* one rank, Narayanan et al.: three passes, attention counted whole */
    struct log_clock clock;  /* of this step */
    int modules;
    struct log_module *module; /* owned; the model, then each part below its whole */
};

double log_model_flops(const struct config_model *shape, int64_t sequences, int T);
/* Fills *profile for a step. False: the step is not known in full, or no memory. */
bool log_profile_of(struct log_profile *profile, const struct config *config, const struct history *history, const struct run_model *model, const struct history_step *step);
void log_profile_print(const struct log_profile *profile, const struct config_logs *wanted, FILE *out);
void log_profile_release(struct log_profile *profile);

/* ---- shared ---- */

/* The training operations of a step on a rank's lane that have ended: log_lane_of(), then log_next() until it is NULL. */
struct log_lane {
    const struct history *history;
    const struct history_step *step;
    int rank;
    enum lane lane;
    int64_t first, next, end;
};
struct log_lane log_lane_of(const struct history *history, const struct history_step *step, int rank, enum lane lane);
const struct span *log_next(struct log_lane *lane); /* NULL: that was the last */
/* The operation of that number; NULL: it is none of these. */
const struct span *log_span(const struct log_lane *lane, int64_t number);
/* "12.34 MiB": a figure with its unit, as memory is counted: 1024. */
const char *log_bytes(char text[24], uint64_t bytes);
