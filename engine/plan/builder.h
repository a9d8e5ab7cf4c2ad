/* Writes a schedule: operations are appended in canonical order, each with its buffers, pieces and
 * dependencies; builder_finish() adds the dependencies that keep memory within the canonical order and gives every buffer
 * its address. Internal to engine/plan. */
#pragma once

#include "engine/plan/schedule.h"

enum { PAGE_ALIGN = 4096 };

struct builder {
    struct schedule *schedule;
    const struct schedule_input *input;
    const struct model *model;
    struct unit_layout *layout; /* by unit; owned by the schedule */
    int op_room, buffer_room, piece_room, effect_room;
    struct op *op;              /* being written, or NULL */
    int *gives, give_count, give_room; /* buffers that it gives back, appended after its takes */
    bool failed;                /* out of memory, or too long; every call is then a no-op */
    bool too_long;              /* more than SCHEDULE_OPS_MAX operations */
};

/* Room for one more item of `size` bytes in an array of `count`. False, and the builder has failed: there is no memory. */
bool builder_grow(struct builder *builder, void **array, int count, int *room, size_t size);

/* Makes the lasting buffers for these knobs: what a rank keeps between steps, and in which tier. */
void layout_build(struct builder *builder);
enum tier layout_optimizer_tier(const struct schedule *schedule, const struct model *model, int unit);
/* The tier of a buffer; TIER_DEVICE if the builder has failed. */
enum tier builder_tier(const struct builder *builder, int buffer);

int builder_buffer(struct builder *builder, const struct buffer *buffer);
/* A step-scoped buffer of plain bytes, or of a unit's extent. They are on the device unless the tier is named. */
int builder_bytes(struct builder *builder, const char *name, enum category category, int64_t bytes);
int builder_bytes_in(struct builder *builder, enum tier tier, const char *name, enum category category, int64_t bytes);
int builder_unit_buffer(struct builder *builder, const char *name, enum category category, enum extent extent,
                        enum dtype dtype, int unit);
/* A buffer with the arrays of a piece, one for each slice. */
int builder_piece_buffer(struct builder *builder, const char *name, enum extent extent, enum dtype dtype, const struct piece *piece);
/* A host buffer of whole pages, for reading from and writing to NVMe. */
int builder_staging(struct builder *builder, const char *name, int64_t bytes);
int builder_unit_staging(struct builder *builder, int unit); /* the rank's own shard of parameters */
int builder_unit_buffer_in(struct builder *builder, enum tier tier, const char *name, enum category category, enum extent extent, enum dtype dtype, int unit, bool lasting);

/* One operation: begin, then any of the calls below, then end (returns its number). */
struct op *builder_begin(struct builder *builder, enum op_kind kind, int micro_step, int unit);
void builder_take(struct builder *builder, enum role role, int buffer); /* role ROLES: taken, but has no role here */
void builder_give(struct builder *builder, int buffer);
void builder_depend(struct builder *builder, int op, enum why_wait why); /* op < 0: nothing */
void builder_piece(struct builder *builder, int unit, int64_t first, int64_t elems, int source, int destination);
int builder_end(struct builder *builder);
/* Ends a gather or a refresh among the ranks that hold the shards. In two hops (schedule_gathers_in_hops()) each hop is an operation;
 * the second reads what the first has written. Returns the number of the last one. */
int builder_end_gather(struct builder *builder);

/* Finishes the schedule: adds memory dependencies and addresses (placement.c). STATUS_RUN: no memory; STATUS_USAGE: too many
 * operations. On an error it releases the schedule. */
int builder_finish(struct builder *builder, struct error *err);
void placement_order(struct builder *builder);
void placement_of_all(struct builder *builder);
