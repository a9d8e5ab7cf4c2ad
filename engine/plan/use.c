/* The operations of one use of a unit: forward, forward again, or backward. Each is begun, takes what it makes and its
 * scratch, is told where its parameters and its input lie, gives back buffers that no later operation uses, and is ended. */
#include "engine/plan/planner.h"

/* ---- gradient buffers of the backward being written. Each function sets a buffer in the operation and takes it if it is new. Backward
 * writes a unit's gradient, which is then converted to the type of the reduction. Gradients of activations go from one use to the
 * next ---- */

static int gradient_of_channels(struct planner *planner, const char *name)
{
    const struct schedule_input *input = planner->builder.input;
    return builder_bytes(&planner->builder, name, CATEGORY_WORKSPACE,
                         (int64_t)input->B * input->T * input->model->shape.hidden * dtype_bytes(input->model->dtype));
}

/* Of what a block's MLP reads: the tile that comes first in backward makes it, the others add to it, the block goes on from it. */
static void gradient_normed(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const bool block = step->use->repeat == REPEAT_BLOCK && model_tiled(builder->model);
    if (!block && !model_is_tile(planner->builder.model, step->unit)) return;
    if (model_is_last_tile(planner->builder.model, step->unit))
        builder_take(builder, ROLE_NORMED, planner->gradients.normed = gradient_of_channels(planner, "MLP gradient"));
    builder->op->buffer[ROLE_NORMED] = planner->gradients.normed;
    if (block) builder_give(builder, planner->gradients.normed);
}

/* The gradient of a unit is written whole: into its lasting place, or into a buffer that goes back when it was reduced. */
static void gradient_take(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const bool accumulates = step->micro_step > 0 && !planner->gradients.every_time && !planner->gradients.cast;
    const bool held = (step->place == 0 && builder->model->tied) || accumulates; /* tied: since head backward */
    if (planner->gradients.own && !held) {
        int buffer = builder_unit_buffer(builder, "unreduced gradient", CATEGORY_BUCKETS, EXTENT_WHOLE,
                                         builder->model->dtype, step->unit);
        planner->gradients.of_unit[step->unit] = buffer;
        builder_take(builder, ROLE_GRADIENT, buffer);
    }
    builder->op->buffer[ROLE_GRADIENT] = planner->gradients.of_unit[step->unit];
    builder->op->accumulate = accumulates;
}

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

/* Where a unit's gradients of all micro-steps are added up before anything travels: its lasting place where that is
 * whole, or a buffer of the step. */
static int accumulator(struct planner *planner, int unit)
{
    struct builder *builder = &planner->builder;
    const int lasting = builder->layout[unit].whole;
    if (lasting >= 0) return lasting;
    return builder_unit_buffer(builder, "unreduced sum", CATEGORY_BUCKETS, EXTENT_WHOLE, builder->model->gradient,
                               unit);
}

/* From the type that backward makes to those in which gradients accumulate and travel, where these are others. Where all
 * micro-steps are reduced at once they are added up here; else as part of the reduction. */
void gradient_convert(struct planner *planner, const struct walk_step *step, bool reduced)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const int unit = step->unit, after = planner_serial(planner, planner->last_comm);
    int *gradient = &planner->gradients.of_unit[unit], *sum = &planner->gradients.accumulator[unit];
    if (planner->gradients.cast && !planner->gradients.every_time) {
        if (step->micro_step == 0) *sum = accumulator(planner, unit);
        planner_cast(planner, step->micro_step, unit, *gradient, *sum, step->micro_step > 0, after);
        *gradient = *sum;
    }
    if (!reduced || builder->failed || builder->schedule->buffers[*gradient].dtype == model->wire ||
        schedule_quantizes_gradients(builder->schedule))
        return;
    int wire = builder_unit_buffer(builder, "gradient to send", CATEGORY_BUCKETS, EXTENT_WHOLE, model->wire, unit);
    planner_cast(planner, step->micro_step, unit, *gradient, wire, false, after);
    *gradient = wire;
}

/* ---- uses ---- */

void use_load(struct planner *planner, int micro_step)
{
    const struct schedule_input *input = planner->builder.input;
    builder_begin(&planner->builder, OP_LOAD, micro_step, -1);
    planner->activations.tokens =
        builder_bytes(&planner->builder, "tokens", CATEGORY_ACTIVATIONS, (int64_t)input->B * input->T * 2 * 4);
    builder_take(&planner->builder, ROLE_TOKENS, planner->activations.tokens);
    planner->last_compute = builder_end(&planner->builder);
}

/* Without overlap_comm an operation may not start before everything above it is done. */
int planner_serial(const struct planner *planner, int op)
{
    return planner->builder.schedule->knobs.overlap_comm ? -1 : op;
}

static void use_parameters(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    const struct unit_layout *layout = &builder->layout[step->unit];
    if (!step->needs_parameters) return;
    const bool gathers = planner->gatherer.active;
    const struct gathered gathered = planner->gatherer.of[step->unit];
    builder->op->buffer[ROLE_PARAMETERS] = gathers ? gathered.buffer : layout->parameters;
    builder->op->buffer[ROLE_TAIL] = layout->tail;
    if (!gathers || gathered.buffer < 0) return; /* all of it may be tail */
    builder_depend(builder, gathered.op, WAIT_DATA);
    const int consumed = gatherer_consumed(&planner->gatherer, at);
    if (consumed >= 0) builder_give(builder, consumed);
    if (!gatherer_lets_go(&planner->gatherer, at)) return;
    if (gatherer_keeps(&planner->gatherer, at)) planner->to_keep = gathered.buffer;
    else builder_give(builder, gathered.buffer);
}

/* The use is over, and its unit is let go. */
static void keep_secondary(struct planner *planner, int at)
{
    if (planner->to_keep < 0) return;
    planner->last_compute = gatherer_keep(&planner->gatherer, at, planner->to_keep);
    planner->to_keep = -1;
}

static void take_scratch(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    const struct model *model = input->model;
    const int64_t bytes =
        model->architecture->scratch_bytes(model, step->kind, step->use, input->B, input->T, input->threads);
    if (!bytes) return;
    int scratch = builder_bytes(&planner->builder, "scratch", CATEGORY_WORKSPACE, bytes);
    builder_take(&planner->builder, ROLE_SCRATCH, scratch);
    builder_give(&planner->builder, scratch);
}

static void begin_use(struct planner *planner, const struct walk_step *step)
{
    builder_begin(&planner->builder, step->kind, step->micro_step, step->unit)->use = step->use;
    builder_depend(&planner->builder, planner_serial(planner, planner->last_comm), WAIT_LIMIT);
}

static void write_forward(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    begin_use(planner, step);
    if (activations_makes_output(planner, step)) activations_output(planner, step);
    activations_take(planner, step);
    take_scratch(planner, step);
    builder->op->buffer[ROLE_TOKENS] = planner->activations.tokens;
    use_parameters(planner, at);
    activations_input(planner, step);
    activations_give_forward(planner, step);
    planner->last_compute = planner->activations.last_use[step->place] = builder_end(builder);
}

/* Forward again, into new buffers. The output of a segment's last block is a checkpoint and still there. */
static void write_recompute(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    begin_use(planner, step);
    if (activations_makes_output(planner, step) &&
        !walk_keeps_output(builder->model, builder->input->knobs, step->place))
        activations_output(planner, step);
    activations_take(planner, step);
    take_scratch(planner, step);
    use_parameters(planner, at);
    activations_input(planner, step);
    if (!model_is_tile(builder->model, step->unit) &&
        walk_offloads_output(builder->model, builder->input->knobs, step->place - 1))
        builder_depend(builder, planner->activations.moved[step->place - 1], WAIT_DATA);
    planner->last_compute = builder_end(builder);
}

static void write_backward(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk.steps[at];
    begin_use(planner, step);
    if (step->place == builder->model->places - 1)
        builder_take(builder, ROLE_RESIDUAL,
                     planner->activations.residual = gradient_of_channels(planner, "residual gradient"));
    builder->op->buffer[ROLE_RESIDUAL] = planner->activations.residual;
    gradient_normed(planner, step);
    gradient_take(planner, step);
    take_scratch(planner, step);
    use_parameters(planner, at);
    if (step->place == 0) {
        builder->op->buffer[ROLE_TOKENS] = planner->activations.tokens;
        builder_give(builder, planner->activations.residual);
        builder_give(builder, planner->activations.tokens);
    } else {
        activations_input(planner, step);
        activations_give_backward(planner, step);
    }
    planner->last_compute = builder_end(builder);
}

void use_write(struct planner *planner, int at)
{
    switch (planner->walk.steps[at].kind) {
    case OP_FORWARD: write_forward(planner, at); break;
    case OP_RECOMPUTE: write_recompute(planner, at); break;
    default: write_backward(planner, at); break;
    }
    keep_secondary(planner, at);
}
