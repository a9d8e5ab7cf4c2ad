/* The gradient of a unit: where backward writes it, and the types it takes on its way to the reduction. Beside it the
 * gradients of activations, which pass from one use to the next and are nobody's to keep. */
#include "engine/plan/planner.h"

int gradient_of_channels(struct planner *planner, const char *name)
{
    const struct schedule_input *input = planner->builder.input;
    return builder_bytes(&planner->builder, name, CATEGORY_WORKSPACE,
                         (int64_t)input->B * input->T * input->model->shape.hidden * dtype_bytes(input->model->dtype));
}

/* Of what a block's MLP reads: the tile that comes first in backward makes it, the others add to it, the block goes on from it. */
void gradient_normed(struct planner *planner, const struct walk_step *step)
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
void gradient_take(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const bool accumulates = step->micro_step > 0 && !planner->gradients.every_time && !planner->gradients.cast;
    const bool held = step->place == 0 || accumulates; /* tied: since head backward */
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
    if (!reduced || builder->failed || builder->schedule->buffers[*gradient].dtype == model->wire) return;
    int wire = builder_unit_buffer(builder, "gradient to send", CATEGORY_BUCKETS, EXTENT_WHOLE, model->wire, unit);
    planner_cast(planner, step->micro_step, unit, *gradient, wire, false, after);
    *gradient = wire;
}
