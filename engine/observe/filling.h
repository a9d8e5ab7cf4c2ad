/* Buckets of gradients: what each one collects, how full it is on a rank at the moment that the model shows, and how its
 * flush went. A gradient is complete when the last operation of backward that writes it has ended. Pure functions. */
#ifndef ENGINE_OBSERVE_FILLING_H
#define ENGINE_OBSERVE_FILLING_H

#include "engine/observe/progress.h"

enum bucket_state {
    BUCKET_EMPTY,
    BUCKET_FILLING,
    BUCKET_FULL,      /* all of it is there; its flush has not begun */
    BUCKET_IN_FLIGHT,
    BUCKET_FLUSHED,
    BUCKET_DROPPED,   /* the step ended without it */
    BUCKET_STATES
};

struct filling { enum bucket_state state; int64_t elems, filled_elems; };

/* Number of the operation that flushes the bucket after `op`; -1: there is none. The first: bucket_after(ops, -1). */
int bucket_after(const struct schedule *ops, int op);

struct filling filling_of(const struct progress *at, int op);

/* All buckets of a step. */
struct bucket_sums { int count, full, by_end; int64_t elems, bytes, largest_bytes; };
struct bucket_sums bucket_sums_of(const struct schedule *ops);

#endif
