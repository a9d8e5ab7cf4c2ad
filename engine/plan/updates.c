/* Writes the updates, and the copies of updated parameters: to the device after host updates, to the host where parameters are kept
 * there, and to all ranks that hold them whole or in part (refresh).
 *
 * A delayed update (ZeRO-Offload, section 5.2) stands at both ends of a step. At its beginning the host begins to update with
 * the gradients of the step before, which lie in the host tier, beside forward and backward; at its end, when nobody uses the
 * old parameters any more, the new ones are made of the master weights and go where they are needed. Gradients need no second
 * buffer for that: units are updated in the order in which backward makes their gradients anew, and a gradient arrives when
 * the update of its unit is done with the old one. */
#include "engine/plan/planner.h"
#include "engine/plan/stage_rules.h"

/* Parameters are in another tier than what they are updated from: they cross the bus in tiles, each while the next is computed. */
static bool parameters_travel(const struct builder *builder, const struct unit_layout *layout)
{
    const struct buffer *buffers = builder->schedule->buffers;
    return !builder->failed && buffers[layout->parameters].tier != buffers[layout->master].tier;
}

static bool travels_from_master(const struct builder *builder, const struct unit_layout *layout)
{
    return parameters_travel(builder, layout) && builder->model->dtype == DTYPE_F32;
}

struct op *planner_begin_tile(struct planner *planner, enum op_kind kind, int u, int tile)
{
    const struct unit_layout *layout = &planner->builder.layout[u];
    struct op *op = builder_begin(&planner->builder, kind, -1, u);
    op->droppable = !planner->updates.delayed;
    op->phase = PHASE_OPTIMIZER;
    op->extent = stage_rules(planner->builder.schedule->stage)->optimizer;
    op->tile = tile;
    if (!op_is_update(kind)) return op;
    op->buffer[ROLE_GRADIENT] = layout->gradient;
    op->buffer[ROLE_MASTER] = layout->master;
    op->buffer[ROLE_STATE1] = layout->state[0];
    op->buffer[ROLE_STATE2] = layout->state[1];
    return op;
}

void planner_updated(struct planner *planner, int op)
{
    if (op >= 0) planner->updates.in_place[planner->builder.schedule->ops[op].lane] = op;
}

void planner_depend_on_updates(struct planner *planner)
{
    for (int lane = 0; lane < LANES; lane++)
        builder_depend(&planner->builder, planner->updates.in_place[lane], WAIT_DATA);
}

/* ---- across the bus ---- */

static int write_copy(struct planner *planner, enum op_kind kind, int u, int tile, int source, int after)
{
    struct builder *builder = &planner->builder;
    struct op *op = planner_begin_tile(planner, kind, u, tile);
    op->buffer[ROLE_SOURCE] = source;
    op->buffer[ROLE_OUTPUT] = builder->layout[u].parameters;
    op->bytes = planner_tile_bytes(planner, op);
    if (!builder->failed && !builder->schedule->buffers[source].lasting) builder_give(builder, source);
    builder_depend(builder, after, WAIT_DATA);
    const int copy = builder_end(builder);
    planner_updated(planner, copy);
    return copy;
}

/* The tile that was made last. */
static void write_travel(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    if (planner->updates.travel_from < 0 || builder->failed) return;
    const struct op made = builder->schedule->ops[planner->updates.travel_from];
    write_copy(planner, made.lane == LANE_HOST ? OP_UPLOAD : OP_STORE, made.unit, made.tile,
               made.buffer[ROLE_PARAMETERS], planner->updates.travel_from);
    planner->updates.travel_from = -1;
}

/* Where an operation puts parameters in the model's type: in their place, or, if they lie in another tier, in a buffer of the
 * step from which they travel. In fp32 they travel from the master itself. */
static void take_parameters(struct planner *planner, struct op *op)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[op->unit];
    const bool host = op->lane == LANE_HOST;
    op->buffer[ROLE_PARAMETERS] = travels_from_master(builder, layout) ? layout->master : layout->parameters;
    if (!parameters_travel(builder, layout) || travels_from_master(builder, layout)) return;
    builder_take(builder, ROLE_PARAMETERS,
                 builder_bytes_in(builder, host ? TIER_HOST : TIER_DEVICE, "updated parameters",
                                  host ? CATEGORY_STAGING : CATEGORY_BUCKETS, planner_tile_bytes(planner, op)));
}

/* A tile has been made: the one before it travels meanwhile. */
static void made_tile(struct planner *planner, int u, int op)
{
    write_travel(planner);
    if (parameters_travel(&planner->builder, &planner->builder.layout[u])) planner->updates.travel_from = op;
    else planner_updated(planner, op);
}

/* ---- updates ---- */

static int tiles_of(const struct planner *planner, const struct op *op)
{
    return update_tiles(planner->builder.schedule, planner->builder.model, op);
}

static void write_update(struct planner *planner, int u)
{
    struct builder *builder = &planner->builder;
    const bool host = builder_tier(builder, builder->layout[u].master) == TIER_HOST,
               overlap = builder->schedule->knobs.overlap_comm;
    bool *begun = &planner->updates.begun[host];
    for (int tile = 0, tiles = 1; tile < tiles && !builder->failed; tile++) {
        struct op *op = planner_begin_tile(planner, host ? OP_HOST_UPDATE : OP_UPDATE, u, tile);
        tiles = tiles_of(planner, op);
        take_parameters(planner, op);
        builder_depend(builder, !*begun || !overlap ? planner->last_comm : -1, WAIT_DATA);
        const int update = builder_end(builder);
        *begun = true;
        if (!host) planner->last_compute = update;
        made_tile(planner, u, update);
    }
}

/* States in host memory are updated from the beginning on, those on NVMe bit by bit. */
void updates_pending(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    if (!planner->updates.delayed || builder->schedule->nothing_pending) return;
    if (states_swap(planner)) {
        swapped_updates_pending(planner, at);
        return;
    }
    for (int u = at == 0 ? builder->model->unit_count - 1 : -1; u >= 0; u--)
        for (int tile = 0, tiles = 1; tile < tiles && !builder->failed; tile++) {
            struct op *op = planner_begin_tile(planner, OP_HOST_UPDATE, u, tile);
            tiles = tiles_of(planner, op);
            op->buffer[ROLE_PARAMETERS] = builder->layout[u].master; /* all that is written yet */
            planner->updates.pending_last[u] = builder_end(builder);
        }
}

/* What a pending update has made goes where it is used. */
static void write_renewal(struct planner *planner, int u)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[u];
    for (int tile = 0, tiles = 1; tile < tiles && !builder->failed; tile++) {
        if (travels_from_master(builder, layout)) {
            const int copy = write_copy(planner, OP_UPLOAD, u, tile, layout->master, planner->last_comm);
            if (copy >= 0) tiles = tiles_of(planner, &builder->schedule->ops[copy]);
            continue;
        }
        struct op *op = planner_begin_tile(planner, OP_HOST_CAST, u, tile);
        tiles = tiles_of(planner, op);
        op->buffer[ROLE_SOURCE] = layout->master;
        take_parameters(planner, op);
        builder_depend(builder, planner->last_comm, WAIT_DATA);
        made_tile(planner, u, builder_end(builder));
    }
}

/* ---- to all ranks ---- */

/* Stages 1 and 2: updated parameters are gathered in pieces of allgather_bucket_size elements, cut anywhere. */
static void write_refresh_bucket(struct planner *planner, int *unit, int64_t *at, int updated_unit)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    int64_t room = schedule->knobs.allgather_bucket_elems;
    builder_begin(builder, OP_REFRESH, -1, -1)->droppable = !planner->updates.delayed;
    while (*unit <= updated_unit && room > 0) {
        const int64_t padded = schedule_padded_elems(schedule, builder->model, *unit);
        int64_t elems = padded - *at < room ? padded - *at : room;
        builder_piece(builder, *unit, *at, elems, builder->layout[*unit].parameters, builder->layout[*unit].parameters);
        room -= elems;
        *at += elems;
        if (*at == padded) ++*unit, *at = 0;
    }
    planner_depend_on_updates(planner);
    planner->last_comm = builder_end_gather(builder);
}

/* Refreshes follow the updates of whole buckets. The last tile of a unit is on its way while the next unit is updated, so
 * that unit counts one later. */
void updates_write(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const bool refresh = stage_refreshes(stage_rules(builder->schedule->stage));
    const int64_t bucket = builder->schedule->knobs.allgather_bucket_elems;
    int64_t waiting = 0, at = 0; /* updated elements that no refresh has taken yet; place in the first of them */
    int unit = 0, ready = 0;
    for (int u = 0; u < model->unit_count && !builder->failed; u++) {
        const bool last = u == model->unit_count - 1;
        if (planner->updates.delayed) write_renewal(planner, u);
        else write_update(planner, u);
        if (last) write_travel(planner);
        if (!refresh) continue;
        for (const int until = planner->updates.travel_from >= 0 ? u : u + 1; ready < until; ready++)
            waiting += schedule_padded_elems(builder->schedule, model, ready);
        while (waiting >= bucket || (waiting > 0 && last)) {
            write_refresh_bucket(planner, &unit, &at, ready - 1);
            waiting -= waiting < bucket ? waiting : bucket;
        }
    }
}
