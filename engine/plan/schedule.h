/* A ZeRO stage is a schedule. schedule_build() is a pure function from (model, knobs, ranks, micro-steps, batch shape) to
 * the operations of one step; no layer that runs them asks "which stage?". A schedule is data, so it can be printed and taught
 * (schedule_io.h), proved (checker.h), run (engine/zero/executor.h) or simulated (engine/simulate). Its sums predict memory and traffic.
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
    EXTENT_SHARD,     /* the rank's part of the padded unit, cut into one part for each rank of a shard group */
    EXTENT_HEAD,      /* the unit without its tail; the whole padded unit if it has none */
    EXTENT_TAIL,      /* the persistent tensors and the padding */
    EXTENT_BYTES,     /* not made of a unit's elements: activations, scratch, tokens */
    EXTENT_SECONDARY, /* the rank's part of the padded unit, cut into zero_hpz_partition_size parts */
    EXTENT_PIECE,     /* the elements of a piece, one array for each slice */
    EXTENT_NODE_PIECE, /* the same, but only slices owned by ranks that have this rank's place in their nodes */
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
    ROLE_INPUT,      /* the previous use's output; for a tile of an MLP: what its block saved for its tiles */
    ROLE_ACTIVATION, /* saved for backward by mlp, norm, head or hidden */
    ROLE_RESIDUAL,   /* the gradient of the residual stream, which backward passes on */
    ROLE_SCRATCH,    /* used by a kernel while it runs */
    ROLE_TOKENS,     /* inputs and targets of a micro-batch */
    ROLE_MASTER, ROLE_STATE1, ROLE_STATE2, /* arrays of the optimizer, as many as it keeps. In a swap: the host buffer for a tile
                                              of the unit's array of that role, which lies on NVMe */
    ROLE_ATTENTION,  /* saved for backward by attention */
    ROLE_OUTPUT,     /* a use's output; what a copy between tiers writes */
    ROLE_SOURCE,     /* the unit's gradient in the type that a cast reads; what a copy between tiers reads */
    ROLE_NORMED,     /* gradient of the second norm's output: the tiles of an MLP add to it */
    ROLES
};

/* Numbers of the lasting buffers of a unit (-1: none). master == parameters: one array is both. */
struct unit_layout {
    int parameters, tail, master, state[OPTIMIZER_STATES_MAX];
    int gradient; /* what the update reads */
    int errors;   /* error feedback of quantized gradients, for all elements, because the rank sends all; -1: none */
    int whole;    /* stages 0 and 1: the whole gradient, to which micro-steps add and which is then reduced; else -1 */
};

/* The role of saved buffer `s` in the operations of a use. */
static inline enum role saved_role(const struct model *model, int s)
{
    return model->architecture->saved[s].remade & 1u << RECOMPUTE_ATTENTION ? ROLE_ATTENTION : ROLE_ACTIVATION;
}

/* The buffer number of a unit's array in this role: parameters, master, a state, or the gradient that the update reads; else -1. */
int layout_array(const struct unit_layout *layout, enum role role);

/* A piece of a collective: elements [first, first + elems) of a unit, which the collective cuts at shard borders. A copy
 * between tiers copies only those elements that lie in the rank's shard. */
struct piece { int unit; int64_t first, elems; int source, destination; /* buffers */ };

enum why_wait { WAIT_DATA, WAIT_MEMORY, WAIT_LIMIT };
struct dependency { int op; enum why_wait why; };

enum flush { FLUSH_NONE, FLUSH_FULL, FLUSH_END };

/* Why a gather was not issued before an earlier use: the limit at which the gathers ahead of that use ended. NONE: no limit, or
 * unknown. */
enum held_by {
    HELD_NONE,
    HELD_BUCKET, /* stage3_prefetch_bucket_size */
    HELD_LIVE,   /* stage3_max_live_parameters */
    HELD_AGAIN   /* the walk came to the unit in use, which must be released first */
};

enum { OP_DEPENDENCIES_MAX = 8 };

struct op {
    enum op_kind kind;
    const struct use *use;        /* the use that it computes; NULL: it is no forward, backward or recompute */
    enum lane lane;
    enum phase phase;
    int micro_step, unit, bucket; /* -1: none */
    int buffer[ROLES];            /* -1: none */
    enum group group;             /* of a collective: the ranks that take part */
    bool accumulate;              /* gradients are added to what is there */
    enum extent extent;           /* an update, or a copy for one, covers the whole unit or the shard ... */
    int tile;                     /* ... and of that, part number `tile` of update_tiles(), from 0 on */
    bool droppable;               /* after the last backward: skipped when the step is dropped */
    bool prefetch;                /* a gather issued ahead of need */
    enum held_by held;            /* gathers only; HELD_NONE in older traces */
    enum flush flush;
    int first_piece, piece_count; /* of schedule.pieces */
    int ranks;                    /* an observed collective's number of ranks, 0: unknown. Planned ones have 0: see op_ranks() */
    int64_t bytes;                /* payload: a collective's over all ranks of its group; a copy's for one rank, mean over ranks; else 0 */
    int64_t sent_bytes;           /* sent by one rank, mean over ranks */
    int first_take, take_count;   /* of schedule.effects: buffers taken at its start, in order */
    int first_give, give_count;   /* ... and given back at its end */
    int dependency_count;
    struct dependency dependency[OP_DEPENDENCIES_MAX];
};

/* A schedule with more operations is refused: checking and drawing it would take seconds, and its list some gigabytes. */
enum { SCHEDULE_OPS_MAX = 1 << 21 };

struct schedule {
    enum purpose purpose;
    int stage, ranks, micro_steps, B, T;
    struct config_zero knobs;
    bool nothing_pending; /* a step of a run with delayed updates in which no update is pending */
    int node_ranks;      /* ranks of a node; 0: there is one node, and gradients are not quantized */
    int lasting_count;   /* how many of the first buffers are the layout, which is equal in every schedule of these knobs */
    int buffer_count, op_count, piece_count, effect_count;
    struct buffer *buffers;
    struct op *ops;
    struct piece *pieces;
    int *effects;        /* buffer numbers */
    struct unit_layout *layout; /* by unit; NULL in a schedule that was read back */
    char **names; /* [op_count], another program's names for its operations; NULL: the schedule was planned */
};

/* Whether the operations were observed in another program's steps and not planned. The list has each distinct operation once, in no
 * order, without buffers, pieces and dependencies. The knobs are unknown. */
static inline bool schedule_is_observed(const struct schedule *schedule) { return schedule->names != NULL; }

struct schedule_input {
    const struct model *model;
    const struct config_zero *knobs;
    enum purpose purpose;
    int ranks, micro_steps, B, T, threads;
    bool nothing_pending; /* with delayed updates: the step before left no gradients */
    int node_ranks;       /* ranks of a node, topology.ranks_per_node; 0: there is one node */
};

/* The input that a configuration gives. The caller may replace knobs and ranks. PURPOSE_SAMPLE: B is 1. */
struct schedule_input schedule_input_of(const struct config *config, const struct model *model, enum purpose purpose);

/* STATUS_USAGE: these knobs do not fit the model or the nodes, or the step has too many operations. STATUS_RUN: no memory. */
int schedule_build(struct schedule *schedule, const struct schedule_input *input, struct error *err);
void schedule_release(struct schedule *schedule);

/* Whether two schedules have the same operations, buffers and dependencies, whatever their knobs. A knob *binds* if changing it makes
 * another schedule. */
bool schedule_same(const struct schedule *a, const struct schedule *b);

/* Sets `bytes` to the widths of address ranges that hold the buffers of every schedule of this model, ranks and batch, at any stage and
 * with any knobs. So a run reserves its ranges once and can then switch. They cost addresses, not memory. input->knobs and ->purpose
 * are not read. */
void schedule_ranges(uint64_t bytes[TIERS][CATEGORIES], const struct schedule_input *input);

/* ---- who owns what ----
 *
 * A shard group has mics_shard_size consecutive ranks, or all ranks (ZeRO; also stage 0, which has no shards). Shards are spread over
 * its ranks. With several shard groups, ranks at the same place in their groups hold the same shard: they are its replicas.
 *
 * The padded unit is cut into as many slices as there are ranks, whatever the shard groups are. A shard has one slice for each of its
 * replicas, and each replica *owns* one of these slices. The owner of a slice computes its norm and hash, saves it, and sends it to
 * other ranks in a switch, so norms, hashes and checkpoints do not depend on the shard groups. */
int schedule_shard_ranks(const struct schedule *schedule); /* ranks of a shard group */
/* Whether reductions move int4 blocks: zero_quantized_gradients is on, parameters are sharded, and there are several nodes. */
bool schedule_quantizes_gradients(const struct schedule *schedule);
/* Whether collectives go in two hops: mics_hierarchical_params_gather is on, and shards are spread over several nodes. A gather or
 * refresh first goes across nodes, among ranks at the same place in their nodes, then within each node. A reduction first goes within
 * each node, then across; it does so only if shards are spread over all ranks and sums need not be in rank order. */
bool schedule_gathers_in_hops(const struct schedule *schedule);
bool schedule_reduces_in_hops(const struct schedule *schedule);
/* Elements of a whole unit with its padding; of a shard of it. */
int64_t schedule_padded_elems(const struct schedule *schedule, const struct model *model, int unit);
int64_t schedule_shard_elems(const struct schedule *schedule, const struct model *model, int unit);
/* The slice that a rank owns; the rank that owns a slice. */
int slice_of(const struct schedule *schedule, int rank);
int slice_owner(const struct schedule *schedule, int slice);
/* Elements [*first, *end) of a unit: the slice that `rank` owns. */
void slice_range(const struct schedule *schedule, const struct model *model, int unit, int rank, int64_t *first, int64_t *end);

/* The group of this kind that `rank` belongs to. */
struct process_group schedule_group(const struct schedule *schedule, enum group kind, int rank);
int op_ranks(const struct schedule *schedule, const struct op *op); /* how many ranks take part */
/* The kind of group over which shards are spread: GROUP_WORLD if there is one shard group, else GROUP_SHARDS. */
enum group schedule_shard_group(const struct schedule *schedule);

/* Which parts of a unit, of part_elems elements each, a member of `rank`'s group brings to a gather, or receives the sum of in a
 * reduction: member m has part first + m x step and, if period is not 0, every period-th part after it. */
struct owning { int64_t first, step, period, part_elems; };
struct owning op_owning(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank, int round);

/* The rank that brings element `at`, or receives its sum in this round; -1: no rank of the group does. *next: the end of the part in
 * which `at` lies. op_rounds(): a reduce-scatter over all ranks takes one round for each replica of a shard; others take 1. */
int op_owner(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank, int round, int64_t at, int64_t *next);
int op_rounds(const struct schedule *schedule, const struct op *op);

/* A buffer of a quantized type, or of a piece, holds several arrays, one after the other. EXTENT_SHARD has one array, EXTENT_HEAD one for
 * each shard, the extents of a piece one for each slice.
 *   quantized_next()   the first element after `at` that lies in another array
 *   quantized_place()  bytes before the array that begins with element `at`; `from`: the first element that the buffer holds
 *   quantized_bytes()  bytes of the arrays of elements [from, end), on the rank that has most */
int64_t quantized_next(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int64_t at);
int64_t quantized_place(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int rank, int64_t from, int64_t at);
int64_t quantized_bytes(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int64_t from, int64_t end);

/* Elements [*first, *end) of a unit that an extent, or a buffer, covers on `rank`. */
void extent_range(const struct schedule *schedule, const struct model *model, int unit, enum extent extent, int rank, int64_t *first, int64_t *end);
void buffer_range(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int rank, int64_t *first, int64_t *end);

/* Whether the operation takes this buffer, so that the buffer holds no values when it starts. */
bool op_takes(const struct schedule *schedule, const struct op *op, int buffer);

/* Whether the operation moves bytes, or uses a unit outside the optimizer phase. Slow motion makes these long enough to be seen
 * (executor_slow()), but not tokens, norms, the agreement and updates. */
bool op_is_followed(const struct op *op);

/* Number of the operation `agree`; op_count: none. After it nothing may fail: all ranks know that the step is good, and later
 * operations change state. */
int schedule_agreement(const struct schedule *schedule);

/* update_range(): elements [*first, *end) of its unit that an update, or a copy for one, covers on `rank`. update_tiles(): how many
 * such parts the unit is updated in. sub_group_size cuts shards of stage 3, update_tile cuts what the host updates. */
void update_range(const struct schedule *schedule, const struct model *model, const struct op *op, int rank, int64_t *first, int64_t *end);
int update_tiles(const struct schedule *schedule, const struct model *model, const struct op *op);
