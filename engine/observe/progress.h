/* How far a rank is in its step at the moment that the model shows. Lanes take their operations in order, so two numbers a
 * lane say it all: operations with a number below the first have begun, those below the second have ended. Pure functions.
 *
 *     struct progress at = progress_of(model, rank);
 *     if (at.plan && progress_state(&at, op) == PROGRESS_WAITING) wait = progress_wait(&at, op); */
#ifndef ENGINE_OBSERVE_PROGRESS_H
#define ENGINE_OBSERVE_PROGRESS_H

#include "engine/observe/questions.h"

struct progress {
    const struct run_schedule *plan; /* has its operations; NULL: not known */
    uint32_t step;                   /* 0: none yet */
    bool open;                       /* it is going on; false: it has ended, or none has begun */
    bool lost;                       /* records of it are missing: the rank may be further */
    int begun[LANES], ended[LANES];  /* operations of the lane with a lower number have begun, have ended */
};

struct progress progress_of(const struct run_model *model, int rank);

enum progress_state {
    PROGRESS_TO_COME,
    PROGRESS_WAITING, /* the next of its lane: its lane stands before it */
    PROGRESS_RUNNING,
    PROGRESS_ENDED,
    PROGRESS_DROPPED, /* the step ended without it */
};

enum progress_state progress_state(const struct progress *at, int op);

/* The operation that a lane runs, else the one that it stands before; -1: neither. */
int progress_running(const struct progress *at, enum lane lane);
int progress_next(const struct progress *at, enum lane lane);

/* The first dependency of `op` that has not ended; NULL: none. */
const struct dependency *progress_wait(const struct progress *at, int op);

/* Ranks that have not come to this collective while others stand in it: how many; the lowest of them is put in *rank. */
int progress_missing(const struct run_model *model, const struct progress *at, int op, int *rank);

#endif
