/* How far a rank is in its step at the model's present moment. Lanes run their operations in order, so two numbers per
 * lane suffice: operations with a number below begun[] have begun, those below ended[] have ended. Pure functions.
 *
 *     struct progress at = progress_of(model, rank);
 *     if (at.plan && progress_state(&at, op) == PROGRESS_WAITING) wait = progress_wait(&at, op); */
#pragma once

#include "engine/observe/questions.h"

struct progress {
    const struct run_schedule *plan; /* has its operations; NULL: not known */
    uint32_t step;                   /* 0: none yet */
    bool open;                       /* the step is in progress; false: it has ended, or none has begun */
    bool lost;                       /* records of the step are missing: the rank may be further on */
    int begun[LANES], ended[LANES];  /* operations of the lane with a lower number have begun; have ended */
};

struct progress progress_of(const struct run_model *model, int rank);

enum progress_state {
    PROGRESS_TO_COME,
    PROGRESS_WAITING, /* it is the next operation of its lane, which waits */
    PROGRESS_RUNNING,
    PROGRESS_ENDED,
    PROGRESS_DROPPED, /* the step ended without it */
};

enum progress_state progress_state(const struct progress *at, int op);

/* progress_running(): the operation that a lane runs. progress_next(): if it runs none, the operation that it starts next. -1: none. */
int progress_running(const struct progress *at, enum lane lane);
int progress_next(const struct progress *at, enum lane lane);

/* The first dependency of `op` that has not ended; NULL: none. */
const struct dependency *progress_wait(const struct progress *at, int op);

/* Returns how many ranks have not begun this collective while `of` waits in it; *rank is the lowest of them. */
int progress_missing(const struct run_model *model, const struct progress *at, int of, int op, int *rank);
