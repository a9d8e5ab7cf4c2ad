/* State and functions shared by the files that write a schedule: schedule.c follows the walk, use*.c write the uses, offload.c
 * the gradients that go to the host tier, updates.c the updates, step_end.c what follows the last use. Internal to
 * engine/plan. */
#pragma once

#include "engine/plan/buckets.h"
#include "engine/plan/builder.h"
#include "engine/plan/gather.h"
#include "engine/plan/walk.h"

/* A micro-step's gradient that was copied to the host tier and must still be added there. */
struct arrival { int unit, staging, copied_by, micro_step; bool accumulate; };

/* Arrays on NVMe are updated tile by tile (nvme.c). */
enum { TILE_ROLES = 3 }; /* the master weights and two states */
struct tile {
    int unit, number;
    int staging[TILE_ROLES]; /* host buffer that the array is read into; -1: it lies in memory, or is not kept */
    int parameters;          /* buffer with updated parameters for another tier; -1: the update writes them in place */
    int read, work, moved;   /* operations; after `moved` the parameters are in place, or can be written to NVMe */
};

/* One pass over all tiles. PASS_UPDATE: a whole update. A delayed update has two passes: PASS_PENDING updates master weights and
 * states, PASS_RENEW makes parameters of the master weights. */
enum pass { PASS_UPDATE, PASS_PENDING, PASS_RENEW };

struct pipeline {
    enum pass pass;
    bool more;
    struct tile now, held; /* now: the next tile; held: the tile that is still to be written, unit -1: none */
    int worked, written;   /* the operations that updated, and wrote, an earlier tile; -1: none */
    int64_t passed_elems;
};

struct planner {
    struct builder builder;
    struct walk walk;
    struct gatherer gatherer;
    struct buckets buckets;
    bool training;
    int last_compute, last_comm; /* the newest operation on each of these lanes */
    int to_keep;                 /* gathered buffer from which a secondary copy is made after the use being written; -1: none */
    int host_norm;

    struct {
        int *output;                /* by place in the chain (model_place): the next use's input */
        int *last_use, *moved;      /* by place: the forward that made the output; the copy that brought it to its tier */
        int *saved[SAVED_MAX]; /* by unit, the tied use last: buffers that forward, or recomputation, saved */
        int tokens, residual;
    } activations;

    struct {
        bool cast; /* gradients accumulate in another type than that in which backward makes them */
        bool own;  /* backward writes into the step's own buffers (stages 2, 3; or to accumulate in another type) */
        bool every_time;  /* gradients are reduced after every micro-step, not only the last (stages 2, 3, unless no_sync) */
        int *of_unit;     /* by unit: the buffer that backward writes; after gradient_convert() the one that is reduced */
        int *accumulator; /* by unit: the buffer to which the casts of all micro-steps are added */
        int normed;       /* gradient of a tiled MLP's input */
    } gradients;

    struct {               /* reduced gradients on their way to the host tier */
        int left, reduced; /* reductions before operation `left` have been copied; those before `reduced` are copied next */
        int last_copy;
        struct arrival *arrivals; /* `count` of them, room for `room` */
        int count, room;
    } offload;

    struct {
        bool delayed;        /* the update at the start of this step is the previous step's */
        bool begun[2];       /* the list has an update on the device ([0]), on the host ([1]) */
        int in_place[LANES]; /* by lane: the last operation that puts updated parameters in their place */
        int travel_from;     /* the update whose result is still to be copied to the device; -1: none */
        struct pipeline pending; /* tiles of the pending update */
        int *pending_last;       /* by unit: the last part of its pending update; -1: none */
        int pending_written;     /* the operation that wrote the last part of a pending update to NVMe; -1: none */
    } updates;
};

/* use_write(): the operation for use `at` of the walk. use_load(): the operation that loads the tokens of a micro-step, before
 * its first use. */
void use_write(struct planner *planner, int at);
void use_load(struct planner *planner, int micro_step);
/* Returns `op` without overlap_comm: the operation now begun must wait for `op`. Returns -1 with overlap_comm. */
int planner_serial(const struct planner *planner, int op);

/* use_activations.c: each works on the operation now being written. */
bool activations_makes_output(const struct planner *planner, const struct walk_step *step); /* whether it has an output */
void activations_output(struct planner *planner, const struct walk_step *step);        /* sets the buffer of the output */
void activations_take(struct planner *planner, const struct walk_step *step);          /* takes the buffers that it saves */
void activations_input(struct planner *planner, const struct walk_step *step);         /* sets the buffer of the input */
void activations_give_forward(struct planner *planner, const struct walk_step *step);  /* gives back what no later use needs */
void activations_give_backward(struct planner *planner, const struct walk_step *step); /* the same for a backward */

/* After a backward: converts the unit's gradient to the type in which it accumulates and, if `reduced`, to the type in which it
 * travels. */
void gradient_convert(struct planner *planner, const struct walk_step *step, bool reduced);
/* Converts a gradient from buffer `from` to buffer `to`, of another type. Takes `to` and gives `from` back if it is a buffer of
 * the step; if accumulate, `to` was taken before. after: an operation of another lane that it waits for, or -1. */
void planner_cast(struct planner *planner, int micro_step, int unit, int from, int to, bool accumulate, int after);

/* The copies around a use: the input of a recomputed segment goes to the host tier after its use and comes back before its next. */
void activations_offload(struct planner *planner, const struct walk_step *step);
void activations_fetch(struct planner *planner, const struct walk_step *step);

/* gradients_leave(): copies the results of reductions before operation `until` to the host tier. gradients_arrive(): the host adds
 * all copies that have not been added. */
void gradients_leave(struct planner *planner, int until);
void gradients_arrive(struct planner *planner);
/* The buffer to which a reduction delivers the rank's own part of a unit. */
int reduction_into(struct planner *planner, int unit);

/* Writes the part of the pending update that belongs before use `at` of the walk. */
void updates_pending(struct planner *planner, int at);
/* Writes the updates at the end of a step. With delayed updates: the copies of updated parameters to where they are used. */
void updates_write(struct planner *planner);
/* Begins an operation on one tile of the part of a unit that the rank updates. An update also gets its gradient, master and states. */
struct op *planner_begin_tile(struct planner *planner, enum op_kind kind, int unit, int tile);
/* planner_updated(): operation `op` has put updated parameters in their place. planner_depend_on_updates(): the operation now
 * begun waits for all such operations. */
void planner_updated(struct planner *planner, int op);
void planner_depend_on_updates(struct planner *planner);

/* nvme.c plans the updates of arrays on NVMe, tile by tile. updates_swap(): states or parameters lie on NVMe. states_swap():
 * states do. */
bool updates_swap(const struct planner *planner);
int64_t planner_tile_bytes(const struct planner *planner, const struct op *op); /* bytes of parameters in the tile that `op` updates */
bool states_swap(const struct planner *planner);
void swapped_updates_write(struct planner *planner);
void swapped_updates_pending(struct planner *planner, int at);
/* Reads the rank's own shard of a unit's parameters into the host tier, after the updates. Returns the buffer
 * that holds it. */
int shard_swap_in(struct planner *planner, int unit);

/* After the last backward: norm, agreement, updates, refreshes; when not training, the agreement alone. */
void step_end_write(struct planner *planner);
