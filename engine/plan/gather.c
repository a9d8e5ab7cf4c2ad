#include "engine/plan/gather.h"

#include <stdlib.h>

enum { ARRAYS = 11 };     /* of struct gatherer, by unit */
enum { UNITS_AHEAD = 3 }; /* depth of the pipeline: read from NVMe, copy to the device, gather */

int gatherer_init(struct gatherer *gatherer, struct builder *builder, const struct walk *walk, bool active)
{
    int units = builder->model->unit_count;
    *gatherer = (struct gatherer){.builder = builder, .walk = walk, .active = active};
    gatherer->buffer = malloc(ARRAYS * (size_t)units * sizeof *gatherer->buffer);
    if (!gatherer->buffer) {
        builder->failed = true;
        return STATUS_RUN;
    }
    gatherer->op = gatherer->buffer + units;
    gatherer->device_shard = gatherer->op + units;
    gatherer->device_shard_op = gatherer->device_shard + units;
    gatherer->host_shard = gatherer->device_shard_op + units;
    gatherer->host_shard_op = gatherer->host_shard + units;
    gatherer->consumed = gatherer->host_shard_op + units;
    gatherer->secondary = gatherer->consumed + units;
    gatherer->secondary_op = gatherer->secondary + units;
    gatherer->quantized = gatherer->secondary_op + units;
    gatherer->quantized_shard = gatherer->quantized + units;
    for (int i = 0; i < ARRAYS * units; i++) gatherer->buffer[i] = -1;
    return STATUS_OK;
}

/* Elements that a gather of the unit brings: without the tail that is kept gathered. */
static int64_t gathered_elems(const struct gatherer *gatherer, int unit)
{
    const struct schedule *schedule = gatherer->builder->schedule;
    struct buffer head = {.extent = EXTENT_HEAD, .unit = unit};
    int64_t first, end;
    buffer_range(schedule, gatherer->builder->model, &head, 0, &first, &end);
    return end;
}

static enum phase phase_of(const struct walk_step *step)
{
    return step->kind == OP_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD;
}

static bool missing(const struct gatherer *gatherer, int at)
{
    const struct walk_step *step = &gatherer->walk->steps[at];
    return step->needs_parameters && gatherer->buffer[step->unit] < 0 && gathered_elems(gatherer, step->unit) > 0;
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
           gatherer->device_shard[unit] >= 0 || gatherer->secondary[unit] >= 0;
}

static void stage(struct gatherer *gatherer, int at, bool ahead)
{
    struct builder *builder = gatherer->builder;
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit, from = builder->layout[unit].parameters;
    if (builder_tier(builder, from) != TIER_NVME || gatherer->host_shard[unit] >= 0 || source_is_there(gatherer, unit)) return;
    struct op *op = builder_begin(builder, OP_SWAP_IN, step->micro_step, unit);
    op->prefetch = ahead;
    op->phase = phase_of(step);
    op->extent = EXTENT_SHARD;
    op->buffer[ROLE_SOURCE] = from;
    const int shard = builder_unit_staging(builder, unit);
    builder_take(builder, ROLE_OUTPUT, shard);
    op->bytes = builder->failed ? 0 : builder->schedule->buffers[shard].bytes;
    gatherer->host_shard[unit] = shard;
    gatherer->host_shard_op[unit] = builder_end(builder);
    gatherer->staging_buffers += buffers_of(gatherer, unit);
}

/* Those that are brought up after this one, as far as buffers go. */
static void stage_next(struct gatherer *gatherer, int at)
{
    const struct config_zero *knobs = &gatherer->builder->schedule->knobs;
    int seen = 0;
    if (knobs->prefetch_bucket_elems == 0 || knobs->offload_param != OFFLOAD_NVME) return;
    for (int next = at + 1; next < gatherer->walk->length && seen < UNITS_AHEAD; next++) {
        const int unit = gatherer->walk->steps[next].unit;
        if (unit == gatherer->walk->steps[at].unit || !missing(gatherer, next)) continue;
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
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit, lasting = builder->layout[unit].parameters;
    if (source_is_there(gatherer, unit)) return;
    stage(gatherer, at, ahead);
    const int host_shard = gatherer->host_shard[unit], from = host_shard >= 0 ? host_shard : lasting;
    struct op *op = builder_begin(builder, OP_PARAM_H2D, step->micro_step, unit);
    op->prefetch = ahead;
    op->phase = phase_of(step);
    int shard = builder_unit_buffer(builder, "shard", CATEGORY_BUCKETS, EXTENT_SHARD, builder->model->dtype, unit);
    op->buffer[ROLE_SOURCE] = from;
    builder_take(builder, ROLE_OUTPUT, shard);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), from, shard);
    if (host_shard >= 0) {
        builder_depend(builder, gatherer->host_shard_op[unit], WAIT_DATA);
        builder_give(builder, host_shard);
        gatherer->host_shard[unit] = -1;
        gatherer->staging_buffers -= buffers_of(gatherer, unit);
    }
    gatherer->device_shard[unit] = shard;
    gatherer->device_shard_op[unit] = builder_end(builder);
}

/* The one that is gathered after this, within the limits of a gather ahead: its copy runs beside this gather. */
static void copy_next_shard(struct gatherer *gatherer, int at)
{
    const struct config_zero *knobs = &gatherer->builder->schedule->knobs;
    if (knobs->prefetch_bucket_elems == 0) return;
    for (int next = at + 1; next < gatherer->walk->length; next++) {
        if (gatherer->walk->steps[next].unit == gatherer->walk->steps[at].unit) continue;
        if (!missing(gatherer, next)) continue;
        const int64_t both = gathered_elems(gatherer, gatherer->walk->steps[at].unit) +
                             gathered_elems(gatherer, gatherer->walk->steps[next].unit);
        if (gatherer->live_elems + both <= knobs->max_live_parameters) copy_shard(gatherer, next, true);
        return;
    }
}

/* ---- quantized (ZeRO++, section 3.1) ---- */

/* Without a secondary copy: its parts were gathered as blocks once. */
static bool quantizes(const struct gatherer *gatherer, int unit)
{
    return gatherer->builder->schedule->knobs.quantized_weights && gatherer->secondary[unit] < 0;
}

/* The own shard, of parameters in their place or of their copy on the device, which goes back. */
static int write_quantize(struct gatherer *gatherer, int at, bool ahead)
{
    struct builder *builder = gatherer->builder;
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit, device_shard = gatherer->device_shard[unit],
              from = device_shard >= 0 ? device_shard : builder->layout[unit].parameters;
    struct op *op = builder_begin(builder, OP_QUANTIZE, step->micro_step, unit);
    op->prefetch = ahead;
    op->phase = phase_of(step);
    const int shard = builder_unit_buffer(builder, "quantized shard", CATEGORY_BUCKETS, EXTENT_SHARD, DTYPE_Q8, unit);
    builder_take(builder, ROLES, shard);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), from, shard);
    if (device_shard >= 0) {
        builder_depend(builder, gatherer->device_shard_op[unit], WAIT_DATA);
        builder_give(builder, device_shard);
        gatherer->device_shard[unit] = -1;
    }
    gatherer->quantized_shard[unit] = shard;
    return builder_end(builder);
}

int gatherer_unpack(struct gatherer *gatherer, int at)
{
    struct builder *builder = gatherer->builder;
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit, blocks = gatherer->active ? gatherer->quantized[unit] : -1;
    if (!step->needs_parameters || blocks < 0 || builder->failed) return -1;
    builder_begin(builder, OP_DEQUANTIZE, step->micro_step, unit)->phase = phase_of(step);
    builder_take(builder, ROLES, gatherer->buffer[unit]);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), blocks, gatherer->buffer[unit]);
    builder_give(builder, blocks);
    builder_give(builder, gatherer->quantized_shard[unit]);
    builder_depend(builder, gatherer->op[unit], WAIT_DATA);
    gatherer->quantized[unit] = -1;
    return builder_end(builder);
}

static int gather(struct gatherer *gatherer, int at, bool prefetch, int serial)
{
    struct builder *builder = gatherer->builder;
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit;
    copy_shard(gatherer, at, prefetch);
    stage_next(gatherer, at); /* before the next is brought up, so that both run beside each other; */
    copy_next_shard(gatherer, at);
    stage_next(gatherer, at); /* or after it, where that gave back the only buffer */
    const int quantize = quantizes(gatherer, unit) ? write_quantize(gatherer, at, prefetch) : -1;
    const int device_shard = gatherer->device_shard[unit], secondary = gatherer->secondary[unit];
    struct op *op = builder_begin(builder, OP_GATHER, step->micro_step, unit);
    op->prefetch = prefetch;
    op->held = gatherer->held;
    op->phase = phase_of(step);
    if (secondary >= 0) op->group = GROUP_PARTITION;
    int buffer = builder_unit_buffer(builder, "gathered", CATEGORY_GATHERED, EXTENT_HEAD, builder->model->dtype, unit);
    int to = buffer;
    if (quantize >= 0)
        to = gatherer->quantized[unit] =
            builder_unit_buffer(builder, "quantized unit", CATEGORY_BUCKETS, EXTENT_HEAD, DTYPE_Q8, unit);
    builder_take(builder, quantize >= 0 ? ROLES : ROLE_PARAMETERS, to);
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit),
                  quantize >= 0       ? gatherer->quantized_shard[unit]
                  : secondary >= 0    ? secondary
                  : device_shard >= 0 ? device_shard
                                      : builder->layout[unit].parameters,
                  to);
    builder_depend(builder, serial, WAIT_LIMIT);
    builder_depend(builder, quantize, WAIT_DATA);
    if (device_shard >= 0) {
        builder_depend(builder, gatherer->device_shard_op[unit], WAIT_DATA);
        gatherer->device_shard[unit] = -1;
        gatherer->consumed[unit] = device_shard;
    }
    if (secondary >= 0) builder_depend(builder, gatherer->secondary_op[unit], WAIT_DATA);
    gatherer->buffer[unit] = buffer;
    gatherer->op[unit] = builder_end_gather(builder);
    gatherer->live_elems += gathered_elems(gatherer, unit);
    return gatherer->op[unit];
}

/* First place after `at` that is not the same unit's again. */
static int past_same_unit(const struct gatherer *gatherer, int at)
{
    int next = at + 1;
    while (next < gatherer->walk->length && gatherer->walk->steps[next].unit == gatherer->walk->steps[at].unit) next++;
    return next;
}

static bool seen_since(const struct gatherer *gatherer, int from, int place)
{
    for (int i = from; i < place; i++)
        if (gatherer->walk->steps[i].unit == gatherer->walk->steps[place].unit) return true;
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
        else if (step->unit == gatherer->walk->steps[at].unit) held = HELD_AGAIN;
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
        if (step->unit == gatherer->walk->steps[at].unit) return true;
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
    const int unit = gatherer->walk->steps[at].unit;
    const bool secondary = gatherer->secondary[unit] >= 0 && is_last_use(gatherer, at);
    int *from = secondary ? &gatherer->secondary[unit] : &gatherer->consumed[unit];
    const int consumed = *from;
    *from = -1;
    return consumed;
}

/* ---- the secondary copy ---- */

bool gatherer_keeps(const struct gatherer *gatherer, int at)
{
    const struct schedule *schedule = gatherer->builder->schedule;
    return schedule->knobs.hpz_partition > 1 && schedule->purpose == PURPOSE_TRAIN &&
           gatherer->secondary[gatherer->walk->steps[at].unit] < 0 && !is_last_use(gatherer, at);
}

int gatherer_keep(struct gatherer *gatherer, int at, int buffer)
{
    struct builder *builder = gatherer->builder;
    const struct walk_step *step = &gatherer->walk->steps[at];
    const int unit = step->unit;
    struct op *op = builder_begin(builder, OP_SECONDARY, step->micro_step, unit);
    op->phase = phase_of(step);
    gatherer->secondary[unit] = builder_unit_buffer(builder, "secondary copy", CATEGORY_SECONDARY, EXTENT_SECONDARY,
                                                    builder->model->dtype, unit);
    builder_take(builder, ROLE_OUTPUT, gatherer->secondary[unit]);
    op->buffer[ROLE_SOURCE] = buffer;
    builder_piece(builder, unit, 0, gathered_elems(gatherer, unit), buffer, gatherer->secondary[unit]);
    builder_give(builder, buffer);
    return gatherer->secondary_op[unit] = builder_end(builder);
}

bool gatherer_lets_go(struct gatherer *gatherer, int at)
{
    const int unit = gatherer->walk->steps[at].unit;
    if (!gatherer->active || !gatherer->walk->steps[at].needs_parameters || gatherer->buffer[unit] < 0) return false;
    bool next_use_is_same = at + 1 < gatherer->walk->length && gatherer->walk->steps[at + 1].needs_parameters &&
                            gatherer->walk->steps[at + 1].unit == unit;
    bool within_limit = gatherer->live_elems <= gatherer->builder->schedule->knobs.max_live_parameters;
    if (next_use_is_same || kept_for_backward(gatherer, at) || (within_limit && comes_again_soon(gatherer, at)))
        return false;
    gatherer->buffer[unit] = -1;
    gatherer->live_elems -= gathered_elems(gatherer, unit);
    return true;
}
