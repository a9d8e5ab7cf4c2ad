/* What follows the last backward of a step: gradient norm, agreement of all ranks, updates, and the gathers that bring
 * updated parameters to everyone. */
#include "engine/plan/planner.h"

/* Stages 1 and 2: updated parameters are gathered in pieces of allgather_bucket_size elements, cut anywhere. */
static void write_refresh_bucket(struct planner *planner, int *unit, int64_t *at, int updated_unit, int update_op)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    int64_t room = schedule->knobs.allgather_bucket_elems;
    builder_begin(builder, OP_REFRESH, -1, -1)->in_tail = true;
    while (*unit <= updated_unit && room > 0) {
        int64_t padded = shard_elems(builder->model->units[*unit].elems, schedule->ranks) * schedule->ranks;
        int64_t elems = padded - *at < room ? padded - *at : room;
        builder_piece(builder, *unit, *at, elems, builder->layout[*unit].parameters, builder->layout[*unit].parameters);
        room -= elems;
        *at += elems;
        if (*at == padded) ++*unit, *at = 0;
    }
    builder_depend(builder, update_op, WAIT_DATA);
    planner->last_comm = builder_end(builder);
}

/* ---- updates, and the way back of what they give ---- */

/* Parameters are in another tier than what they are updated from: they cross the bus in tiles, each while the next is computed. */
static bool parameters_travel(const struct builder *builder, const struct unit_layout *layout)
{
    const struct buffer *buffers = builder->schedule->buffers;
    return !builder->failed && buffers[layout->parameters].tier != buffers[layout->master].tier;
}

static void write_travel(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    if (planner->travel_from < 0 || builder->failed) return;
    const struct op update = builder->schedule->ops[planner->travel_from];
    const int source = update.buffer[ROLE_PARAMETERS], destination = builder->layout[update.unit].parameters;
    struct op *op = builder_begin(builder, update.kind == OP_HOST_UPDATE ? OP_UPLOAD : OP_STORE, -1, update.unit);
    int64_t first, end;
    op->in_tail = true;
    op->extent = update.extent;
    op->tile = update.tile;
    op->buffer[ROLE_SOURCE] = source;
    op->buffer[ROLE_OUTPUT] = destination;
    update_range(builder->schedule, builder->model, op, 0, &first, &end);
    op->bytes = (end - first) * dtype_bytes(builder->model->dtype);
    if (!builder->schedule->buffers[source].lasting) builder_give(builder, source);
    builder_depend(builder, planner->travel_from, WAIT_DATA);
    planner->travel_from = -1;
    planner->updated = builder_end(builder);
}

/* Where an update puts parameters in the model's type: in their place, or, if they lie in another tier, in a buffer of the
 * step from which they travel. In fp32 they travel from the master itself. */
static void take_parameters(struct planner *planner, struct op *op, const struct unit_layout *layout)
{
    struct builder *builder = &planner->builder;
    int64_t first, end;
    op->buffer[ROLE_PARAMETERS] = layout->parameters;
    if (!parameters_travel(builder, layout)) return;
    op->buffer[ROLE_PARAMETERS] = layout->master;
    if (builder->model->dtype == DTYPE_F32) return;
    const bool host = op->kind == OP_HOST_UPDATE;
    update_range(builder->schedule, builder->model, op, 0, &first, &end);
    builder_take(builder, ROLE_PARAMETERS,
                 builder_bytes_in(builder, host ? TIER_HOST : TIER_DEVICE, "updated parameters",
                                  host ? CATEGORY_STAGING : CATEGORY_BUCKETS,
                                  (end - first) * dtype_bytes(builder->model->dtype)));
}

/* One operation for every tile of what the rank updates of a unit. */
static void write_update(struct planner *planner, int u, bool first_of_lane)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[u];
    const struct schedule *schedule = builder->schedule;
    const bool host = !builder->failed && schedule->buffers[layout->master].tier == TIER_HOST;
    for (int tile = 0, tiles = 1; tile < tiles && !builder->failed; tile++) {
        struct op *op = builder_begin(builder, host ? OP_HOST_UPDATE : OP_UPDATE, -1, u);
        op->in_tail = true;
        op->buffer[ROLE_GRADIENT] = layout->gradient;
        op->buffer[ROLE_MASTER] = layout->master;
        op->buffer[ROLE_STATE1] = layout->state[0];
        op->buffer[ROLE_STATE2] = layout->state[1];
        op->extent = schedule->stage >= 1 ? EXTENT_SHARD : EXTENT_WHOLE;
        op->tile = tile;
        tiles = update_tiles(schedule, builder->model, op);
        take_parameters(planner, op, layout);
        builder_depend(builder, first_of_lane || !schedule->knobs.overlap_comm ? planner->last_comm : -1, WAIT_DATA);
        const int update = builder_end(builder);
        if (!host) planner->last_compute = update;
        write_travel(planner); /* the tile before */
        if (parameters_travel(builder, layout)) planner->travel_from = update;
        else planner->updated = update;
    }
}

/* Refreshes follow the updates of whole buckets. The last tile of a unit is on its way while the next unit is updated, so
 * that unit counts one later. */
static void write_updates(struct planner *planner, bool refresh)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const int64_t bucket = builder->schedule->knobs.allgather_bucket_elems;
    int64_t waiting = 0, at = 0; /* updated elements that no refresh has taken yet; place in the first of them */
    int unit = 0, ready = 0;
    for (int u = 0; u < model->unit_count && !builder->failed; u++) {
        const bool last = u == model->unit_count - 1;
        write_update(planner, u, u == 0);
        if (last) write_travel(planner);
        if (!refresh) continue;
        for (const int until = planner->travel_from >= 0 ? u : u + 1; ready < until; ready++)
            waiting += shard_elems(model->units[ready].elems, builder->schedule->ranks) * builder->schedule->ranks;
        while (waiting >= bucket || (waiting > 0 && last)) {
            write_refresh_bucket(planner, &unit, &at, ready - 1, planner->updated);
            waiting -= waiting < bucket ? waiting : bucket;
        }
    }
}

/* ---- the small tensors that stay gathered, stage 3 ---- */

static void add_tail(struct planner *planner, int u, int source)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    const int tail = builder->layout[u].tail;
    int64_t first, end;
    if (builder->failed) return;
    buffer_range(schedule, builder->model, &schedule->buffers[tail], 0, &first, &end);
    builder_piece(builder, u, first, end - first, source, tail);
}

/* From shards in the host tier, unit by unit, so that no more than one shard is on the device. */
static void write_tail_refresh_from_host(struct planner *planner, int u)
{
    struct builder *builder = &planner->builder;
    const int from = builder->layout[u].parameters;
    int64_t first, end;
    struct op *op = builder_begin(builder, OP_BRING, -1, u);
    op->in_tail = true;
    op->phase = PHASE_OPTIMIZER;
    op->buffer[ROLE_SOURCE] = from;
    const int shard =
        builder_unit_buffer(builder, "shard", CATEGORY_BUCKETS, EXTENT_SHARD, builder->model->dtype, u, false);
    builder_take(builder, ROLE_OUTPUT, shard);
    if (!builder->failed) {
        buffer_range(builder->schedule, builder->model, &builder->schedule->buffers[builder->layout[u].tail], 0, &first,
                     &end);
        builder_piece(builder, u, first, end - first, from, shard);
    }
    builder_depend(builder, planner->updated, WAIT_DATA);
    const int brought = builder_end(builder);
    builder_begin(builder, OP_REFRESH, -1, -1)->in_tail = true;
    add_tail(planner, u, shard);
    builder_give(builder, shard);
    builder_depend(builder, brought, WAIT_DATA);
    planner->last_comm = builder_end(builder);
}

/* From shards on the device, in one call. */
static void write_tail_refresh(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const bool from_host = layout_parameters_tier(&builder->schedule->knobs) == TIER_HOST;
    bool any = false;
    for (int u = 0; u < builder->model->unit_count; u++) {
        any |= builder->layout[u].tail >= 0;
        if (from_host && builder->layout[u].tail >= 0) write_tail_refresh_from_host(planner, u);
    }
    if (!any || from_host) return;
    builder_begin(builder, OP_REFRESH, -1, -1)->in_tail = true;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++)
        if (builder->layout[u].tail >= 0) add_tail(planner, u, builder->layout[u].parameters);
    builder_depend(builder, planner->updated, WAIT_DATA);
    planner->last_comm = builder_end(builder);
}

/* All-reduced in another type than they are kept in: back to their lasting place. */
static void bring_back(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++) {
        const int lasting = builder->layout[u].whole;
        if (planner->unit_gradient[u] == lasting) continue;
        planner_cast(planner, -1, u, planner->unit_gradient[u], lasting, false, planner->last_comm);
    }
}

/* Where the gradients lie. */
static void write_norm(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    if (layout_optimizer_tier(&builder->schedule->knobs) == TIER_HOST) {
        builder_begin(builder, OP_HOST_NORM, -1, -1);
        builder_depend(builder, planner->last_d2h, WAIT_DATA);
        planner->host_norm = builder_end(builder);
        return;
    }
    builder_begin(builder, OP_GRAD_NORM, -1, -1);
    builder_depend(builder, planner->last_comm, WAIT_DATA);
    planner->last_compute = builder_end(builder);
}

static void write_training_tail(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const int stage = builder->schedule->stage;
    if (stage == 0) bring_back(planner);
    write_norm(planner);
    builder_begin(builder, OP_AGREE, -1, -1);
    builder_depend(builder, planner->last_compute, WAIT_DATA);
    builder_depend(builder, planner->host_norm, WAIT_DATA);
    planner->last_comm = builder_end(builder);
    write_updates(planner, stage == 1 || stage == 2);
    if (stage == 3) write_tail_refresh(planner);
}

/* Losses (or the fact that a rank could not go on) are exchanged at the end of every step of any purpose. */
static void write_agreement(struct planner *planner)
{
    builder_begin(&planner->builder, OP_AGREE, -1, -1);
    builder_depend(&planner->builder, planner->last_compute, WAIT_DATA);
    planner->last_comm = builder_end(&planner->builder);
}

void tail_write(struct planner *planner)
{
    if (planner->training) write_training_tail(planner);
    else write_agreement(planner);
}
