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

/* One operation, or at stage 3 one for every sub_group_size elements of the shard. */
static void write_update(struct planner *planner, int u)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[u];
    const struct schedule *schedule = builder->schedule;
    for (int tile = 0, tiles = 1; tile < tiles && !builder->failed; tile++) {
        struct op *op = builder_begin(builder, OP_UPDATE, -1, u);
        op->in_tail = true;
        op->buffer[ROLE_PARAMETERS] = layout->parameters;
        op->buffer[ROLE_GRADIENT] = layout->gradient;
        op->buffer[ROLE_MASTER] = layout->master;
        op->buffer[ROLE_STATE1] = layout->state[0];
        op->buffer[ROLE_STATE2] = layout->state[1];
        op->extent = schedule->stage >= 1 ? EXTENT_SHARD : EXTENT_WHOLE;
        op->tile = tile;
        tiles = update_tiles(schedule, builder->model, op);
        builder_depend(builder, u == 0 || !schedule->knobs.overlap_comm ? planner->last_comm : -1, WAIT_DATA);
        planner->last_compute = builder_end(builder);
    }
}

static void write_updates(struct planner *planner, bool refresh)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const int64_t bucket = builder->schedule->knobs.allgather_bucket_elems;
    int64_t waiting = 0, at = 0; /* updated elements that no refresh has taken yet; place in the first of them */
    int unit = 0;
    for (int u = 0; u < model->unit_count && !builder->failed; u++) {
        write_update(planner, u);
        if (!refresh) continue;
        waiting += shard_elems(model->units[u].elems, builder->schedule->ranks) * builder->schedule->ranks;
        while (waiting >= bucket || (waiting > 0 && u == model->unit_count - 1)) {
            write_refresh_bucket(planner, &unit, &at, u, planner->last_compute);
            waiting -= waiting < bucket ? waiting : bucket;
        }
    }
}

/* Stage 3: the small tensors that stay gathered, in one call. */
static void write_tail_refresh(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    bool any = false;
    for (int u = 0; u < builder->model->unit_count; u++) any |= builder->layout[u].tail >= 0;
    if (!any) return;
    builder_begin(builder, OP_REFRESH, -1, -1)->in_tail = true;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++) {
        if (builder->layout[u].tail < 0) continue;
        int64_t first, end;
        buffer_range(schedule, builder->model, &schedule->buffers[builder->layout[u].tail], 0, &first, &end);
        builder_piece(builder, u, first, end - first, builder->layout[u].parameters, builder->layout[u].tail);
    }
    builder_depend(builder, planner->last_compute, WAIT_DATA);
    planner->last_comm = builder_end(builder);
}

/* All-reduced in another type than they are kept in: back to their lasting place. */
static void bring_back(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++) {
        const int lasting = builder->layout[u].gradient;
        if (planner->unit_gradient[u] == lasting) continue;
        planner_cast(planner, -1, u, planner->unit_gradient[u], lasting, false, planner->last_comm);
    }
}

static void write_training_tail(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const int stage = builder->schedule->stage;
    if (stage == 0) bring_back(planner);
    builder_begin(builder, OP_GRAD_NORM, -1, -1);
    builder_depend(builder, planner->last_comm, WAIT_DATA);
    planner->last_compute = builder_end(builder);
    builder_begin(builder, OP_AGREE, -1, -1);
    builder_depend(builder, planner->last_compute, WAIT_DATA);
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
