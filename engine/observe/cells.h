/* Units x ranks: the part of each unit that a rank holds between steps (from the schedule's layout), and its state at
 * the model's present moment (from the progress of the rank's lanes). A buffer exists from the begin of the operation
 * that takes it to the end of the one that gives it back, so the gathered bytes of a rank's cells equal its allocator's
 * (tests/unit/test_progress.c compares them at every record). Pure functions. */
#pragma once

#include "engine/observe/progress.h"

/* The part of a unit that a rank keeps between steps. A shard is 1/N of the unit, the same for every category. */
struct unit_keep {
    bool known;
    int64_t elems;                                   /* padded */
    int64_t shard_elems, tail_elems;                 /* tail: small tensors that stay gathered; 0: none */
    bool shards_parameters, shards_gradient, shards_optimizer;
    int64_t parameter_bytes, tail_bytes, gradient_bytes, optimizer_bytes;
};

int units_of(const struct schedule *ops);            /* number of units in the schedule */
void units_keep(const struct schedule *ops, struct unit_keep keep[], int units);

enum cell_parameters {
    CELL_SHARD,     /* its own shard, and the tail if there is one */
    CELL_IN_FLIGHT, /* a gather is bringing the rest */
    CELL_BLOCKS,    /* the rest is here as quantized blocks; dequantizing makes parameters of them */
    CELL_WHOLE,     /* all of it is here */
};

enum cell_gradient {
    CELL_NO_GRADIENT, /* none in this step yet */
    CELL_WRITTEN,     /* backward writes it, or has written it; not all of it is reduced yet */
    CELL_REDUCING,    /* a bucket with a part of it is in flight */
    CELL_REDUCED,     /* the part that the rank owns is the mean over ranks */
};

enum cell_update { CELL_NOT_UPDATED, CELL_UPDATING, CELL_UPDATED, CELL_REFRESHING, CELL_REFRESHED };

struct unit_cell {
    enum cell_parameters parameters;
    bool gathered;          /* a gathered buffer of this step holds it, or is being filled */
    bool let_go;            /* it was gathered earlier in this step and released */
    int64_t gathered_bytes; /* bytes of that buffer; 0: none is taken now */
    int used_by;            /* operation that computes with the unit now; -1: none */
    enum cell_gradient gradient;
    int64_t unreduced_bytes; /* bytes of the step's own gradient buffer, which holds unreduced gradients; 0: none is taken now */
    int64_t block_bytes;     /* bytes of its quantized parameters and gradients and of a node's sums; also part of category buckets */
    enum cell_update update;
};

/* The cells of one rank, by unit. */
void cells_of(const struct progress *at, struct unit_cell cells[], int units);

/* Sums over the gathered units of a rank now. */
struct gathered { int units, in_flight; int64_t elems, bytes; };
struct gathered gathered_of(const struct progress *at);

/* ---- buckets of gradients: how full each one is on a rank at the model's present moment, and the state of its flush.
 * A gradient is complete when the last operation of backward that writes it has ended. ---- */

enum bucket_state {
    BUCKET_EMPTY,
    BUCKET_FILLING,
    BUCKET_FULL,      /* all its gradients are complete; its flush has not begun */
    BUCKET_IN_FLIGHT,
    BUCKET_FLUSHED,
    BUCKET_DROPPED,   /* the step ended without it */
    BUCKET_STATES
};

struct filling { enum bucket_state state; int64_t elems, filled_elems; };

/* Number of the next operation after `op` that flushes a bucket; -1: there is none. bucket_after(ops, -1) is the first. If a bucket is
 * reduced in two hops, this is the first hop, and the bucket is in flight until the second ends. */
int bucket_after(const struct schedule *ops, int op);

/* Number of the second hop of the bucket whose first hop is operation `flush`; -1: there is one hop. */
int bucket_second_hop(const struct schedule *ops, int flush);

struct filling filling_of(const struct progress *at, int op);

/* All buckets of a step. */
struct bucket_sums { int count, full, by_end; int64_t elems, bytes, largest_bytes; };
struct bucket_sums bucket_sums_of(const struct schedule *ops);
