/* Activations: what a use makes and saves for backward, where it finds its input, and when all of that goes back. Of a use
 * its output is the next one's input; its parts are what its backward needs, each a buffer of its own. */
#include "engine/plan/planner.h"

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
void activations_output(struct planner *planner, const struct walk_step *step)
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

void activations_take(struct planner *planner, const struct walk_step *step)
{
    const int index = part_index(planner->builder.model, step);
    for (int part = 0; part < PART_KINDS; part++)
        if (use_has_part(step->use, (enum activation_part)part))
            builder_take(&planner->builder, role_of_part((enum activation_part)part),
                         part_buffer(planner, (enum activation_part)part, index));
}

void activations_input(struct planner *planner, const struct walk_step *step)
{
    const int place = walk_place(planner->builder.model, step);
    if (model_is_tile(planner->builder.model, step->unit))
        planner->builder.op->buffer[ROLE_INPUT] = *mlp_part(planner, step);
    else if (place > 0) planner->builder.op->buffer[ROLE_INPUT] = planner->output[place - 1];
}

/* Forward lets go of what nobody comes back for, and of what backward makes again. What a block leaves to its tiles the last
 * of them lets go. */
void activations_give_forward(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const struct config_zero *knobs = builder->input->knobs;
    const int index = part_index(builder->model, step), input = walk_place(builder->model, step) - 1;
    for (int part = 0; part < PART_KINDS; part++) {
        const bool kept = planner->training && walk_keeps_part(knobs, (enum activation_part)part);
        const bool for_tiles = part == PART_MLP && model_tiled(builder->model);
        if (use_has_part(step->use, (enum activation_part)part) && !kept && !for_tiles)
            builder_give(builder, planner->part[part][index]);
        if (for_tiles && model_is_last_tile(planner->builder.model, step->unit) && !kept)
            builder_give(builder, *mlp_part(planner, step));
    }
    if (input >= 0 && !model_is_tile(planner->builder.model, step->unit) &&
        !(planner->training && walk_keeps_output(builder->model, knobs, input)))
        builder_give(builder, planner->output[input]);
    if (!planner->training && step->use == USE_HEAD_FORWARD) builder_give(builder, planner->tokens);
}

/* Logits are nobody's input; of a block whose MLP is tiled the tiles make the output. */
bool activations_makes_output(const struct planner *planner, enum use use)
{
    const bool block = use == USE_BLOCK_FORWARD || use == USE_BLOCK_RECOMPUTE;
    return use != USE_HEAD_FORWARD && !(block && model_tiled(planner->builder.model));
}

void activations_give_backward(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const int index = part_index(builder->model, step);
    for (int part = 0; part < PART_KINDS; part++) {
        if (!use_has_part(step->use, (enum activation_part)part)) continue;
        builder->op->buffer[role_of_part((enum activation_part)part)] = planner->part[part][index];
        builder_give(builder, planner->part[part][index]);
    }
    if (!model_is_tile(planner->builder.model, step->unit))
        builder_give(builder, planner->output[walk_place(builder->model, step) - 1]);
}

/* ---- kept inputs of recomputed segments that wait in the host tier (DeepSpeed's cpu_checkpointing) ----
 *
 * Copies on two lanes of their own, one for each direction, beside the compute lane. */

static int checkpoint_buffer(struct planner *planner, enum tier tier)
{
    const struct schedule_input *input = planner->builder.input;
    struct buffer buffer = {.name = "checkpoint",
                            .tier = tier,
                            .category = CATEGORY_ACTIVATIONS,
                            .extent = EXTENT_BYTES,
                            .unit = -1,
                            .bytes = activation_output_bytes(input->model, input->B, input->T)};
    return builder_buffer(&planner->builder, &buffer);
}

/* Moves the output at a place to another tier: what it leaves goes back when the copy is done. */
static void write_copy(struct planner *planner, enum op_kind kind, enum tier tier, int micro_step, int place, int after)
{
    struct builder *builder = &planner->builder;
    const int from = planner->output[place], to = checkpoint_buffer(planner, tier);
    if (builder->failed) return;
    struct op *op = builder_begin(builder, kind, micro_step, walk_unit_at(builder->model, place));
    op->bytes = builder->schedule->buffers[to].bytes;
    op->buffer[ROLE_SOURCE] = from;
    builder_take(builder, ROLE_OUTPUT, to);
    builder_give(builder, from);
    builder_depend(builder, after, WAIT_DATA);
    planner->output[place] = to;
    planner->moved[place] = builder_end(builder);
}

/* A checkpoint leaves when the block that reads it is done, and is written down one use later, because what is taken
 * below waits until it has left: so the copy has the time of that use. */
void activations_offload(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    const int place = walk_place(input->model, step) - 2;
    if (step->use == USE_MLP_FORWARD) return; /* its block's use was the one */
    if (planner->training && step->use < USE_HEAD_FORWARD && walk_offloads_output(input->model, input->knobs, place))
        write_copy(planner, OP_OFFLOAD, TIER_HOST, step->micro_step, place, planner->last_use[place + 1]);
}

/* With the first operation of a segment, the checkpoint of the segment that comes next in backward sets out. */
void activations_fetch(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    if (step->use != USE_BLOCK_RECOMPUTE) return;
    const int place = walk_checkpoint_before(input->knobs, walk_place(input->model, step));
    if (walk_offloads_output(input->model, input->knobs, place))
        write_copy(planner, OP_FETCH, TIER_DEVICE, step->micro_step, place, planner->moved[place]);
}
