/* Gradients that leave for the host tier while backward goes on (ZeRO-Offload, section 4). A reduction delivers the rank's own part
 * of a unit into a buffer of the step, or at stage 1 into the lasting whole gradient; when the part is complete, a copy takes
 * it to the host. Where micro-steps are reduced one by one, the second and later ones are added there. The bits are those
 * of a reduction that adds: the mean is rounded to the type that travels, added, and rounded to the type that is kept. */

#include "engine/plan/planner.h"

static bool on_host(const struct planner *planner, int buffer)
{
    return !planner->builder.failed && buffer >= 0 && planner->builder.schedule->buffers[buffer].tier == TIER_HOST;
}

int reduction_into(struct planner *planner, int unit)
{
    const struct unit_layout *layout = &planner->builder.layout[unit];
    if (layout->whole >= 0) return layout->whole;
    if (!on_host(planner, layout->gradient)) return layout->gradient;
    return builder_unit_buffer(&planner->builder, "reduced gradient", CATEGORY_BUCKETS, EXTENT_SHARD,
                               planner->builder.model->wire, unit);
}

/* ---- on the host ---- */

static void expect(struct planner *planner, int unit, int staging, int micro_step, bool accumulate)
{
    if (builder_grow(&planner->builder, (void **)&planner->offload.arrivals, planner->offload.count,
                     &planner->offload.room, sizeof *planner->offload.arrivals))
        planner->offload.arrivals[planner->offload.count++] =
            (struct arrival){unit, staging, -1, micro_step, accumulate};
}

static void add_arrival(struct planner *planner, const struct arrival *arrival)
{
    struct builder *builder = &planner->builder;
    struct op *op = builder_begin(builder, OP_HOST_ADD, arrival->micro_step, arrival->unit);
    op->accumulate = arrival->accumulate;
    op->buffer[ROLE_SOURCE] = arrival->staging;
    op->buffer[ROLE_GRADIENT] = builder->layout[arrival->unit].gradient;
    builder_give(builder, arrival->staging);
    builder_depend(builder, arrival->copied_by, WAIT_DATA);
    builder_end(builder);
}

static void add_arrivals(struct planner *planner, int count)
{
    for (int a = 0; a < count; a++) add_arrival(planner, &planner->offload.arrivals[a]);
    for (int a = count; a < planner->offload.count; a++)
        planner->offload.arrivals[a - count] = planner->offload.arrivals[a];
    planner->offload.count -= count;
}

void gradients_arrive(struct planner *planner)
{
    add_arrivals(planner, planner->offload.count);
}

/* ---- on the way ---- */

/* Element 0 comes last out of a unit. */
static bool completes(const struct planner *planner, const struct piece *piece)
{
    return piece->first == 0 && on_host(planner, planner->builder.layout[piece->unit].gradient);
}

static void send_unit(struct planner *planner, const struct piece *piece, int micro_step, bool accumulate)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    const struct unit_layout *layout = &builder->layout[piece->unit];
    const int from = piece->destination;
    const enum dtype dtype = schedule->buffers[from].dtype;
    int to = layout->gradient;
    if (accumulate || dtype != builder->model->gradient) {
        to = builder_unit_buffer_in(builder, TIER_HOST, "gradient to add", CATEGORY_STAGING, EXTENT_SHARD, dtype,
                                    piece->unit, false);
        builder_take(builder, ROLES, to);
        expect(planner, piece->unit, to, micro_step, accumulate);
    }
    builder_piece(builder, piece->unit, 0, schedule_padded_elems(schedule, builder->model, piece->unit), from, to);
    if (!builder->failed && !schedule->buffers[from].lasting) builder_give(builder, from);
}

/* What lies there is still to be used by the update that is pending. */
static void depend_on_pending(struct planner *planner, const struct op *reduced)
{
    for (int p = 0; p < reduced->piece_count && !planner->builder.failed; p++) {
        const struct piece *piece = &planner->builder.schedule->pieces[reduced->first_piece + p];
        if (completes(planner, piece))
            builder_depend(&planner->builder, planner->updates.pending_last[piece->unit], WAIT_DATA);
    }
}

/* One copy for all units that a reduction completes. What came before is added while it runs. */
static void send(struct planner *planner, int reduction)
{
    struct builder *builder = &planner->builder;
    const struct op reduced = builder->schedule->ops[reduction];
    const int waiting = planner->offload.count;
    const bool accumulate = planner->gradients.every_time && reduced.micro_step > 0;
    bool any = false;
    for (int p = 0; p < reduced.piece_count; p++)
        any |= completes(planner, &builder->schedule->pieces[reduced.first_piece + p]);
    if (!any) return;
    builder_begin(builder, OP_GRAD_D2H, reduced.micro_step, -1)->bucket = reduced.bucket;
    for (int p = 0; p < reduced.piece_count && !builder->failed; p++) {
        const struct piece piece = builder->schedule->pieces[reduced.first_piece + p];
        if (completes(planner, &piece)) send_unit(planner, &piece, reduced.micro_step, accumulate);
    }
    builder_depend(builder, reduction, WAIT_DATA);
    depend_on_pending(planner, &reduced);
    planner->offload.last_copy = builder_end(builder);
    for (int a = waiting; a < planner->offload.count; a++)
        planner->offload.arrivals[a].copied_by = planner->offload.last_copy;
    add_arrivals(planner, waiting);
}

void gradients_leave(struct planner *planner, int until)
{
    for (; planner->offload.left < until && !planner->builder.failed; planner->offload.left++) {
        const struct op *op = &planner->builder.schedule->ops[planner->offload.left];
        const bool reduces = op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE;
        if (reduces && op->group != GROUP_SHARDS && op->group != GROUP_NODE) send(planner, planner->offload.left);
    }
}
