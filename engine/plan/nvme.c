/* Updates of what lies on NVMe (ZeRO-Infinity, section 6.2): tile by tile, each read into host memory, updated there, and written
 * back. With pipeline_read the next tile is read, and with pipeline_write the one before is written, while one is updated:
 *
 *     nvread    | read 0 | read 1  | read 2  | read 3  |
 *     host               | update 0| update 1| update 2|
 *     nvwrite                      | write 0 | write 1 |
 *
 * so memory for one, two or three tiles is taken, and the order of takes and gives below is what keeps it at that. Where only
 * parameters lie on NVMe there is nothing to read, and writing is always one tile behind. */
#include "engine/plan/planner.h"

enum { SWAPPED = 3 };
static const enum role swapped[SWAPPED] = {ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};

struct tile {
    int unit, number;
    int staging[SWAPPED];    /* what was read; -1: lies in memory, or is not kept */
    int parameters;          /* updated ones on their way to another tier; -1: they are in their place */
    int read, update, moved; /* operations; `moved`: after which parameters can be written, or are in their place */
};

static enum tier tier_of(const struct planner *planner, int unit, enum role role)
{
    return builder_tier(&planner->builder, layout_array(&planner->builder.layout[unit], role));
}

static bool states_swap(const struct planner *planner)
{
    return planner->builder.schedule->knobs.offload_optimizer == OFFLOAD_NVME;
}

bool updates_swap(const struct planner *planner)
{
    bool any = states_swap(planner) && planner->builder.schedule->stage == 3;
    for (int u = 0; u < planner->builder.model->unit_count; u++)
        any |= tier_of(planner, u, ROLE_PARAMETERS) == TIER_NVME;
    return any;
}

static bool updated_on_host(const struct planner *planner)
{
    return planner->builder.schedule->knobs.offload_optimizer != OFFLOAD_NONE;
}

/* ---- tiles ---- */

static struct tile tile_of(int unit, int number)
{
    return (struct tile){unit, number, {-1, -1, -1}, -1, -1, -1, -1};
}

static bool next_tile(const struct planner *planner, const struct tile *tile, struct tile *next)
{
    const struct builder *builder = &planner->builder;
    const enum op_kind kind = updated_on_host(planner) ? OP_HOST_UPDATE : OP_UPDATE;
    const struct op update = {.kind = kind, .unit = tile->unit, .extent = EXTENT_SHARD};
    const bool last = tile->number + 1 >= update_tiles(builder->schedule, builder->model, &update);
    *next = tile_of(last ? tile->unit + 1 : tile->unit, last ? 0 : tile->number + 1);
    return next->unit < builder->model->unit_count && !builder->failed;
}

static struct op *begin(struct planner *planner, enum op_kind kind, const struct tile *tile)
{
    struct op *op = builder_begin(&planner->builder, kind, -1, tile->unit);
    op->in_tail = true;
    op->phase = PHASE_OPTIMIZER;
    op->extent = EXTENT_SHARD;
    op->tile = tile->number;
    return op;
}

static int64_t elems_of(const struct planner *planner, const struct op *op)
{
    int64_t first, end;
    update_range(planner->builder.schedule, planner->builder.model, op, 0, &first, &end);
    return end - first;
}

/* ---- read ---- */

static int64_t bytes_of(const struct planner *planner, int buffer)
{
    return planner->builder.failed ? 0 : planner->builder.schedule->buffers[buffer].bytes;
}

static void read_tile(struct planner *planner, struct tile *tile, int after)
{
    struct builder *builder = &planner->builder;
    if (!states_swap(planner)) return;
    struct op *op = begin(planner, OP_SWAP_IN, tile);
    for (int s = 0; s < SWAPPED; s++) {
        if (tier_of(planner, tile->unit, swapped[s]) != TIER_NVME) continue;
        tile->staging[s] = builder_staging(builder, "states from NVMe", elems_of(planner, op) * dtype_bytes(DTYPE_F32));
        builder_take(builder, swapped[s], tile->staging[s]);
        op->bytes += bytes_of(planner, tile->staging[s]);
    }
    builder_depend(builder, planner->last_comm, WAIT_DATA);
    builder_depend(builder, after, WAIT_LIMIT);
    tile->read = builder_end(builder);
}

int shard_swap_in(struct planner *planner, int unit, int after)
{
    struct builder *builder = &planner->builder;
    const struct tile whole = tile_of(unit, 0);
    struct op *op = begin(planner, OP_SWAP_IN, &whole);
    const int shard = builder_unit_staging(builder, "shard from NVMe", builder->model->dtype, unit);
    op->buffer[ROLE_SOURCE] = builder->layout[unit].parameters;
    builder_take(builder, ROLE_OUTPUT, shard);
    op->bytes = bytes_of(planner, shard);
    builder_depend(builder, after, WAIT_DATA);
    builder_end(builder);
    return shard;
}

/* ---- update ---- */

/* Where the update puts parameters in the model's type: in their place if that is beside it; else where they can travel from. In
 * fp32 they are the master weights. */
static void place_parameters(struct planner *planner, struct op *op, struct tile *tile)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[tile->unit];
    const bool host = updated_on_host(planner);
    const enum tier here = host ? TIER_HOST : TIER_DEVICE, there = tier_of(planner, tile->unit, ROLE_PARAMETERS);
    const int64_t bytes = elems_of(planner, op) * dtype_bytes(builder->model->dtype);
    op->buffer[ROLE_PARAMETERS] = layout->parameters;
    if (there == here) return;
    op->buffer[ROLE_PARAMETERS] = op->buffer[ROLE_MASTER];
    if (layout->parameters == layout->master) return; /* written back with the states */
    const bool written_from_here = host && there == TIER_NVME;
    if (builder->model->dtype == DTYPE_F32 && !written_from_here) return; /* travel from the master itself */
    tile->parameters = host ? builder_staging(builder, "updated parameters", bytes)
                            : builder_bytes(builder, "updated parameters", CATEGORY_BUCKETS, bytes);
    builder_take(builder, ROLE_PARAMETERS, tile->parameters);
}

static void update_tile(struct planner *planner, struct tile *tile, int written)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[tile->unit];
    struct op *op = begin(planner, updated_on_host(planner) ? OP_HOST_UPDATE : OP_UPDATE, tile);
    op->buffer[ROLE_GRADIENT] = layout->gradient;
    for (int s = 0; s < SWAPPED; s++)
        op->buffer[swapped[s]] = tile->staging[s] >= 0 ? tile->staging[s] : layout_array(layout, swapped[s]);
    place_parameters(planner, op, tile);
    builder_depend(builder, planner->last_comm, WAIT_DATA);
    builder_depend(builder, tile->read, WAIT_DATA);
    builder_depend(builder, written, WAIT_LIMIT);
    tile->update = tile->moved = builder_end(builder);
    if (!updated_on_host(planner)) planner->last_compute = tile->update;
}

/* ---- and back ---- */

/* Over the bus, up to the device or down to host memory: there to their place, or to where they are written from. */
static void move_parameters(struct planner *planner, struct tile *tile)
{
    struct builder *builder = &planner->builder;
    const enum tier there = tier_of(planner, tile->unit, ROLE_PARAMETERS);
    const bool host = updated_on_host(planner);
    if (builder->failed || (host && there != TIER_DEVICE) || (!host && there == TIER_DEVICE)) return;
    const int from = builder->schedule->ops[tile->update].buffer[ROLE_PARAMETERS];
    struct op *op = begin(planner, host ? OP_UPLOAD : OP_STORE, tile);
    op->buffer[ROLE_SOURCE] = from;
    op->buffer[ROLE_OUTPUT] = builder->layout[tile->unit].parameters;
    op->bytes = elems_of(planner, op) * dtype_bytes(builder->model->dtype);
    if (tile->parameters >= 0) builder_give(builder, tile->parameters);
    tile->parameters = -1;
    if (there == TIER_NVME) {
        tile->parameters = builder_staging(builder, "parameters to write", op->bytes);
        builder_take(builder, ROLE_OUTPUT, tile->parameters);
    }
    builder_depend(builder, tile->update, WAIT_DATA);
    tile->moved = builder_end(builder);
}

/* Returns the operation that wrote it, or -1: nothing of it lies on NVMe. */
static int write_tile(struct planner *planner, struct tile *tile)
{
    struct builder *builder = &planner->builder;
    move_parameters(planner, tile);
    planner->updated = tile->moved;
    if (tile->parameters < 0 && tile->read < 0) return -1;
    struct op *op = begin(planner, OP_SWAP_OUT, tile);
    for (int s = 0; s <= SWAPPED; s++) {
        const int b = s < SWAPPED ? tile->staging[s] : tile->parameters;
        if (b < 0) continue;
        op->buffer[s < SWAPPED ? swapped[s] : ROLE_PARAMETERS] = b;
        op->bytes += bytes_of(planner, b);
        builder_give(builder, b);
    }
    builder_depend(builder, tile->update, WAIT_DATA);
    builder_depend(builder, tile->moved, WAIT_DATA); /* what travelled from the master has left it */
    return planner->updated = builder_end(builder);
}

void swapped_updates_write(struct planner *planner)
{
    const struct config_zero *knobs = &planner->builder.schedule->knobs;
    const bool ahead = states_swap(planner) && knobs->pipeline_read,
               behind = !states_swap(planner) || knobs->pipeline_write;
    struct tile now = tile_of(0, 0), next, before = tile_of(0, -1);
    int written = -1;
    bool more = true;
    if (ahead) read_tile(planner, &now, -1);
    while (more) {
        more = next_tile(planner, &now, &next);
        if (!ahead) read_tile(planner, &now, before.update);
        else if (more) read_tile(planner, &next, -1);
        update_tile(planner, &now, behind ? -1 : written);
        if (!behind) written = write_tile(planner, &now);
        else if (before.update >= 0) write_tile(planner, &before);
        before = now;
        now = next;
    }
    if (behind) write_tile(planner, &before);
}
