/* A ZeRO stage is a schedule. schedule_build() is a pure function from (model, knobs, ranks, micro-steps, batch shape) to
 * the operations of one step; no layer that runs them asks "which stage?". Because it is data it can be printed and taught
 * (schedule_io.h), proved (checker.h), run (engine/zero/executor.h) or simulated (engine/simulate), and its sums predict memory and traffic.
 *
 * Lanes take their operations in the order of the list and never out of order. An operation starts when every dependency
 * has ended. Memory is part of the schedule: an operation takes its buffers when it starts and gives others back when it
 * ends, and "take this only after that was given back" is a dependency like any other. Reading the list from top to bottom
 * gives the *canonical* order. Each take waits for every earlier give to its tier. So no interleaving holds more memory than the peak
 * of the canonical order (proof in docs/design/schedule.md), the measured peak cannot exceed the planned one, and every buffer can have
 * a fixed address.
 *
 * Buffers: the lasting ones (parameters, gradients, optimizer state: the layout) live between steps; the others belong to
 * the step. The extent of a buffer says which part of its unit it holds (a unit is its tensors in one array,
 * model.h). Shards, secondary parts and node pieces differ by rank; the other extents are the same on all ranks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/group.h"
#include "engine/base/tier.h"
#include "engine/plan/model.h"

enum purpose { PURPOSE_TRAIN, PURPOSE_EVALUATE, PURPOSE_SAMPLE, PURPOSES };

enum extent {
    EXTENT_WHOLE,     /* the padded unit */
    EXTENT_SHARD,     /* of the padded unit in as many parts as a shard group has ranks: that of the rank's place in its group */
    EXTENT_HEAD,      /* the unit without its tail; the whole padded unit if it has none */
    EXTENT_TAIL,      /* the persistent tensors and the padding */
    EXTENT_BYTES,     /* not made of a unit's elements: activations, scratch, tokens */
    EXTENT_SECONDARY, /* the padded unit in zero_hpz_partition_size parts: that of the rank's place in its partition */
    EXTENT_PIECE,     /* the elements of a piece, an array for each slice of them */
    EXTENT_NODE_PIECE, /* the same, of those slices alone that ranks at the rank's place in their nodes own */
    EXTENTS
};

struct buffer {
    char name[24];
    enum tier tier;
    enum category category;
    enum extent extent;
    enum dtype dtype;
    int unit;          /* -1: none */
    bool lasting;      /* lives between steps */
    int64_t bytes;     /* exactly what is counted */
    uint64_t offset;   /* in its category's address range */
};

/* What an operation does with a buffer. */
enum role {
    ROLE_PARAMETERS, /* of the unit: whole, or gathered head */
    ROLE_TAIL,       /* small tensors kept gathered apart */
    ROLE_GRADIENT,   /* where backward writes the unit's gradient */
    ROLE_INPUT,      /* what the use before put out; of a tile of an MLP: the mlp part of its block */
    ROLE_ACTIVATION, /* saved for backward: of mlp, norm, head or hidden */
    ROLE_RESIDUAL,   /* the gradient of the residual stream, which backward passes on */
    ROLE_SCRATCH,    /* of a kernel, while it runs */
    ROLE_TOKENS,     /* of a micro-batch: inputs and targets */
    ROLE_MASTER, ROLE_STATE1, ROLE_STATE2, /* of the optimizer: as many as it keeps. Of a swap: the tile in host memory of the
                                              unit's array of that role, which lies on NVMe */
    ROLE_ATTENTION,  /* saved for backward: of attention */
    ROLE_OUTPUT,     /* what a copy between tiers writes, too */
    ROLE_SOURCE,     /* the unit's gradient in the type that a cast reads; what a copy between tiers reads */
    ROLE_NORMED,     /* gradient of what the second norm put out: the tiles of an MLP add to it */
    ROLES
};

/* The lasting buffers of a unit, by number (-1: has none). Where master is parameters, they are the same array. */
struct unit_layout {
    int parameters, tail, master, state[OPTIMIZER_STATES_MAX];
    int gradient; /* what the update reads */
    int errors;   /* error feedback of quantized gradients: of all elements, for the rank sends all; else -1 */
    int whole;    /* stages 0 and 1: the whole gradient, to which micro-steps are added, and which is reduced; else -1 */
};

/* Where a use finds a buffer that is saved for backward. */
static inline enum role saved_role(const struct model *model, int s)
{
    return model->architecture->saved[s].remade & 1u << RECOMPUTE_ATTENTION ? ROLE_ATTENTION : ROLE_ACTIVATION;
}

/* The array of a unit that has this role: parameters, master, a state, or the gradient that the update reads; else -1. */
int layout_array(const struct unit_layout *layout, enum role role);

/* A piece of a collective: elements [first, first + elems) of a unit, cut at shard borders when it runs. Of a copy between
 * tiers: those of them that the rank owns. */
struct piece { int unit; int64_t first, elems; int source, destination; /* buffers */ };

enum why_wait { WAIT_DATA, WAIT_MEMORY, WAIT_LIMIT };
struct dependency { int op; enum why_wait why; };

enum flush { FLUSH_NONE, FLUSH_FULL, FLUSH_END };

/* Why a gather does not stand before an earlier use: what ended the gathers ahead of that use. NONE: nothing did, or unknown. */
enum held_by {
    HELD_NONE,
    HELD_BUCKET, /* stage3_prefetch_bucket_size */
    HELD_LIVE,   /* stage3_max_live_parameters */
    HELD_AGAIN   /* the walk came to the unit in use, which has to be let go first */
};

enum { OP_DEPENDENCIES_MAX = 8 };

struct op {
    enum op_kind kind;
    const struct use *use;        /* of the unit; NULL: it is no forward, backward or recompute */
    enum lane lane;
    enum phase phase;
    int micro_step, unit, bucket; /* -1: none */
    int buffer[ROLES];            /* -1: none */
    enum group group;             /* of a collective: the ranks that take part */
    bool accumulate;              /* gradients are added to what is there */
    enum extent extent;           /* of an update, and of a copy that belongs to one: the whole unit or the shard ... */
    int tile;                     /* ... and which part of that, in parts of sub_group_size elements, from 0 on */
    bool droppable;               /* after the last backward: skipped when the step is dropped */
    bool prefetch;                /* a gather issued ahead of need */
    enum held_by held;            /* a gather; older traces do not say it */
    enum flush flush;
    int first_piece, piece_count; /* of schedule.pieces */
    int ranks;                    /* of a collective that was observed: how many take part; 0: unknown. Of a planned one 0: the group says it */
    int64_t bytes;                /* of a collective: the payload of all ranks; of a copy: of one rank, mean over ranks; else 0 */
    int64_t sent_bytes;           /* by each rank, mean over ranks */
    int first_take, take_count;   /* of schedule.effects: buffers taken at its start, in order */
    int first_give, give_count;   /* ... and given back at its end */
    int dependency_count;
    struct dependency dependency[OP_DEPENDENCIES_MAX];
};

/* More operations are refused: what is proved and drawn of them takes seconds, and their list some gigabytes. */
enum { SCHEDULE_OPS_MAX = 1 << 21 };

struct schedule {
    enum purpose purpose;
    int stage, ranks, micro_steps, B, T;
    struct config_zero knobs;
    bool nothing_pending; /* of a run with delayed updates: a step that has none to do */
    int node_ranks;      /* ranks of a node, if there are several nodes; else 0: then gradients are not quantized */
    int lasting_count;   /* the first buffers: the layout, equal in every schedule of these knobs */
    int buffer_count, op_count, piece_count, effect_count;
    struct buffer *buffers;
    struct op *ops;
    struct piece *pieces;
    int *effects;        /* buffer numbers */
    struct unit_layout *layout; /* by unit; NULL in a schedule that was read back */
    char **names; /* by operation: as another program calls it; NULL in a schedule that was planned */
};

/* Operations that were observed in another program's step, not planned: each distinct one once, in no order, without buffers,
 * pieces and dependencies. Its knobs are unknown. */
static inline bool schedule_is_observed(const struct schedule *schedule) { return schedule->names != NULL; }

struct schedule_input {
    const struct model *model;
    const struct config_zero *knobs;
    enum purpose purpose;
    int ranks, micro_steps, B, T, threads;
    bool nothing_pending; /* with delayed updates: the step before left no gradients */
    int node_ranks;       /* ranks of a node, topology.ranks_per_node; 0: there is one node */
};

/* As a configuration has it: its knobs and ranks, which the caller may replace. Sampling takes one sequence at a time. */
struct schedule_input schedule_input_of(const struct config *config, const struct model *model, enum purpose purpose);

int schedule_build(struct schedule *schedule, const struct schedule_input *input, struct error *err);
void schedule_release(struct schedule *schedule);

/* The same operations with the same buffers and dependencies, whatever knobs they were made with. So a knob *binds* if changing it
 * makes another schedule. */
bool schedule_same(const struct schedule *a, const struct schedule *b);

/* Address ranges that hold the buffers of every schedule of this model, these ranks and this batch, at any stage and any other knobs: a
 * run that switches makes its ranges once. They cost addresses, not memory. input->knobs and ->purpose are not read. */
void schedule_ranges(uint64_t bytes[TIERS][CATEGORIES], const struct schedule_input *input);

/* ---- who owns what ----
 *
 * Shards are spread over the ranks of a shard group: mics_shard_size consecutive ranks, or all (ZeRO; stage 0, which has no shards).
 * With several shard groups, ranks at the same place in their groups hold the same shard: they are its replicas. The padded unit
 * is cut into as many slices as there are ranks, at every grouping. A shard is the slices of its replicas, one each: the slice that
 * the rank *owns*. Owners say the norm, hash and save of a slice, so none of them depends on the grouping, and bring it to others in a
 * switch. */
int schedule_shard_ranks(const struct schedule *schedule);
/* Whether reductions move int4 blocks: zero_quantized_gradients, where parameters are sharded and there are nodes. */
bool schedule_quantizes_gradients(const struct schedule *schedule);
/* mics_hierarchical_params_gather, where shards are spread over several nodes. Gathers and refreshes: across nodes, the shards of the
 * ranks at one place; then within the node, what its ranks have received. Reductions, if shards are spread over all ranks and not
 * summed in rank order: within the node, then across. */
bool schedule_gathers_in_hops(const struct schedule *schedule);
bool schedule_reduces_in_hops(const struct schedule *schedule);
/* Of a whole unit with its padding; of a shard. */
int64_t schedule_padded_elems(const struct schedule *schedule, const struct model *model, int unit);
int64_t schedule_shard_elems(const struct schedule *schedule, const struct model *model, int unit);
int slice_of(const struct schedule *schedule, int rank);
int slice_owner(const struct schedule *schedule, int slice);
/* Elements [*first, *end) of a unit: the slice that `rank` owns. */
void slice_range(const struct schedule *schedule, const struct model *model, int unit, int rank, int64_t *first, int64_t *end);

/* The ranks of a group of this kind that `rank` belongs to. */
struct process_group schedule_group(const struct schedule *schedule, enum group kind, int rank);
int op_ranks(const struct schedule *schedule, const struct op *op); /* how many take part */
/* Those over which the shards are spread: GROUP_WORLD if there is one shard group. */
enum group schedule_shard_group(const struct schedule *schedule);

/* Of a collective in which `rank` takes part: member m of its group brings part first + m step of a unit (a gather), or receives its sum
 * (a reduction); with a period (not 0), also each part that many after it. A part has so many elements. */
struct owning { int64_t first, step, period, part_elems; };
struct owning op_owning(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank, int round);

/* By that, the rank that brings element `at` or receives its sum, and *next, the first element after it of which another rank does.
 * -1: no rank of the group does. A sum over all ranks that several replicas receive takes as many rounds. */
int op_owner(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank, int round, int64_t at, int64_t *next);
int op_rounds(const struct schedule *schedule, const struct op *op);

/* A buffer of a quantized type, or of a piece, holds an array for each owner of its elements, one after the other: of EXTENT_SHARD
 * one, of EXTENT_HEAD one for each shard, of the extents of a piece one for each slice. quantized_place(): bytes before the array
 * that begins with element `at`; `from`: the first element that the buffer holds. quantized_bytes(): of all arrays of elements
 * [from, end), on the rank that has most. */
/* The first element after `at` that is of another array. */
int64_t quantized_next(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int64_t at);
int64_t quantized_place(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int rank, int64_t from, int64_t at);
int64_t quantized_bytes(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int64_t from, int64_t end);

/* First element of a unit that an extent, or a buffer, covers on `rank`, and one past the last. */
void extent_range(const struct schedule *schedule, const struct model *model, int unit, enum extent extent, int rank, int64_t *first, int64_t *end);
void buffer_range(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int rank, int64_t *first, int64_t *end);

/* Whether the buffer begins with this operation: it finds nothing in it. */
bool op_takes(const struct schedule *schedule, const struct op *op, int buffer);

/* What moves or uses parameters and gradients; the rest (tokens, norms, agreement, updates) is bookkeeping beside it, which
 * slow motion does not draw out to be looked at. */
bool op_is_followed(const struct op *op);

/* The operation after which nothing may fail: all ranks know that the step is good, and later operations change state. */
int schedule_agreement(const struct schedule *schedule);

/* Elements of its unit that an update operation, or a copy that belongs to one, covers on `rank`, and in how many such
 * parts the unit is updated. */
void update_range(const struct schedule *schedule, const struct model *model, const struct op *op, int rank, int64_t *first, int64_t *end);
int update_tiles(const struct schedule *schedule, const struct model *model, const struct op *op);
