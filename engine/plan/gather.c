#include "engine/plan/gather.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS_AHEAD = 3 }; /* depth of the pipeline: read from NVMe, copy to the device, gather */

int gatherer_init(struct gatherer *gatherer, struct builder *builder, const struct walk *walk, bool active)
{
    const size_t bytes = (size_t)builder->model->unit_count * sizeof *gatherer->of;
    *gatherer = (struct gatherer){.builder = builder, .walk = walk, .active = active, .of = malloc(bytes)};
    if (!gatherer->of) {
        builder->failed = true;
        return STATUS_RUN;
    }
    memset(gatherer->of, -1, bytes);
    return STATUS_OK;
}

/* Elements that a gather of the unit brings: without the tail that is kept gathered. */
static int64_t gathered_elems(const struct gatherer *gatherer, int unit)
{
    int64_t first, end;
    extent_range(gatherer->builder->schedule, gatherer->builder->model, unit, EXTENT_HEAD, 0, &first, &end);
    return end;
}

static int unit_of(const struct gatherer *gatherer, int at)
{
    return gatherer->walk->steps[at].unit;
}

/* An operation for use `at` of the walk, on its unit. */
static struct op *begin(struct gatherer *gatherer, enum op_kind kind, int at, bool ahead)
{
    const struct walk_step *step = &gatherer->walk->steps[at];
    struct op *op = builder_begin(gatherer->builder, kind, step->micro_step, step->unit);
    op->phase = step->kind == OP_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD;
    op->prefetch = ahead;
    return op;
}

static bool missing(const struct gatherer *gatherer, int at)
{
    const struct walk_step *step = &gatherer->walk->steps[at];
    return step->needs_parameters && gatherer->of[step->unit].buffer < 0 && gathered_elems(gatherer, step->unit) > 0;
}

/* ---- from NVMe to the host tier ---- */

int64_t staging_buffers_of(const struct schedule *schedule, const struct model *model, int unit)
{
    const struct config_zero *knobs = &schedule->knobs;
    const int64_t shard = schedule_shard_elems(schedule, model, unit), size = knobs->param_buffer_elems;
    return size > 0 ? shard / size + (shard % size > 0) : 1;
}

static int64_t buffers_of(const struct gatherer *gatherer, int unit)
{
    return staging_buffers_of(gatherer->builder->schedule, gatherer->builder->model, unit);
}

/* What the unit is gathered from is on the device: its shard in its place or as a copy, or the secondary copy. */
static bool source_is_there(const struct gatherer *gatherer, int unit)
{
    return builder_tier(gatherer->builder, gatherer->builder->layout[unit].parameters) == TIER_DEVICE ||
           gatherer->of[unit].device_shard >= 0 || gatherer->of[unit].secondary >= 0;
}

static void stage(struct gatherer *gatherer, int at, bool ahead)
{
    struct builder *builder = gatherer->builder;
    const int unit = unit_of(gatherer, at), from = builder->layout[unit].parameters;
    if (builder_tier(builder, from) != TIER_NVME || gatherer->of[unit].host_shard >= 0 ||
        source_is_there(gatherer, unit))
        return;
    struct op *op = begin(gatherer, OP_SWAP_IN, at, ahead);
    op->extent = EXTENT_SHARD;
    op->buffer[ROLE_SOURCE] = from;
    const int shard = builder_unit_staging(builder, unit);
    builder_take(builder, ROLE_OUTPUT, shard);
    op->bytes = builder->failed ? 0 : builder->schedule->buffers[shard].bytes;
    gatherer->of[unit].host_shard = shard;
    gatherer->of[unit].host_shard_op = builder_end(builder);
    gatherer->staging_buffers += buffers_of(gatherer, unit);
}

/* Those that are brought up after this one, as far as buffers go. */
static void stage_next(struct gatherer *gatherer, int at)
{
    const struct config_zero *knobs = &gatherer->builder->schedule->knobs;
    int seen = 0;
    if (knobs->prefetch_bucket_elems == 0 || knobs->offload_param != OFFLOAD_NVME) return;
    for (int next = at + 1; next < gatherer->walk->length && seen < UNITS_AHEAD; next++) {
        const int unit = unit_of(gatherer, next);
        if (unit == unit_of(gatherer, at) || !missing(gatherer, next)) continue;
        if (gatherer->staging_buffers + buffers_of(gatherer, unit) > knobs->param_buffers) return;
        stage(gatherer, next, true);
        seen++;
    }
}

/* ---- from the host tier ---- */

/* The own shard of a unit, to where peers can read it. */
static void copy_shard(struct gatherer *gatherer, int at, bool ahead)
{
    struct builder *builder = gatherer->builder;
    const int unit = unit_of(gatherer, at), lasting = builder->layout[unit].parameters;
    if (source_is_there(gatherer, unit)) return;
    stage(gatherer, at, ahead);
    const int host_shard = gatherer->of[unit].host_shard, from = host_shard >= 0 ? host_shard : lasting;
    struct op *op = begin(gatherer, OP_PARAM_H2D, at, ahead);
    int shard = builder_unit_buffer(builder, "shard", CATEGORY_BUCKETS, EXTENT_SHARD, builder->model->dtype, unit);
    op->buffer[ROLE_SOURCE] = from;
    builder_take(builder, ROLE_OUTPUT, shard);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), from, shard);
    if (host_shard >= 0) {
        builder_depend(builder, gatherer->of[unit].host_shard_op, WAIT_DATA);
        builder_give(builder, host_shard);
        gatherer->of[unit].host_shard = -1;
        gatherer->staging_buffers -= buffers_of(gatherer, unit);
    }
    gatherer->of[unit].device_shard = shard;
    gatherer->of[unit].device_shard_op = builder_end(builder);
}

/* The one that is gathered after this, within the limits of a gather ahead: its copy runs beside this gather. */
static void copy_next_shard(struct gatherer *gatherer, int at)
{
    const struct config_zero *knobs = &gatherer->builder->schedule->knobs;
    if (knobs->prefetch_bucket_elems == 0) return;
    for (int next = at + 1; next < gatherer->walk->length; next++) {
        if (unit_of(gatherer, next) == unit_of(gatherer, at)) continue;
        if (!missing(gatherer, next)) continue;
        const int64_t both =
            gathered_elems(gatherer, unit_of(gatherer, at)) + gathered_elems(gatherer, unit_of(gatherer, next));
        if (gatherer->live_elems + both <= knobs->max_live_parameters) copy_shard(gatherer, next, true);
        return;
    }
}

/* ---- quantized (ZeRO++, section 3.1) ---- */

/* Without a secondary copy: its parts were gathered as blocks once. */
static bool quantizes(const struct gatherer *gatherer, int unit)
{
    return gatherer->builder->schedule->knobs.quantized_weights && gatherer->of[unit].secondary < 0;
}

/* The own shard, of parameters in their place or of their copy on the device, which goes back. */
static int write_quantize(struct gatherer *gatherer, int at, bool ahead)
{
    struct builder *builder = gatherer->builder;
    const int unit = unit_of(gatherer, at), device_shard = gatherer->of[unit].device_shard,
              from = device_shard >= 0 ? device_shard : builder->layout[unit].parameters;
    begin(gatherer, OP_QUANTIZE, at, ahead);
    const int shard = builder_unit_buffer(builder, "quantized shard", CATEGORY_BUCKETS, EXTENT_SHARD, DTYPE_Q8, unit);
    builder_take(builder, ROLES, shard);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), from, shard);
    if (device_shard >= 0) {
        builder_depend(builder, gatherer->of[unit].device_shard_op, WAIT_DATA);
        builder_give(builder, device_shard);
        gatherer->of[unit].device_shard = -1;
    }
    gatherer->of[unit].quantized_shard = shard;
    return builder_end(builder);
}

int gatherer_unpack(struct gatherer *gatherer, int at)
{
    struct builder *builder = gatherer->builder;
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit, blocks = gatherer->active ? gatherer->of[unit].quantized : -1;
    if (!step->needs_parameters || blocks < 0 || builder->failed) return -1;
    begin(gatherer, OP_DEQUANTIZE, at, false);
    builder_take(builder, ROLES, gatherer->of[unit].buffer);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), blocks, gatherer->of[unit].buffer);
    builder_give(builder, blocks);
    builder_give(builder, gatherer->of[unit].quantized_shard);
    builder_depend(builder, gatherer->of[unit].op, WAIT_DATA);
    gatherer->of[unit].quantized = -1;
    return builder_end(builder);
}

static int gather(struct gatherer *gatherer, int at, bool prefetch, int serial)
{
    struct builder *builder = gatherer->builder;
    const int unit = unit_of(gatherer, at);
    copy_shard(gatherer, at, prefetch);
    stage_next(gatherer, at); /* before the next is brought up, so that both run beside each other; */
    copy_next_shard(gatherer, at);
    stage_next(gatherer, at); /* or after it, where that gave back the only buffer */
    const int quantize = quantizes(gatherer, unit) ? write_quantize(gatherer, at, prefetch) : -1;
    const int device_shard = gatherer->of[unit].device_shard, secondary = gatherer->of[unit].secondary;
    struct op *op = begin(gatherer, OP_GATHER, at, prefetch);
    op->held = gatherer->held;
    if (secondary >= 0) op->group = GROUP_PARTITION;
    int buffer = builder_unit_buffer(builder, "gathered", CATEGORY_GATHERED, EXTENT_HEAD, builder->model->dtype, unit);
    int to = buffer;
    if (quantize >= 0)
        to = gatherer->of[unit].quantized =
            builder_unit_buffer(builder, "quantized unit", CATEGORY_BUCKETS, EXTENT_HEAD, DTYPE_Q8, unit);
    builder_take(builder, quantize >= 0 ? ROLES : ROLE_PARAMETERS, to);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit),
                  quantize >= 0       ? gatherer->of[unit].quantized_shard
                  : secondary >= 0    ? secondary
                  : device_shard >= 0 ? device_shard
                                      : builder->layout[unit].parameters,
                  to);
    builder_depend(builder, serial, WAIT_LIMIT);
    builder_depend(builder, quantize, WAIT_DATA);
    if (device_shard >= 0) {
        builder_depend(builder, gatherer->of[unit].device_shard_op, WAIT_DATA);
        gatherer->of[unit].device_shard = -1;
        gatherer->of[unit].consumed = device_shard;
    }
    if (secondary >= 0) builder_depend(builder, gatherer->of[unit].secondary_op, WAIT_DATA);
    gatherer->of[unit].buffer = buffer;
    gatherer->of[unit].op = builder_end_gather(builder);
    gatherer->live_elems += gathered_elems(gatherer, unit);
    return gatherer->of[unit].op;
}

/* First place after `at` that is not the same unit's again. */
static int past_same_unit(const struct gatherer *gatherer, int at)
{
    int next = at + 1;
    while (next < gatherer->walk->length && unit_of(gatherer, next) == unit_of(gatherer, at)) next++;
    return next;
}

static bool seen_since(const struct gatherer *gatherer, int from, int place)
{
    for (int i = from; i < place; i++)
        if (unit_of(gatherer, i) == unit_of(gatherer, place)) return true;
    return false;
}

int gatherer_before(struct gatherer *gatherer, int at, int serial)
{
    const struct config_zero *knobs = &gatherer->builder->schedule->knobs;
    int newest = -1;
    if (!gatherer->active || gatherer->builder->failed) return newest;
    if (missing(gatherer, at)) newest = gather(gatherer, at, false, serial);
    /* What is gathered already and not yet used counts as on its way. The walk ahead ends where the unit in use comes
     * again: it has to be let go before it can be gathered anew, and nothing may overtake it. */
    const int from = past_same_unit(gatherer, at);
    int64_t ahead = 0;
    enum held_by held = HELD_NONE;
    for (int next = from; next < gatherer->walk->length && !held; next++) {
        const struct walk_step *step = &gatherer->walk->steps[next];
        if (ahead >= knobs->prefetch_bucket_elems) held = HELD_BUCKET;
        else if (step->unit == unit_of(gatherer, at)) held = HELD_AGAIN;
        if (held) break;
        if (!step->needs_parameters || seen_since(gatherer, from, next)) continue;
        int64_t elems = gathered_elems(gatherer, step->unit);
        if (missing(gatherer, next)) {
            if (gatherer->live_elems + elems > knobs->max_live_parameters) held = HELD_LIVE;
            else newest = gather(gatherer, next, true, serial);
        }
        ahead += elems;
    }
    gatherer->held = held;
    return newest;
}

static bool comes_again_soon(const struct gatherer *gatherer, int at)
{
    const struct config_zero *knobs = &gatherer->builder->schedule->knobs;
    int64_t distance = 0;
    for (int next = at + 1; next < gatherer->walk->length && distance <= knobs->max_reuse_distance; next++) {
        const struct walk_step *step = &gatherer->walk->steps[next];
        if (!step->needs_parameters) continue;
        if (step->unit == unit_of(gatherer, at)) return true;
        distance += gatherer->builder->model->units[step->unit].elems;
    }
    return false;
}

static bool kept_for_backward(const struct gatherer *gatherer, int at)
{
    const struct schedule *schedule = gatherer->builder->schedule;
    const struct walk_step *step = &gatherer->walk->steps[at];
    return schedule->purpose == PURPOSE_TRAIN && step->kind == OP_FORWARD &&
           step->unit >= gatherer->builder->model->unit_count - schedule->knobs.keep_last_units;
}

static bool is_last_use(const struct gatherer *gatherer, int at)
{
    const struct walk *walk = gatherer->walk;
    for (int next = at + 1; next < walk->length; next++)
        if (walk->steps[next].needs_parameters && walk->steps[next].unit == walk->steps[at].unit) return false;
    return true;
}

int gatherer_consumed(struct gatherer *gatherer, int at)
{
    const int unit = unit_of(gatherer, at);
    const bool secondary = gatherer->of[unit].secondary >= 0 && is_last_use(gatherer, at);
    int *from = secondary ? &gatherer->of[unit].secondary : &gatherer->of[unit].consumed;
    const int consumed = *from;
    *from = -1;
    return consumed;
}

/* ---- the secondary copy ---- */

bool gatherer_keeps(const struct gatherer *gatherer, int at)
{
    const struct schedule *schedule = gatherer->builder->schedule;
    return schedule->knobs.hpz_partition > 1 && schedule->purpose == PURPOSE_TRAIN &&
           gatherer->of[unit_of(gatherer, at)].secondary < 0 && !is_last_use(gatherer, at);
}

int gatherer_keep(struct gatherer *gatherer, int at, int buffer)
{
    struct builder *builder = gatherer->builder;
    const int unit = unit_of(gatherer, at);
    struct op *op = begin(gatherer, OP_SECONDARY, at, false);
    gatherer->of[unit].secondary = builder_unit_buffer(builder, "secondary copy", CATEGORY_SECONDARY, EXTENT_SECONDARY,
                                                       builder->model->dtype, unit);
    builder_take(builder, ROLE_OUTPUT, gatherer->of[unit].secondary);
    op->buffer[ROLE_SOURCE] = buffer;
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), buffer, gatherer->of[unit].secondary);
    builder_give(builder, buffer);
    return gatherer->of[unit].secondary_op = builder_end(builder);
}

bool gatherer_lets_go(struct gatherer *gatherer, int at)
{
    const int unit = unit_of(gatherer, at);
    if (!gatherer->active || !gatherer->walk->steps[at].needs_parameters || gatherer->of[unit].buffer < 0) return false;
    bool next_use_is_same = at + 1 < gatherer->walk->length && gatherer->walk->steps[at + 1].needs_parameters &&
                            gatherer->walk->steps[at + 1].unit == unit;
    bool within_limit = gatherer->live_elems <= gatherer->builder->schedule->knobs.max_live_parameters;
    if (next_use_is_same || kept_for_backward(gatherer, at) || (within_limit && comes_again_soon(gatherer, at)))
        return false;
    gatherer->of[unit].buffer = -1;
    gatherer->live_elems -= gathered_elems(gatherer, unit);
    return true;
}
