/* What follows the last backward of a step: gradient norm, agreement of all ranks, updates (updates.c), and the small tensors
 * that stay gathered. */
#include "engine/plan/planner.h"
#include "engine/plan/stage_rules.h"

/* ---- the small tensors that stay gathered, stage 3 ---- */

static void add_tail(struct planner *planner, int u, int source, int destination)
{
    struct builder *builder = &planner->builder;
    int64_t first, end;
    extent_range(builder->schedule, builder->model, u, EXTENT_TAIL, 0, &first, &end);
    builder_piece(builder, u, first, end - first, source, destination);
}

/* From shards in the host tier or on NVMe, unit by unit, so that no more than one shard is on the device. */
static void write_tail_refresh_from_host(struct planner *planner, int u)
{
    struct builder *builder = &planner->builder;
    const int lasting = builder->layout[u].parameters;
    const bool swapped = builder_tier(builder, lasting) == TIER_NVME;
    const int from = swapped ? shard_swap_in(planner, u) : lasting, read = builder->schedule->op_count - 1;
    struct op *op = builder_begin(builder, OP_PARAM_H2D, -1, u);
    op->droppable = !planner->updates.delayed;
    op->phase = PHASE_OPTIMIZER;
    op->buffer[ROLE_SOURCE] = from;
    const int shard = builder_unit_buffer(builder, "shard", CATEGORY_BUCKETS, EXTENT_SHARD, builder->model->dtype, u);
    builder_take(builder, ROLE_OUTPUT, shard);
    add_tail(planner, u, from, shard);
    if (swapped) builder_give(builder, from);
    if (swapped) builder_depend(builder, read, WAIT_DATA);
    else planner_depend_on_updates(planner);
    const int device_shard = builder_end(builder);
    builder_begin(builder, OP_REFRESH, -1, -1)->droppable = !planner->updates.delayed;
    add_tail(planner, u, shard, builder->layout[u].tail);
    builder_give(builder, shard);
    builder_depend(builder, device_shard, WAIT_DATA);
    planner->last_comm = builder_end_gather(builder);
}

/* From shards on the device, in one call. */
static void write_tail_refresh(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const bool from_host = builder_tier(builder, builder->layout[0].parameters) != TIER_DEVICE;
    bool any = false;
    for (int u = 0; u < builder->model->unit_count; u++) {
        any |= builder->layout[u].tail >= 0;
        if (from_host && builder->layout[u].tail >= 0) write_tail_refresh_from_host(planner, u);
    }
    if (!any || from_host) return;
    builder_begin(builder, OP_REFRESH, -1, -1)->droppable = !planner->updates.delayed;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++)
        if (builder->layout[u].tail >= 0) add_tail(planner, u, builder->layout[u].parameters, builder->layout[u].tail);
    planner_depend_on_updates(planner);
    planner->last_comm = builder_end_gather(builder);
}

/* Gradients that were all-reduced in another type are converted back into their lasting buffers. */
static void bring_back(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++) {
        const int lasting = builder->layout[u].whole;
        if (planner->gradients.of_unit[u] == lasting) continue;
        planner_cast(planner, -1, u, planner->gradients.of_unit[u], lasting, false, planner->last_comm);
    }
}

/* Writes one norm operation for each tier that holds gradients. */
static void write_norm(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    bool on[TIERS] = {false};
    for (int u = 0; u < builder->model->unit_count; u++)
        on[layout_optimizer_tier(builder->schedule, builder->model, u)] = true;
    if (on[TIER_DEVICE]) {
        builder_begin(builder, OP_GRAD_NORM, -1, -1);
        builder_depend(builder, planner->last_comm, WAIT_DATA);
        planner->last_compute = builder_end(builder);
    }
    if (on[TIER_HOST] || on[TIER_NVME]) { /* states on NVMe: gradients are not */
        builder_begin(builder, OP_HOST_NORM, -1, -1);
        builder_depend(builder, planner->offload.last_copy, WAIT_DATA);
        planner->host_norm = builder_end(builder);
    }
}

/* Losses (or the fact that a rank could not go on) are exchanged at the end of every step of any purpose. */
static void write_agreement(struct planner *planner)
{
    builder_begin(&planner->builder, OP_AGREE, -1, -1);
    builder_depend(&planner->builder, planner->last_compute, WAIT_DATA);
    builder_depend(&planner->builder, planner->host_norm, WAIT_DATA);
    planner->last_comm = builder_end(&planner->builder);
}

void step_end_write(struct planner *planner)
{
    const struct schedule *schedule = planner->builder.schedule;
    const struct stage_rules *rules = stage_rules(schedule->stage);
    if (planner->training && stage_reduction(rules, schedule) == OP_ALL_REDUCE) bring_back(planner);
    if (planner->training) write_norm(planner);
    write_agreement(planner);
    if (!planner->training || (planner->updates.delayed && schedule->nothing_pending)) return;
    if (updates_swap(planner)) swapped_updates_write(planner);
    else updates_write(planner);
    if (stage_gathers(rules)) write_tail_refresh(planner);
}
