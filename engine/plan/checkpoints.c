/* Checkpoints of recomputed segments that wait in the host tier (DeepSpeed's cpu_checkpointing): copies on two lanes of their
 * own, one for each direction, beside the compute lane. */
#include "engine/plan/planner.h"

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
void checkpoint_offload(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    const int place = walk_place(input->model, step) - 2;
    if (step->use == USE_MLP_FORWARD) return; /* its block's use was the one */
    if (planner->training && step->use < USE_HEAD_FORWARD && walk_offloads_output(input->model, input->knobs, place))
        write_copy(planner, OP_OFFLOAD, TIER_HOST, step->micro_step, place, planner->last_use[place + 1]);
}

/* With the first operation of a segment, the checkpoint of the segment that comes next in backward sets out. */
void checkpoint_fetch(struct planner *planner, const struct walk_step *step)
{
    const struct schedule_input *input = planner->builder.input;
    if (step->use != USE_BLOCK_RECOMPUTE) return;
    const int place = walk_checkpoint_before(input->knobs, walk_place(input->model, step));
    if (walk_offloads_output(input->model, input->knobs, place))
        write_copy(planner, OP_FETCH, TIER_DEVICE, step->micro_step, place, planner->moved[place]);
}
