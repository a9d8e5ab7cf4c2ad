/* What of an update lies on NVMe (ZeRO-Infinity, section 6.2): tile by tile, each read into host memory, worked on there, and
 * written back. With pipeline_read the next tile is read, and with pipeline_write the one before is written, while one is updated:
 *
 *     nvread    | read 0 | read 1  | read 2  | read 3  |
 *     host               | update 0| update 1| update 2|
 *     nvwrite                      | write 0 | write 1 |
 *
 * so memory for one, two or three tiles is taken, and the order of takes and gives below is what keeps it at that. Where only
 * parameters lie on NVMe there is nothing to read, and writing is always one tile behind. Units whose states stay on the device
 * (`ratio`) are updated there, in the same order.
 *
 * A delayed update passes over the tiles twice. While the next step computes, states are read, updated and written: not all at
 * once, but a part of them with every use of a unit, since parameters come over the same lane. At that step's end master
 * weights are read once more, and parameters are made of them. To keep these in a second place instead would be to write and
 * read them, which is as many bytes. */
#include "engine/plan/planner.h"

static const enum role swapped[TILE_ROLES] = {ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};

static enum tier tier_of(const struct planner *planner, int unit, enum role role)
{
    return builder_tier(&planner->builder, layout_array(&planner->builder.layout[unit], role));
}

static enum tier updated_in(const struct planner *planner, int unit)
{
    return layout_optimizer_tier(planner->builder.schedule, planner->builder.model, unit);
}

static bool updated_on_host(const struct planner *planner, int unit)
{
    return updated_in(planner, unit) != TIER_DEVICE;
}

bool states_swap(const struct planner *planner)
{
    return planner->builder.schedule->knobs.offload_optimizer == OFFLOAD_NVME;
}

bool updates_swap(const struct planner *planner)
{
    bool any = states_swap(planner);
    for (int u = 0; u < planner->builder.model->unit_count; u++)
        any |= tier_of(planner, u, ROLE_PARAMETERS) == TIER_NVME;
    return any;
}

/* ---- tiles ---- */

static struct tile tile_of(int unit, int number)
{
    return (struct tile){unit, number, {-1, -1, -1}, -1, -1, -1, -1};
}

/* Pending updates go from the last unit to the first, as backward makes gradients anew. */
static bool next_tile(const struct planner *planner, enum pass pass, const struct tile *tile, struct tile *next)
{
    const struct builder *builder = &planner->builder;
    const enum op_kind kind = updated_on_host(planner, tile->unit) ? OP_HOST_UPDATE : OP_UPDATE;
    const struct op update = {.kind = kind, .unit = tile->unit, .extent = EXTENT_SHARD};
    const bool last = tile->number + 1 >= update_tiles(builder->schedule, builder->model, &update);
    const int unit_after = pass == PASS_PENDING ? tile->unit - 1 : tile->unit + 1;
    *next = tile_of(last ? unit_after : tile->unit, last ? 0 : tile->number + 1);
    return next->unit >= 0 && next->unit < builder->model->unit_count && !builder->failed;
}

static int64_t elems_of(const struct planner *planner, const struct op *op)
{
    int64_t first, end;
    update_range(planner->builder.schedule, planner->builder.model, op, 0, &first, &end);
    return end - first;
}

int64_t planner_tile_bytes(const struct planner *planner, const struct op *op)
{
    return elems_of(planner, op) * dtype_bytes(planner->builder.model->dtype);
}

/* What a pass begins with must be there: not so while the step computes, when gradients and states are those of the last. */
static void depend_on_agreement(struct planner *planner, enum pass pass)
{
    if (pass != PASS_PENDING) builder_depend(&planner->builder, planner->last_comm, WAIT_DATA);
}

/* ---- read ---- */

static int64_t bytes_of(const struct planner *planner, int buffer)
{
    return planner->builder.failed ? 0 : planner->builder.schedule->buffers[buffer].bytes;
}

/* To make parameters anew takes the master weights alone. */
static void read_tile(struct planner *planner, enum pass pass, struct tile *tile, int after)
{
    struct builder *builder = &planner->builder;
    if (updated_in(planner, tile->unit) != TIER_NVME) return;
    struct op *op = planner_begin_tile(planner, OP_SWAP_IN, tile->unit, tile->number);
    for (int s = 0; s < (pass == PASS_RENEW ? 1 : TILE_ROLES); s++) {
        if (tier_of(planner, tile->unit, swapped[s]) != TIER_NVME) continue;
        tile->staging[s] = builder_staging(builder, "states from NVMe", elems_of(planner, op) * dtype_bytes(DTYPE_F32));
        builder_take(builder, swapped[s], tile->staging[s]);
        op->bytes += bytes_of(planner, tile->staging[s]);
    }
    depend_on_agreement(planner, pass);
    builder_depend(builder, after, WAIT_LIMIT);
    if (pass == PASS_RENEW) builder_depend(builder, planner->updates.pending_written, WAIT_DATA);
    tile->read = builder_end(builder);
}

int shard_swap_in(struct planner *planner, int unit)
{
    struct builder *builder = &planner->builder;
    struct op *op = planner_begin_tile(planner, OP_SWAP_IN, unit, 0);
    const int shard = builder_unit_staging(builder, unit);
    op->buffer[ROLE_SOURCE] = builder->layout[unit].parameters;
    builder_take(builder, ROLE_OUTPUT, shard);
    op->bytes = bytes_of(planner, shard);
    planner_depend_on_updates(planner);
    builder_end(builder);
    return shard;
}

/* ---- update ---- */

/* Where parameters in the model's type are put: in their place if that is beside it; else where they can travel from. In fp32
 * they are the master weights. A pending update leaves them as they are, for they are in use. */
static void place_parameters(struct planner *planner, enum pass pass, struct op *op, struct tile *tile)
{
    struct builder *builder = &planner->builder;
    const struct unit_layout *layout = &builder->layout[tile->unit];
    const bool host = updated_on_host(planner, tile->unit);
    const enum tier here = host ? TIER_HOST : TIER_DEVICE, there = tier_of(planner, tile->unit, ROLE_PARAMETERS);
    const int64_t bytes = planner_tile_bytes(planner, op);
    op->buffer[ROLE_PARAMETERS] = op->buffer[ROLE_MASTER];
    if (pass == PASS_PENDING) return;
    if (there == here) {
        op->buffer[ROLE_PARAMETERS] = layout->parameters;
        return;
    }
    if (layout->parameters == layout->master) return; /* written back with the states */
    const bool written_from_here = host && there == TIER_NVME;
    if (pass == PASS_UPDATE && builder->model->dtype == DTYPE_F32 && !written_from_here)
        return; /* travel from the master itself */
    tile->parameters = host ? builder_staging(builder, "updated parameters", bytes)
                            : builder_bytes(builder, "updated parameters", CATEGORY_BUCKETS, bytes);
    builder_take(builder, ROLE_PARAMETERS, tile->parameters);
}

static int array_of(const struct planner *planner, const struct tile *tile, int s)
{
    return tile->staging[s] >= 0 ? tile->staging[s] : layout_array(&planner->builder.layout[tile->unit], swapped[s]);
}

/* An update, or, of one that was pending, parameters of its master weights. */
static void work_on_tile(struct planner *planner, enum pass pass, struct tile *tile, int after)
{
    struct builder *builder = &planner->builder;
    const bool host = updated_on_host(planner, tile->unit), renews = pass == PASS_RENEW;
    struct op *op = planner_begin_tile(planner,
                                       renews ? OP_HOST_CAST
                                       : host ? OP_HOST_UPDATE
                                              : OP_UPDATE,
                                       tile->unit, tile->number);
    if (renews) op->buffer[ROLE_SOURCE] = array_of(planner, tile, 0);
    for (int s = 0; s < TILE_ROLES && !renews; s++) op->buffer[swapped[s]] = array_of(planner, tile, s);
    place_parameters(planner, pass, op, tile);
    if (renews && tile->staging[0] >= 0) { /* not written back */
        builder_give(builder, tile->staging[0]);
        tile->staging[0] = -1;
    }
    depend_on_agreement(planner, pass);
    builder_depend(builder, tile->read, WAIT_DATA);
    builder_depend(builder, after, WAIT_LIMIT);
    tile->work = tile->moved = builder_end(builder);
    if (!host) planner->last_compute = tile->work;
}

/* ---- and back ---- */

/* Over the bus, up to the device or down to host memory: there to their place, or to where they are written from. */
static void move_parameters(struct planner *planner, struct tile *tile)
{
    struct builder *builder = &planner->builder;
    const enum tier there = tier_of(planner, tile->unit, ROLE_PARAMETERS);
    const bool host = updated_on_host(planner, tile->unit);
    if (builder->failed || (host && there != TIER_DEVICE) || (!host && there == TIER_DEVICE)) return;
    const int from = builder->schedule->ops[tile->work].buffer[ROLE_PARAMETERS];
    struct op *op = planner_begin_tile(planner, host ? OP_UPLOAD : OP_STORE, tile->unit, tile->number);
    op->buffer[ROLE_SOURCE] = from;
    op->buffer[ROLE_OUTPUT] = builder->layout[tile->unit].parameters;
    op->bytes = planner_tile_bytes(planner, op);
    if (tile->parameters >= 0) builder_give(builder, tile->parameters);
    tile->parameters = -1;
    if (there == TIER_NVME) {
        tile->parameters = builder_staging(builder, "parameters to write", op->bytes);
        builder_take(builder, ROLE_OUTPUT, tile->parameters);
    }
    builder_depend(builder, tile->work, WAIT_DATA);
    tile->moved = builder_end(builder);
}

/* Returns the operation that wrote it, or -1: nothing of it lies on NVMe. */
static int write_tile(struct planner *planner, enum pass pass, struct tile *tile)
{
    struct builder *builder = &planner->builder;
    if (pass != PASS_PENDING) {
        move_parameters(planner, tile);
        planner_updated(planner, tile->moved);
    }
    if (tile->parameters < 0 && tile->staging[0] < 0 && tile->staging[1] < 0 && tile->staging[2] < 0) return -1;
    struct op *op = planner_begin_tile(planner, OP_SWAP_OUT, tile->unit, tile->number);
    for (int s = 0; s <= TILE_ROLES; s++) {
        const int b = s < TILE_ROLES ? tile->staging[s] : tile->parameters;
        if (b < 0) continue;
        op->buffer[s < TILE_ROLES ? swapped[s] : ROLE_PARAMETERS] = b;
        op->bytes += bytes_of(planner, b);
        builder_give(builder, b);
    }
    builder_depend(builder, tile->work, WAIT_DATA);
    builder_depend(builder, tile->moved, WAIT_DATA); /* what travelled from the master has left it */
    const int written = builder_end(builder);
    if (pass == PASS_PENDING) planner->updates.pending_written = planner->updates.pending_last[tile->unit] = written;
    else planner_updated(planner, written);
    return written;
}

/* ---- one after another ---- */

static void begin_pass(struct planner *planner, struct pipeline *pipeline, enum pass pass)
{
    const int first = pass == PASS_PENDING ? planner->builder.model->unit_count - 1 : 0;
    *pipeline =
        (struct pipeline){.pass = pass, .now = tile_of(first, 0), .held = tile_of(-1, 0), .worked = -1, .written = -1};
    pipeline->more = !planner->builder.failed;
    if (planner->builder.schedule->knobs.pipeline_read) read_tile(planner, pass, &pipeline->now, -1);
}

static void write_held(struct planner *planner, struct pipeline *pipeline)
{
    if (pipeline->held.unit >= 0) write_tile(planner, pipeline->pass, &pipeline->held);
    pipeline->held.unit = -1;
}

static void pass_tile(struct planner *planner, struct pipeline *pipeline)
{
    const enum pass pass = pipeline->pass;
    const struct config_zero *knobs = &planner->builder.schedule->knobs;
    const bool ahead = knobs->pipeline_read; /* held: written after the next one has been worked on */
    const bool held = updated_in(planner, pipeline->now.unit) != TIER_NVME || knobs->pipeline_write;
    struct tile next;
    pipeline->more = next_tile(planner, pass, &pipeline->now, &next);
    if (!ahead) read_tile(planner, pass, &pipeline->now, pipeline->worked);
    else if (pipeline->more) read_tile(planner, pass, &next, -1);
    work_on_tile(planner, pass, &pipeline->now, held ? -1 : pipeline->written);
    pipeline->worked = pipeline->now.work;
    pipeline->passed_elems +=
        planner->builder.failed ? 0 : elems_of(planner, &planner->builder.schedule->ops[pipeline->worked]);
    write_held(planner, pipeline);
    if (held) pipeline->held = pipeline->now;
    else pipeline->written = write_tile(planner, pass, &pipeline->now);
    pipeline->now = next;
    if (!pipeline->more) write_held(planner, pipeline);
}

void swapped_updates_write(struct planner *planner)
{
    struct pipeline pipeline;
    begin_pass(planner, &pipeline, planner->updates.delayed ? PASS_RENEW : PASS_UPDATE);
    while (pipeline.more) pass_tile(planner, &pipeline);
}

/* Of all elements as large a part as of the first micro-step's uses is done with use `at`; and all of a unit before its gradients
 * are made anew. */
static bool is_due(const struct planner *planner, int at)
{
    const struct pipeline *pipeline = &planner->updates.pending;
    const struct walk_step *step = &planner->walk.steps[at];
    const int64_t uses = planner->walk.length / planner->builder.schedule->micro_steps;
    int64_t all = 0;
    if (walk_completes_gradient(step) && pipeline->now.unit >= step->unit) return true;
    for (int u = 0; u < planner->builder.model->unit_count; u++)
        all += schedule_shard_elems(planner->builder.schedule, planner->builder.model, u);
    return at + 1 >= uses || pipeline->passed_elems < all / uses * (at + 1);
}

/* A step that is given up makes those updates again that have not been written: until then the gradients they read must stay. */
void swapped_updates_pending(struct planner *planner, int at)
{
    struct pipeline *pipeline = &planner->updates.pending;
    const struct walk_step *step = &planner->walk.steps[at];
    if (at == 0) begin_pass(planner, pipeline, PASS_PENDING);
    while (pipeline->more && is_due(planner, at)) pass_tile(planner, pipeline);
    if (walk_completes_gradient(step) && pipeline->held.unit >= step->unit) write_held(planner, pipeline);
}
