/* Activations: what a use makes and saves for backward, where it finds its input, and when all of that goes back. Of a use
 * its output is the next one's input; what its backward needs is saved in buffers of its own. */
#include "engine/plan/planner.h"

static int output_buffer(struct planner *planner, int place)
{
    const struct schedule_input *input = planner->builder.input;
    const int block = place - input->model->first,
              blocks = input->model->shape.layers; /* the block that puts it out; -1: its input */
    const bool checkpoint = planner->training && input->knobs->recompute == RECOMPUTE_FULL && block >= -1 &&
                            block < blocks - 1 && walk_keeps_output(input->model, input->knobs, place);
    const char *name = checkpoint       ? "checkpoint"
                       : block < 0      ? "embedding out"
                       : block < blocks ? "block out"
                                        : "norm out";
    return planner->activations.output[place] =
               builder_bytes(&planner->builder, name, CATEGORY_ACTIVATIONS,
                             activation_output_bytes(input->model, input->B, input->T));
}

/* The first tile of an MLP begins its block's output, the others add to it. */
void activations_output(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    if (builder->model->units[step->unit].tile > 0)
        builder->op->buffer[ROLE_OUTPUT] = planner->activations.output[step->place];
    else builder_take(builder, ROLE_OUTPUT, output_buffer(planner, step->place));
}

/* Saved buffers are kept by unit; those of the tied use, whose unit is the first, behind all others. */
static int saved_index(const struct model *model, const struct walk_step *step)
{
    return step->use->repeat == REPEAT_TIED ? model->unit_count : step->unit;
}

/* What a block leaves to its tiles. */
static int *saved_for_tiles(struct planner *planner, const struct walk_step *step)
{
    const struct model *model = planner->builder.model;
    return &planner->activations
                .saved[model->architecture->saved_for_tiles][model_block(model, model->units[step->unit].block)];
}

static int new_saved(struct planner *planner, int s, int index)
{
    const struct schedule_input *input = planner->builder.input;
    const struct saved_row *row = &input->model->architecture->saved[s];
    const char *name = model_tiled(input->model) ? row->tiled_name : row->name;
    struct activation_layout layout;
    input->model->architecture->layout(&layout, input->model, s, input->B, input->T);
    return planner->activations.saved[s][index] =
               builder_bytes(&planner->builder, name, CATEGORY_ACTIVATIONS, layout.bytes);
}

void activations_take(struct planner *planner, const struct walk_step *step)
{
    const struct model *model = planner->builder.model;
    for (int s = 0; s < model->architecture->saved_count; s++)
        if (step->use->saves >> s & 1)
            builder_take(&planner->builder, saved_role(model, s),
                         new_saved(planner, s, saved_index(model, step)));
}

void activations_input(struct planner *planner, const struct walk_step *step)
{
    if (model_is_tile(planner->builder.model, step->unit))
        planner->builder.op->buffer[ROLE_INPUT] = *saved_for_tiles(planner, step);
    else if (step->place > 0) planner->builder.op->buffer[ROLE_INPUT] = planner->activations.output[step->place - 1];
}

/* Forward lets go of what nobody comes back for, and of what backward makes again. What a block leaves to its tiles the last
 * of them lets go. */
void activations_give_forward(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const struct config_zero *knobs = builder->input->knobs;
    const int index = saved_index(model, step), input = step->place - 1;
    for (int s = 0; s < model->architecture->saved_count; s++) {
        const bool kept = planner->training && walk_keeps_saved(model, knobs, s);
        const bool for_tiles = s == model->architecture->saved_for_tiles && model_tiled(model);
        if (step->use->saves >> s & 1 && !kept && !for_tiles)
            builder_give(builder, planner->activations.saved[s][index]);
        if (for_tiles && model_is_last_tile(model, step->unit) && !kept)
            builder_give(builder, *saved_for_tiles(planner, step));
    }
    if (input >= 0 && !model_is_tile(model, step->unit) &&
        !(planner->training && walk_keeps_output(model, knobs, input)))
        builder_give(builder, planner->activations.output[input]);
    if (!planner->training && step->place == model->places - 1) builder_give(builder, planner->activations.tokens);
}

/* Of a block that is tiled the tiles make the output. */
bool activations_makes_output(const struct planner *planner, const struct walk_step *step)
{
    return step->use->output && !(step->use->repeat == REPEAT_BLOCK && model_tiled(planner->builder.model));
}

void activations_give_backward(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    const int index = saved_index(model, step);
    for (int s = 0; s < model->architecture->saved_count; s++) {
        if (!(step->use->saves >> s & 1)) continue;
        builder->op->buffer[saved_role(model, s)] = planner->activations.saved[s][index];
        builder_give(builder, planner->activations.saved[s][index]);
    }
    if (!model_is_tile(model, step->unit)) builder_give(builder, planner->activations.output[step->place - 1]);
}

/* ---- kept inputs of recomputed segments that wait in the host tier (DeepSpeed's cpu_checkpointing) ----
 *
 * Copies on two lanes of their own, one for each direction, beside the compute lane. */

/* Moves the output at a place to another tier: what it leaves goes back when the copy is done. */
static void write_copy(struct planner *planner, enum op_kind kind, enum tier tier, int micro_step, int place, int after)
{
    struct builder *builder = &planner->builder;
    const int from = planner->activations.output[place],
              to = builder_bytes_in(builder, tier, "checkpoint", CATEGORY_ACTIVATIONS,
                                    activation_output_bytes(builder->model, builder->input->B, builder->input->T));
    if (builder->failed) return;
    struct op *op = builder_begin(builder, kind, micro_step, model_unit_at(builder->model, place));
    op->bytes = builder->schedule->buffers[to].bytes;
    op->buffer[ROLE_SOURCE] = from;
    builder_take(builder, ROLE_OUTPUT, to);
    builder_give(builder, from);
    builder_depend(builder, after, WAIT_DATA);
    planner->activations.output[place] = to;
    planner->activations.moved[place] = builder_end(builder);
}

/* A checkpoint leaves when the block that reads it is done, and is written down one use later, because what is taken
 * below waits until it has left: so the copy has the time of that use. */
void activations_offload(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    const int place = step->place - 2;
    if (model_is_tile(input->model, step->unit)) return; /* its block's use was the one */
    if (planner->training && step->kind == OP_FORWARD && walk_offloads_output(input->model, input->knobs, place))
        write_copy(planner, OP_OFFLOAD, TIER_HOST, step->micro_step, place, planner->activations.last_use[place + 1]);
}

/* With the first operation of a segment, the checkpoint of the segment that comes next in backward sets out. */
void activations_fetch(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    if (step->kind != OP_RECOMPUTE || model_is_tile(input->model, step->unit)) return;
    const int place = walk_checkpoint_before(input->model, input->knobs, step->place);
    if (walk_offloads_output(input->model, input->knobs, place))
        write_copy(planner, OP_FETCH, TIER_DEVICE, step->micro_step, place, planner->activations.moved[place]);
}
