/* One step, from the first token to the last refreshed parameter. Read schedule_build() first, then follow one use of a
 * unit through write_use(). The only questions about the stage are asked at the top, and answered as: are parameters
 * gathered for use? do gradients have buffers of their own? which collective reduces them, and when? */
#include "engine/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/planner.h"

/* ---- operations of one use ---- */

static const enum op_kind op_of_use[USES] = {
    OP_EMBED_FORWARD,   OP_BLOCK_FORWARD,       OP_MLP_FORWARD,   OP_NORM_FORWARD,   OP_HEAD_FORWARD,
    OP_HEAD_BACKWARD,   OP_NORM_BACKWARD,       OP_MLP_BACKWARD,  OP_BLOCK_BACKWARD, OP_EMBED_BACKWARD,
    OP_BLOCK_RECOMPUTE, OP_ATTENTION_RECOMPUTE, OP_MLP_RECOMPUTE,
};

static void write_load(struct planner *planner, int micro_step)
{
    const struct schedule_input *input = planner->builder.input;
    builder_begin(&planner->builder, OP_LOAD, micro_step, -1);
    planner->tokens =
        builder_bytes(&planner->builder, "tokens", CATEGORY_ACTIVATIONS, (int64_t)input->B * input->T * 2 * 4);
    builder_take(&planner->builder, ROLE_TOKENS, planner->tokens);
    planner->last_compute = builder_end(&planner->builder);
}

/* Without overlap_comm an operation may not start before everything above it is done. */
static int serial(const struct planner *planner, int op)
{
    return planner->builder.schedule->knobs.overlap_comm ? -1 : op;
}

static void use_parameters(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    const struct unit_layout *layout = &builder->layout[step->unit];
    if (!step->needs_parameters) return;
    bool gathered = planner->gatherer.active;
    builder->op->buffer[ROLE_PARAMETERS] = gathered ? planner->gatherer.buffer[step->unit] : layout->parameters;
    builder->op->buffer[ROLE_TAIL] = layout->tail;
    if (!gathered || planner->gatherer.buffer[step->unit] < 0) return; /* all of it may be tail */
    builder_depend(builder, planner->gatherer.op[step->unit], WAIT_DATA);
    int buffer = planner->gatherer.buffer[step->unit], spent = gatherer_spent(&planner->gatherer, at);
    if (spent >= 0) builder_give(builder, spent);
    if (gatherer_lets_go(&planner->gatherer, at)) builder_give(builder, buffer);
}

static void take_scratch(struct planner *planner, enum use use)
{
    const struct schedule_input *input = planner->builder.input;
    int64_t bytes = scratch_bytes(input->model, use, input->B, input->T, input->threads);
    if (!bytes) return;
    int scratch = builder_bytes(&planner->builder, "scratch", CATEGORY_WORKSPACE, bytes);
    builder_take(&planner->builder, ROLE_SCRATCH, scratch);
    builder_give(&planner->builder, scratch);
}

/* ---- activations ---- */

static int output_buffer(struct planner *planner, int place)
{
    const struct schedule_input *input = planner->builder.input;
    const int blocks = input->model->shape.layers;
    const bool checkpoint = planner->training && input->knobs->recompute == RECOMPUTE_FULL && place < blocks &&
                            walk_keeps_output(input->model, input->knobs, place);
    const char *name = checkpoint        ? "checkpoint"
                       : place == 0      ? "embedding out"
                       : place <= blocks ? "block out"
                                         : "norm out";
    return planner->output[place] = builder_bytes(&planner->builder, name, CATEGORY_ACTIVATIONS,
                                                  activation_output_bytes(input->model, input->B, input->T));
}

/* The first tile of an MLP begins its block's output, the others add to it. */
static void use_output(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const int place = walk_place(builder->model, step);
    if (builder->model->units[step->unit].tile > 0) builder->op->buffer[ROLE_OUTPUT] = planner->output[place];
    else builder_take(builder, ROLE_OUTPUT, output_buffer(planner, place));
}

/* Parts are kept by unit; that of the head, whose unit is the embedding's, behind all others. */
static int part_index(const struct model *model, const struct walk_step *step)
{
    const bool head = step->use == USE_HEAD_FORWARD || step->use == USE_HEAD_BACKWARD;
    return head ? model->unit_count : step->unit;
}

/* What a block's attention half leaves to the tiles of its MLP. */
static int *mlp_part(struct planner *planner, const struct walk_step *step)
{
    const struct model *model = planner->builder.model;
    return &planner->part[PART_MLP][model_block(model, model->units[step->unit].block)];
}

static bool is_of_tile(const struct planner *planner, const struct walk_step *step)
{
    return planner->builder.model->units[step->unit].kind == UNIT_MLP;
}

static bool is_last_tile(const struct planner *planner, const struct walk_step *step)
{
    const struct model *model = planner->builder.model;
    return model_tiled(model) && model->units[step->unit].tile == model->mlp_tiles - 1;
}

static int part_buffer(struct planner *planner, enum activation_part part, int index)
{
    static const char *const names[PART_KINDS] = {"attention activations", "mlp activations", "norm activations",
                                                  "logits", "hidden activations"};
    const struct schedule_input *input = planner->builder.input;
    const char *name = part == PART_MLP && model_tiled(input->model) ? "mlp input" : names[part];
    struct activation_layout layout;
    activation_layout(&layout, input->model, part, input->B, input->T);
    return planner->part[part][index] = builder_bytes(&planner->builder, name, CATEGORY_ACTIVATIONS, layout.bytes);
}

static enum role role_of_part(enum activation_part part)
{
    return part == PART_ATTENTION ? ROLE_ATTENTION : ROLE_ACTIVATION;
}

/* The parts that a use saves, or needs for its backward. */
static bool use_has_part(enum use use, enum activation_part part)
{
    switch (use) {
    case USE_BLOCK_FORWARD:
    case USE_BLOCK_RECOMPUTE:
    case USE_BLOCK_BACKWARD: return part == PART_ATTENTION || part == PART_MLP;
    case USE_ATTENTION_RECOMPUTE: return part == PART_ATTENTION;
    case USE_MLP_FORWARD:
    case USE_MLP_RECOMPUTE:
    case USE_MLP_BACKWARD: return part == PART_HIDDEN;
    case USE_NORM_FORWARD:
    case USE_NORM_BACKWARD: return part == PART_NORM;
    case USE_HEAD_FORWARD:
    case USE_HEAD_BACKWARD: return part == PART_HEAD;
    default: return false;
    }
}

static void take_parts(struct planner *planner, const struct walk_step *step)
{
    const int index = part_index(planner->builder.model, step);
    for (int part = 0; part < PART_KINDS; part++)
        if (use_has_part(step->use, (enum activation_part)part))
            builder_take(&planner->builder, role_of_part((enum activation_part)part),
                         part_buffer(planner, (enum activation_part)part, index));
}

static void use_input(struct planner *planner, const struct walk_step *step)
{
    const int place = walk_place(planner->builder.model, step);
    if (is_of_tile(planner, step)) planner->builder.op->buffer[ROLE_INPUT] = *mlp_part(planner, step);
    else if (place > 0) planner->builder.op->buffer[ROLE_INPUT] = planner->output[place - 1];
}

/* Forward lets go of what nobody comes back for, and of what backward makes again. What a block leaves to its tiles the last
 * of them lets go. */
static void give_after_forward(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const struct config_zero *knobs = builder->input->knobs;
    const int index = part_index(builder->model, step), input = walk_place(builder->model, step) - 1;
    for (int part = 0; part < PART_KINDS; part++) {
        const bool kept = planner->training && walk_keeps_part(knobs, (enum activation_part)part);
        const bool for_tiles = part == PART_MLP && model_tiled(builder->model);
        if (use_has_part(step->use, (enum activation_part)part) && !kept && !for_tiles)
            builder_give(builder, planner->part[part][index]);
        if (for_tiles && is_last_tile(planner, step) && !kept) builder_give(builder, *mlp_part(planner, step));
    }
    if (input >= 0 && !is_of_tile(planner, step) &&
        !(planner->training && walk_keeps_output(builder->model, knobs, input)))
        builder_give(builder, planner->output[input]);
    if (!planner->training && step->use == USE_HEAD_FORWARD) builder_give(builder, planner->tokens);
}

/* Logits are nobody's input; of a block whose MLP is tiled the tiles make the output. */
static bool makes_output(const struct planner *planner, enum use use)
{
    const bool block = use == USE_BLOCK_FORWARD || use == USE_BLOCK_RECOMPUTE;
    return use != USE_HEAD_FORWARD && !(block && model_tiled(planner->builder.model));
}

static void write_forward(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    builder_begin(builder, op_of_use[step->use], step->micro_step, step->unit);
    builder_depend(builder, serial(planner, planner->last_comm), WAIT_LIMIT);
    if (makes_output(planner, step->use)) use_output(planner, step);
    take_parts(planner, step);
    take_scratch(planner, step->use);
    builder->op->buffer[ROLE_TOKENS] = planner->tokens;
    use_parameters(planner, at);
    use_input(planner, step);
    give_after_forward(planner, step);
    planner->last_compute = planner->last_use[walk_place(builder->model, step)] = builder_end(builder);
}

/* Forward again, into new buffers. The output of a segment's last block is a checkpoint and still there. */
static void write_recompute(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    const int place = walk_place(builder->model, step);
    builder_begin(builder, op_of_use[step->use], step->micro_step, step->unit);
    builder_depend(builder, serial(planner, planner->last_comm), WAIT_LIMIT);
    if (makes_output(planner, step->use) && !walk_keeps_output(builder->model, builder->input->knobs, place))
        use_output(planner, step);
    take_parts(planner, step);
    take_scratch(planner, step->use);
    use_parameters(planner, at);
    use_input(planner, step);
    if (!is_of_tile(planner, step) && walk_offloads_output(builder->model, builder->input->knobs, place - 1))
        builder_depend(builder, planner->moved[place - 1], WAIT_DATA);
    planner->last_compute = builder_end(builder);
}

/* ---- backward ---- */

void planner_cast(struct planner *planner, int micro_step, int unit, int from, int to, bool accumulate, int after)
{
    struct builder *builder = &planner->builder;
    if (builder->failed) return;
    const bool new = !accumulate && !builder->schedule->buffers[to].lasting,
               last = !builder->schedule->buffers[from].lasting;
    struct op *op = builder_begin(builder, OP_CAST, micro_step, unit);
    op->accumulate = accumulate;
    op->buffer[ROLE_SOURCE] = from;
    op->buffer[ROLE_GRADIENT] = to;
    if (new) builder_take(builder, ROLE_GRADIENT, to);
    if (last) builder_give(builder, from);
    builder_depend(builder, after, WAIT_DATA);
    planner->last_compute = builder_end(builder);
}

/* The gradient of a unit is written whole: into its lasting place, or into a buffer that goes back when it was reduced. */
static void take_gradient(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const bool accumulates = step->micro_step > 0 && !planner->reduce_every_time && !planner->cast_gradients;
    const bool held = step->use == USE_EMBED_BACKWARD || accumulates; /* tied: since head backward */
    if (planner->own_gradients && !held) {
        int buffer = builder_unit_buffer(builder, "unreduced gradient", CATEGORY_BUCKETS, EXTENT_WHOLE,
                                         builder->model->dtype, step->unit, false);
        planner->unit_gradient[step->unit] = buffer;
        builder_take(builder, ROLE_GRADIENT, buffer);
    }
    builder->op->buffer[ROLE_GRADIENT] = planner->unit_gradient[step->unit];
    builder->op->accumulate = accumulates;
}

static void give_after_backward(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const int index = part_index(builder->model, step);
    for (int part = 0; part < PART_KINDS; part++) {
        if (!use_has_part(step->use, (enum activation_part)part)) continue;
        builder->op->buffer[role_of_part((enum activation_part)part)] = planner->part[part][index];
        builder_give(builder, planner->part[part][index]);
    }
    if (!is_of_tile(planner, step)) builder_give(builder, planner->output[walk_place(builder->model, step) - 1]);
}

static int gradient_of_channels(struct planner *planner, const char *name)
{
    const struct schedule_input *input = planner->builder.input;
    return builder_bytes(&planner->builder, name, CATEGORY_WORKSPACE,
                         (int64_t)input->B * input->T * input->model->shape.hidden * dtype_bytes(input->model->dtype));
}

/* Of what a block's MLP reads: the tile that comes first in backward makes it, the others add to it, the block goes on from it. */
static void use_normed(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const bool block = step->use == USE_BLOCK_BACKWARD && model_tiled(builder->model);
    if (!block && !is_of_tile(planner, step)) return;
    if (is_last_tile(planner, step))
        builder_take(builder, ROLE_NORMED, planner->normed = gradient_of_channels(planner, "MLP gradient"));
    builder->op->buffer[ROLE_NORMED] = planner->normed;
    if (block) builder_give(builder, planner->normed);
}

static void write_backward(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    builder_begin(builder, op_of_use[step->use], step->micro_step, step->unit);
    builder_depend(builder, serial(planner, planner->last_comm), WAIT_LIMIT);
    if (step->use == USE_HEAD_BACKWARD)
        builder_take(builder, ROLE_RESIDUAL, planner->residual = gradient_of_channels(planner, "residual gradient"));
    builder->op->buffer[ROLE_RESIDUAL] = planner->residual;
    use_normed(planner, step);
    take_gradient(planner, step);
    take_scratch(planner, step->use);
    use_parameters(planner, at);
    if (step->use == USE_EMBED_BACKWARD) {
        builder->op->buffer[ROLE_TOKENS] = planner->tokens;
        builder_give(builder, planner->residual);
        builder_give(builder, planner->tokens);
    } else {
        use_input(planner, step);
        give_after_backward(planner, step);
    }
    planner->last_compute = builder_end(builder);
}

/* Where a unit's gradients of all micro-steps are added up before anything travels: its lasting place where that is
 * whole, or a buffer of the step. */
static int accumulator(struct planner *planner, int unit)
{
    struct builder *builder = &planner->builder;
    const int lasting = builder->layout[unit].whole;
    if (lasting >= 0) return lasting;
    return builder_unit_buffer(builder, "unreduced sum", CATEGORY_BUCKETS, EXTENT_WHOLE, builder->model->gradient, unit,
                               false);
}

/* From the type that backward makes to those in which gradients accumulate and travel, where these are others. Where all
 * micro-steps are reduced at once they are added up here; else as part of the reduction. */
static void convert_gradient(struct planner *planner, const struct walk_step *step, bool reduced)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const int unit = step->unit, after = serial(planner, planner->last_comm);
    int *gradient = &planner->unit_gradient[unit], *sum = &planner->accumulator[unit];
    if (planner->cast_gradients && !planner->reduce_every_time) {
        if (step->micro_step == 0) *sum = accumulator(planner, unit);
        planner_cast(planner, step->micro_step, unit, *gradient, *sum, step->micro_step > 0, after);
        *gradient = *sum;
    }
    if (!reduced || builder->failed || builder->schedule->buffers[*gradient].dtype == model->wire) return;
    int wire =
        builder_unit_buffer(builder, "gradient to send", CATEGORY_BUCKETS, EXTENT_WHOLE, model->wire, unit, false);
    planner_cast(planner, step->micro_step, unit, *gradient, wire, false, after);
    *gradient = wire;
}

static void write_use(struct planner *planner, int at)
{
    const struct walk_step *step = &planner->walk.steps[at];
    const bool overlap = planner->builder.schedule->knobs.overlap_comm;
    if (step->use == USE_EMBED_FORWARD) write_load(planner, step->micro_step);
    int newest = gatherer_before(&planner->gatherer, at, serial(planner, planner->last_compute));
    if (newest >= 0) planner->last_comm = newest;
    checkpoint_fetch(planner, step);
    updates_pending(planner, at);
    if (step->use < USE_HEAD_BACKWARD) write_forward(planner, at);
    else if (step->use >= USE_BLOCK_RECOMPUTE) write_recompute(planner, at);
    else write_backward(planner, at);
    checkpoint_offload(planner, step);
    gradients_leave(planner, planner->reduced);    /* one use later again, for the same reason */
    if (overlap) buckets_write(&planner->buckets); /* flushes of the use before: in flight while this one runs */

    const int micro_step = step->micro_step, unit = step->unit;
    bool reduced = planner->reduce_every_time || micro_step == planner->builder.schedule->micro_steps - 1;
    const bool complete = use_completes_gradient(step->use);
    if (complete) convert_gradient(planner, step, reduced);
    if (complete && reduced) {
        buckets_add_unit(&planner->buckets, micro_step, unit, planner->unit_gradient[unit],
                         reduction_into(planner, unit), planner->last_compute);
        if (step->use == USE_EMBED_BACKWARD) buckets_close(&planner->buckets);
    }
    if (!overlap) buckets_write(&planner->buckets);
    planner->reduced = planner->builder.schedule->op_count;
    if (planner->buckets.last_op > planner->last_comm) planner->last_comm = planner->buckets.last_op;
}

/* ---- all together ---- */

static int planner_init(struct planner *planner, struct schedule *schedule, const struct schedule_input *input)
{
    const struct model *model = input->model;
    const int stage = schedule->stage, units = model->unit_count;
    *planner = (struct planner){.builder = {.schedule = schedule, .input = input, .model = model},
                                .last_comm = -1,
                                .last_compute = -1,
                                .last_d2h = -1,
                                .host_norm = -1,
                                .pending_written = -1,
                                .travel_from = -1};
    for (int lane = 0; lane < LANES; lane++) planner->updated[lane] = -1;
    planner->training = input->purpose == PURPOSE_TRAIN;
    planner->delayed = planner->training && schedule->knobs.delayed_update;
    planner->cast_gradients = model->gradient != model->dtype;
    planner->own_gradients = stage >= 2 || planner->cast_gradients;
    planner->reduce_every_time = stage >= 2 && !schedule->knobs.no_sync;
    schedule->layout = planner->builder.layout = calloc((size_t)units, sizeof *schedule->layout);
    planner->output = calloc((size_t)units + 1, sizeof *planner->output);
    planner->last_use = calloc((size_t)units + 1, sizeof *planner->last_use);
    planner->moved = calloc((size_t)units + 1, sizeof *planner->moved);
    for (int part = 0; part < PART_KINDS; part++) {
        planner->part[part] = calloc((size_t)units + 1, sizeof *planner->part[part]);
        planner->builder.failed |= !planner->part[part];
    }
    planner->unit_gradient = calloc((size_t)units, sizeof *planner->unit_gradient);
    planner->accumulator = calloc((size_t)units, sizeof *planner->accumulator);
    planner->pending_update = calloc((size_t)units, sizeof *planner->pending_update);
    if (!walk_init(&planner->walk, model, input->knobs, planner->training, schedule->micro_steps) ||
        !planner->builder.layout || !planner->output || !planner->last_use || !planner->moved ||
        !planner->unit_gradient || !planner->accumulator || !planner->pending_update)
        planner->builder.failed = true;
    if (planner->builder.failed) return STATUS_RUN;
    buckets_init(&planner->buckets, &planner->builder, stage == 0 ? OP_ALL_REDUCE : OP_REDUCE_SCATTER,
                 planner->reduce_every_time);
    layout_build(&planner->builder);
    for (int u = 0; u < units; u++) {
        planner->unit_gradient[u] = planner->builder.layout[u].whole;
        planner->pending_update[u] = -1;
    }
    return gatherer_init(&planner->gatherer, &planner->builder, &planner->walk, stage == 3);
}

struct schedule_input schedule_input_of(const struct config *config, const struct model *model, enum purpose purpose)
{
    return (struct schedule_input){.model = model,
                                   .knobs = &config->zero,
                                   .purpose = purpose,
                                   .ranks = config->topology.ranks,
                                   .micro_steps = config->accumulation_steps,
                                   .B = purpose == PURPOSE_SAMPLE ? 1 : config->micro_batch_size,
                                   .T = config->data.sequence_length,
                                   .threads = config->topology.threads_per_rank};
}

/* A shard that comes from NVMe has to fit into the buffers it is read into. */
static int check_buffers(const struct schedule_input *input, struct error *err)
{
    const struct config_zero *knobs = input->knobs;
    for (int u = 0; knobs->offload_param == OFFLOAD_NVME && u < input->model->unit_count; u++) {
        const int64_t fills = staging_buffers_of(input->model, knobs, input->ranks, u);
        if (fills > knobs->param_buffers)
            return error_set(
                err, STATUS_USAGE,
                "zero_optimization.offload_param: a rank's shard of %s has %lld elements and fills %lld buffers "
                "of buffer_size; raise buffer_count (%lld) or buffer_size (%lld)",
                input->model->units[u].name, (long long)shard_elems(input->model->units[u].elems, input->ranks),
                (long long)fills, (long long)knobs->param_buffers, (long long)knobs->param_buffer_elems);
    }
    return STATUS_OK;
}

int schedule_build(struct schedule *schedule, const struct schedule_input *input, struct error *err)
{
    struct planner planner;
    *schedule = (struct schedule){.purpose = input->purpose,
                                  .stage = input->knobs->stage,
                                  .ranks = input->ranks,
                                  .B = input->B,
                                  .T = input->T,
                                  .micro_steps = input->purpose == PURPOSE_TRAIN ? input->micro_steps : 1,
                                  .knobs = *input->knobs,
                                  .nothing_pending = input->nothing_pending};
    if (check_buffers(input, err)) return STATUS_USAGE;
    if (planner_init(&planner, schedule, input) == STATUS_OK) {
        for (int at = 0; at < planner.walk.length && !planner.builder.failed; at++) write_use(&planner, at);
        buckets_write(&planner.buckets);
        gradients_leave(&planner, schedule->op_count);
        gradients_arrive(&planner);
        if (planner.buckets.last_op > planner.last_comm) planner.last_comm = planner.buckets.last_op;
        tail_write(&planner);
    }
    gatherer_release(&planner.gatherer);
    buckets_release(&planner.buckets);
    walk_release(&planner.walk);
    free(planner.output);
    free(planner.last_use);
    free(planner.moved);
    for (int part = 0; part < PART_KINDS; part++) free(planner.part[part]);
    free(planner.unit_gradient);
    free(planner.accumulator);
    free(planner.pending_update);
    free(planner.arrivals);
    return builder_finish(&planner.builder, err);
}
