/* Units x ranks: what a rank holds of a unit between steps, by the schedule's layout, and what has happened to it at the
 * moment that the model shows, by the progress of its lanes. A buffer is there from the moment at which the operation that
 * takes it has begun until the one that gives it back has ended, so the gathered bytes of a rank's cells are what its
 * allocator reports (tests/unit/test_progress.c holds one against the other at every record). Pure functions. */
#ifndef ENGINE_OBSERVE_CELLS_H
#define ENGINE_OBSERVE_CELLS_H

#include "engine/observe/progress.h"

/* What a rank keeps of a unit between steps; a shard is rank r's part of N, the same for every category. */
struct unit_keep {
    bool known;
    int64_t elems;                                   /* padded */
    int64_t shard_elems, tail_elems;                 /* tail: small tensors that stay gathered; 0: none */
    bool shards_parameters, shards_gradient, shards_optimizer;
    int64_t parameter_bytes, tail_bytes, gradient_bytes, optimizer_bytes;
};

int units_of(const struct schedule *ops);            /* how many units the schedule speaks of */
void units_keep(const struct schedule *ops, struct unit_keep keep[], int units);

enum cell_parameters {
    CELL_SHARD,     /* its own shard, and the tail if there is one */
    CELL_IN_FLIGHT, /* a gather is bringing the rest */
    CELL_WHOLE,     /* all of it is here */
};

enum cell_gradient {
    CELL_NO_GRADIENT, /* of this step */
    CELL_WRITTEN,     /* backward is at it, or has made it: the rank's own, not reduced */
    CELL_REDUCING,    /* a bucket with a part of it is in flight, or some of its buckets are */
    CELL_REDUCED,     /* what the rank owns of it is the mean over ranks */
};

enum cell_update { CELL_NOT_UPDATED, CELL_UPDATING, CELL_UPDATED, CELL_REFRESHING, CELL_REFRESHED };

struct unit_cell {
    enum cell_parameters parameters;
    bool gathered;          /* what is there, or on its way, is a gathered buffer of the step, and ... */
    bool let_go;            /* ... it was there before in this step and was given back */
    int64_t gathered_bytes; /* of that buffer; 0: none is taken now */
    int used_by;            /* operation that works on the unit now; -1: none */
    enum cell_gradient gradient;
    int64_t unreduced_bytes; /* of the step's own gradient buffer (stages 2 and 3); 0: not there */
    enum cell_update update;
};

/* The cells of one rank, by unit. */
void cells_of(const struct progress *at, struct unit_cell cells[], int units);

/* What the gathers of a rank come to now. */
struct gathered { int units, in_flight; int64_t elems, bytes; };
struct gathered gathered_of(const struct progress *at);

/* ---- buckets of gradients: what each one collects, how full it is on a rank at the moment that the model shows, and how its flush went.
 * A gradient is complete when the last operation of backward that writes it has ended. ---- */

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
