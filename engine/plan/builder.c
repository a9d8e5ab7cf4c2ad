#include "engine/plan/builder.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/plan/stage_rules.h"

enum { NVME_TILE_ELEMS = 2048 }; /* whole pages of 4,096 bytes in types of 2 and 4 bytes */

bool builder_grow(struct builder *builder, void **array, int count, int *room, size_t size)
{
    builder->failed = builder->failed || !array_grow(array, count, room, size);
    return !builder->failed;
}

/* ---- buffers ---- */

int builder_buffer(struct builder *builder, const struct buffer *buffer)
{
    struct schedule *schedule = builder->schedule;
    if (!builder_grow(builder, (void **)&schedule->buffers, schedule->buffer_count, &builder->buffer_room,
                      sizeof *buffer))
        return -1;
    schedule->buffers[schedule->buffer_count] = *buffer;
    return schedule->buffer_count++;
}

static int64_t whole_pages(int64_t bytes)
{
    return (bytes + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
}

int builder_bytes_in(struct builder *builder, enum tier tier, const char *name, enum category category, int64_t bytes)
{
    struct buffer buffer = {.tier = tier, .category = category, .extent = EXTENT_BYTES, .unit = -1, .bytes = bytes};
    snprintf(buffer.name, sizeof buffer.name, "%s", name);
    return builder_buffer(builder, &buffer);
}

int builder_bytes(struct builder *builder, const char *name, enum category category, int64_t bytes)
{
    return builder_bytes_in(builder, TIER_DEVICE, name, category, bytes);
}

int builder_unit_buffer(struct builder *builder, const char *name, enum category category, enum extent extent,
                        enum dtype dtype, int unit)
{
    return builder_unit_buffer_in(builder, TIER_DEVICE, name, category, extent, dtype, unit, false);
}

int builder_unit_buffer_in(struct builder *builder, enum tier tier, const char *name, enum category category,
                           enum extent extent, enum dtype dtype, int unit, bool lasting)
{
    struct buffer buffer = {
        .tier = tier, .category = category, .extent = extent, .dtype = dtype, .unit = unit, .lasting = lasting};
    int64_t first, end;
    snprintf(buffer.name, sizeof buffer.name, "%s", name);
    buffer_range(builder->schedule, builder->model, &buffer, 0, &first, &end);
    buffer.bytes = dtype_is_quantized(dtype) ? quantized_bytes(builder->schedule, builder->model, &buffer, first, end)
                                             : (end - first) * dtype_bytes(dtype);
    if (tier == TIER_NVME) buffer.bytes = whole_pages(buffer.bytes);
    return builder_buffer(builder, &buffer);
}

int builder_piece_buffer(struct builder *builder, const char *name, enum extent extent, enum dtype dtype,
                         const struct piece *piece)
{
    struct buffer buffer = {.category = CATEGORY_BUCKETS, .extent = extent, .dtype = dtype, .unit = piece->unit};
    snprintf(buffer.name, sizeof buffer.name, "%s", name);
    buffer.bytes =
        quantized_bytes(builder->schedule, builder->model, &buffer, piece->first, piece->first + piece->elems);
    return builder_buffer(builder, &buffer);
}

int builder_staging(struct builder *builder, const char *name, int64_t bytes)
{
    return builder_bytes_in(builder, TIER_HOST, name, CATEGORY_STAGING, whole_pages(bytes));
}

int builder_unit_staging(struct builder *builder, int unit)
{
    const int b = builder_unit_buffer_in(builder, TIER_HOST, "shard from NVMe", CATEGORY_STAGING, EXTENT_SHARD,
                                         builder->model->dtype, unit, false);
    if (b >= 0) builder->schedule->buffers[b].bytes = whole_pages(builder->schedule->buffers[b].bytes);
    return b;
}

enum tier builder_tier(const struct builder *builder, int buffer)
{
    return builder->failed || buffer < 0 ? TIER_DEVICE : builder->schedule->buffers[buffer].tier;
}

void buffer_range(const struct schedule *schedule, const struct model *model, const struct buffer *buffer, int rank,
                  int64_t *first, int64_t *end)
{
    *first = *end = 0;
    if (buffer->extent == EXTENT_BYTES) return;
    extent_range(schedule, model, buffer->unit, buffer->extent, rank, first, end);
}

void extent_range(const struct schedule *schedule, const struct model *model, int unit, enum extent extent, int rank,
                  int64_t *first, int64_t *end)
{
    const int64_t padded = schedule_padded_elems(schedule, model, unit);
    int64_t from = persistent_from(model, &schedule->knobs, unit);
    if (from == model->units[unit].elems) from = padded;
    *first = *end = 0;
    switch (extent) {
    case EXTENT_WHOLE: *end = padded; break;
    case EXTENT_SHARD:
        *end = padded / schedule_shard_ranks(schedule);
        *first = rank % schedule_shard_ranks(schedule) * *end;
        *end += *first;
        break;
    case EXTENT_HEAD: *end = from; break;
    case EXTENT_TAIL: *first = from, *end = padded; break;
    case EXTENT_SECONDARY:
        *end = padded / schedule->knobs.hpz_partition;
        *first = rank % schedule->knobs.hpz_partition * *end;
        *end += *first;
        break;
    case EXTENT_BYTES:
    case EXTENT_PIECE:
    case EXTENT_NODE_PIECE:
    case EXTENTS: break;
    }
}

/* Elements of one update operation: sub_group_size cuts shards of stage 3, as in DeepSpeed; on the host update_tile cuts all,
 * so that one can be copied up while the next is computed. What goes to NVMe is cut at whole pages. */
static int64_t update_elems(const struct schedule *schedule, const struct model *model, const struct op *op,
                            int64_t whole)
{
    const struct config_zero *knobs = &schedule->knobs;
    const bool on_host = op->kind == OP_HOST_UPDATE || op->kind == OP_HOST_CAST || op->kind == OP_UPLOAD ||
                         (op_swaps(op->kind) && layout_optimizer_tier(schedule, model, op->unit) != TIER_DEVICE),
               on_nvme = knobs->offload_optimizer == OFFLOAD_NVME || knobs->offload_param == OFFLOAD_NVME;
    int64_t elems = whole;
    if (stage_rules(schedule->stage)->sub_groups && op->extent == EXTENT_SHARD && knobs->sub_group_elems > 0 &&
        knobs->sub_group_elems < elems)
        elems = knobs->sub_group_elems;
    if (on_host && knobs->update_tile_elems > 0 && knobs->update_tile_elems < elems) elems = knobs->update_tile_elems;
    if (on_nvme && elems < whole) elems = (elems + NVME_TILE_ELEMS - 1) / NVME_TILE_ELEMS * NVME_TILE_ELEMS;
    return elems;
}

void update_range(const struct schedule *schedule, const struct model *model, const struct op *op, int rank,
                  int64_t *first, int64_t *end)
{
    extent_range(schedule, model, op->unit, op->extent, rank, first, end);
    const int64_t elems = update_elems(schedule, model, op, *end - *first);
    *first += op->tile * elems;
    if (*first + elems < *end) *end = *first + elems;
}

int update_tiles(const struct schedule *schedule, const struct model *model, const struct op *op)
{
    int64_t first, end;
    extent_range(schedule, model, op->unit, op->extent, 0, &first, &end);
    const int64_t elems = update_elems(schedule, model, op, end - first);
    const int64_t tiles = (end - first + elems - 1) / elems;
    return tiles > SCHEDULE_OPS_MAX ? SCHEDULE_OPS_MAX + 1 : (int)tiles; /* of which each is an operation */
}

/* ---- operations ---- */

struct op *builder_begin(struct builder *builder, enum op_kind kind, int micro_step, int unit)
{
    static struct op scrap; /* written to, never read, once memory has run out */
    struct schedule *schedule = builder->schedule;
    if (schedule->op_count == SCHEDULE_OPS_MAX) builder->failed = builder->too_long = true;
    const bool grown =
        builder_grow(builder, (void **)&schedule->ops, schedule->op_count, &builder->op_room, sizeof *schedule->ops);
    struct op *op = grown ? &schedule->ops[schedule->op_count] : &scrap;
    *op = (struct op){.kind = kind,
                      .lane = op_lane(kind),
                      .phase = op_usual_phase(kind),
                      .micro_step = micro_step,
                      .unit = unit,
                      .bucket = -1,
                      .first_piece = schedule->piece_count,
                      .first_take = schedule->effect_count};
    for (int role = 0; role < ROLES; role++) op->buffer[role] = -1;
    builder->op = op;
    builder->give_count = 0;
    return op;
}

static void add_effect(struct builder *builder, int buffer)
{
    struct schedule *schedule = builder->schedule;
    if (builder_grow(builder, (void **)&schedule->effects, schedule->effect_count, &builder->effect_room,
                     sizeof *schedule->effects))
        schedule->effects[schedule->effect_count++] = buffer;
}

void builder_take(struct builder *builder, enum role role, int buffer)
{
    add_effect(builder, buffer);
    builder->op->take_count++;
    if (role < ROLES) builder->op->buffer[role] = buffer;
}

void builder_give(struct builder *builder, int buffer)
{
    if (builder_grow(builder, (void **)&builder->gives, builder->give_count, &builder->give_room,
                     sizeof *builder->gives))
        builder->gives[builder->give_count++] = buffer;
}

/* Lanes are in order, so of several dependencies on one lane only the last matters. */
void builder_depend(struct builder *builder, int on, enum why_wait why)
{
    struct op *op = builder->op;
    if (on < 0 || builder->failed || builder->schedule->ops[on].lane == op->lane) return;
    for (int d = 0; d < op->dependency_count; d++) {
        struct dependency *old = &op->dependency[d];
        if (builder->schedule->ops[old->op].lane != builder->schedule->ops[on].lane) continue;
        if (old->op < on) *old = (struct dependency){on, why};
        return;
    }
    op->dependency[op->dependency_count++] = (struct dependency){on, why};
}

void builder_piece(struct builder *builder, int unit, int64_t first, int64_t elems, int source, int destination)
{
    struct schedule *schedule = builder->schedule;
    struct op *op = builder->op;
    if (op->piece_count) { /* a neighbour below (backward fills buckets from the end) or above extends the last piece */
        struct piece *last = &schedule->pieces[schedule->piece_count - 1];
        if (last->unit == unit && last->source == source && first + elems == last->first) {
            last->first = first;
            last->elems += elems;
            return;
        }
        if (last->unit == unit && last->source == source && last->first + last->elems == first) {
            last->elems += elems;
            return;
        }
    }
    if (!builder_grow(builder, (void **)&schedule->pieces, schedule->piece_count, &builder->piece_room,
                      sizeof *schedule->pieces))
        return;
    schedule->pieces[schedule->piece_count++] = (struct piece){unit, first, elems, source, destination};
    op->piece_count++;
}

/* Of quantized arrays as many as lie in the larger buffer: of all ranks, or of those that are summed up. */
static int64_t piece_bytes(const struct schedule *schedule, const struct piece *piece)
{
    const struct buffer *from = &schedule->buffers[piece->source], *to = &schedule->buffers[piece->destination];
    const bool both = dtype_is_quantized(to->dtype) && dtype_is_quantized(from->dtype);
    if (both) return from->bytes > to->bytes ? from->bytes : to->bytes;
    if (dtype_is_quantized(to->dtype)) return to->bytes;
    return dtype_is_quantized(from->dtype) ? from->bytes : piece->elems * dtype_bytes(from->dtype);
}

/* A ring of n ranks sends (n-1)/n of the payload per rank; an all-reduce twice that. Replicas reduce the shard that they hold, ranks
 * of different nodes what belongs to their place; a sum over all ranks that each replica receives is sent to each. */
static void count_sent(const struct schedule *schedule, struct op *op)
{
    const int ranks = op_ranks(schedule, op);
    const bool whole = op->kind != OP_REDUCE_SCATTER || !schedule_quantizes_gradients(schedule);
    if (op->group == GROUP_REPLICAS) op->bytes /= schedule_shard_ranks(schedule);
    if (op->group == GROUP_ACROSS && whole) op->bytes /= schedule->node_ranks;
    op->sent_bytes = op->bytes * (ranks - 1) / ranks * (op->kind == OP_ALL_REDUCE ? 2 : op_rounds(schedule, op));
}

int builder_end(struct builder *builder)
{
    struct op *op = builder->op;
    struct schedule *schedule = builder->schedule;
    op->first_give = schedule->effect_count;
    op->give_count = builder->give_count;
    for (int g = 0; g < builder->give_count; g++) add_effect(builder, builder->gives[g]);
    for (int p = 0; p < op->piece_count && !builder->failed; p++)
        op->bytes += piece_bytes(schedule, &schedule->pieces[op->first_piece + p]);
    if (op->lane == LANE_NVME_READ || op->lane == LANE_NVME_WRITE) {
        op->sent_bytes = op->bytes;
    } else if (op->lane == LANE_D2H || op->lane == LANE_H2D) { /* what a rank owns of the pieces, once over the bus */
        if (op->piece_count) op->bytes /= schedule_shard_ranks(schedule);
        op->sent_bytes = op->bytes;
    } else if (op->kind == OP_SECONDARY) { /* what a rank keeps of it */
        op->bytes /= schedule->knobs.hpz_partition;
    } else if (op->lane == LANE_COMM) {
        count_sent(schedule, op);
    }
    builder->op = NULL;
    return builder->failed ? -1 : schedule->op_count++;
}

int builder_end_gather(struct builder *builder)
{
    const struct schedule *schedule = builder->schedule;
    const bool hops = builder->op->group != GROUP_PARTITION && schedule_gathers_in_hops(schedule);
    if (hops) builder->op->group = GROUP_ACROSS;
    else if (builder->op->group != GROUP_PARTITION) builder->op->group = schedule_shard_group(schedule);
    const int first = builder_end(builder);
    if (!hops || builder->failed) return first;
    const struct op across = schedule->ops[first];
    struct op *op = builder_begin(builder, across.kind, across.micro_step, across.unit);
    op->group = GROUP_NODE;
    op->phase = across.phase;
    op->prefetch = across.prefetch;
    op->held = across.held;
    op->droppable = across.droppable;
    for (int p = across.first_piece; p < across.first_piece + across.piece_count && !builder->failed; p++) {
        const struct piece piece = schedule->pieces[p];
        builder_piece(builder, piece.unit, piece.first, piece.elems, piece.destination, piece.destination);
    }
    return builder_end(builder);
}

bool op_takes(const struct schedule *schedule, const struct op *op, int buffer)
{
    for (int t = 0; t < op->take_count; t++)
        if (schedule->effects[op->first_take + t] == buffer) return true;
    return false;
}

bool op_is_followed(const struct op *op)
{
    return op->bytes > 0 || (op->unit >= 0 && op->phase != PHASE_OPTIMIZER);
}

int schedule_agreement(const struct schedule *schedule)
{
    for (int i = schedule->op_count - 1; i >= 0; i--)
        if (schedule->ops[i].kind == OP_AGREE) return i;
    return schedule->op_count;
}

/* ---- the end ---- */

static int refuse_length(const struct builder *builder, struct error *err)
{
    const struct config_zero *knobs = builder->input->knobs;
    const int64_t tile = knobs->update_tile_elems, group = knobs->sub_group_elems;
    if (builder->input->micro_steps > 1)
        return error_set(err, STATUS_USAGE,
                         "gradient_accumulation_steps = %d: a step of so many micro-steps over %d units is more than %d "
                         "operations; lower it",
                         builder->input->micro_steps, builder->model->unit_count, SCHEDULE_OPS_MAX);
    return error_set(err, STATUS_USAGE, "%s = %lld: a step with updates of so few elements is more than %d operations; raise it",
                     tile < group ? "schedule.update_tile" : "zero_optimization.sub_group_size",
                     (long long)(tile < group ? tile : group), SCHEDULE_OPS_MAX);
}

int builder_finish(struct builder *builder, struct error *err)
{
    free(builder->gives);
    if (!builder->failed) {
        placement_order(builder);
        placement_of_all(builder);
    }
    if (!builder->failed) return STATUS_OK;
    schedule_release(builder->schedule);
    return builder->too_long ? refuse_length(builder, err) : error_set(err, STATUS_RUN, "no memory to build a schedule");
}

void schedule_release(struct schedule *schedule)
{
    free(schedule->buffers);
    free(schedule->ops);
    free(schedule->pieces);
    free(schedule->effects);
    free(schedule->layout);
    for (int i = 0; schedule->names && i < schedule->op_count; i++) free(schedule->names[i]);
    free(schedule->names);
    *schedule = (struct schedule){0};
}
