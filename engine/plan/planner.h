/* What the files that write a schedule down share while they do: schedule.c the uses, checkpoints.c and offload.c the copies
 * between tiers, updates.c the updates, tail.c what follows the last use. Internal to engine/plan. */
#ifndef ENGINE_PLAN_PLANNER_H
#define ENGINE_PLAN_PLANNER_H

#include "engine/plan/buckets.h"
#include "engine/plan/builder.h"
#include "engine/plan/gather.h"
#include "engine/plan/walk.h"

/* A micro-step's gradient that has come to the host tier and is still to be added there. */
struct arrival { int unit, staging, copied_by, micro_step; bool accumulate; };

struct planner {
    struct builder builder;
    struct walk walk;
    struct gatherer gatherer;
    struct buckets buckets;
    bool training;
    bool cast_gradients;    /* they accumulate in another type than backward makes them in */
    bool own_gradients;     /* backward writes into the step's own buffers (stages 2, 3; or to accumulate in another type) */
    bool reduce_every_time; /* after every micro-step, not only the last (stages 2, 3, unless no_sync) */
    int *output;            /* by place in the chain (walk_place): the next use's input */
    int *last_use, *moved;  /* by place: the forward that made it; the copy that brought it where it is */
    int *part[PART_KINDS];  /* by place: what forward, or recomputation, saved */
    int *unit_gradient;     /* by unit: where backward writes, then what is reduced */
    int *accumulator;       /* by unit: where casts of all micro-steps are added up */
    int tokens, residual;
    int last_compute, last_comm, last_d2h;
    int left, reduced;      /* results of reductions above `left` have been sent to the host; those above `reduced` are next */
    bool delayed;           /* updates are those of the step before */
    bool updating[2];       /* an update on the device, on the host stands in the list */
    int *pending_update;    /* by unit: the last part of its pending update; -1: none */
    int host_norm;
    int updated;            /* the operation after which the parameters of the last update are in their place */
    int travel_from;        /* the update whose result has yet to cross the bus; -1: none */
    struct arrival *arrivals;
    int arrival_count, arrival_room;
};

/* A gradient into a buffer of another type: a buffer of the step is taken to hold it, and one that held it given back.
 * after: an operation of another lane that it waits for, or -1. */
void planner_cast(struct planner *planner, int micro_step, int unit, int from, int to, bool accumulate, int after);

/* What a use brings about: a checkpoint that leaves for the host tier, or comes back from there. */
void checkpoint_offload(struct planner *planner, const struct walk_step *step);
void checkpoint_fetch(struct planner *planner, const struct walk_step *step);

/* What reductions delivered leaves for the host tier: of those that stand above operation `until`. */
void gradients_leave(struct planner *planner, int until);
void gradients_arrive(struct planner *planner); /* all that did is added up there */
/* Where a reduction delivers the rank's own part of a unit. */
int reduction_into(struct planner *planner, int unit);

/* At the beginning of a step: the host's updates with the gradients of the step before. At its end: the updates, or what
 * the pending ones have made, to where parameters are used. */
void updates_pending(struct planner *planner);
void updates_write(struct planner *planner);
/* What of an update lies on NVMe is written down apart (nvme.c), tile by tile. True if anything does. */
bool updates_swap(const struct planner *planner);
void swapped_updates_write(struct planner *planner);
/* Reads the rank's own shard of a unit's parameters into the host tier, after an operation (-1: none): the buffer that holds it. */
int shard_swap_in(struct planner *planner, int unit, int after);

/* After the last backward: norm, agreement, updates, refreshes; when not training, the agreement alone. */
void tail_write(struct planner *planner);

#endif
