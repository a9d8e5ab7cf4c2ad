#include "engine/plan/walk.h"

#include <stdlib.h>

static int segment_blocks(const struct config_zero *knobs)
{
    return knobs->checkpoint_every > 0 ? knobs->checkpoint_every : 1;
}

int walk_place(const struct model *model, const struct walk_step *step)
{
    bool head = step->use == USE_HEAD_FORWARD || step->use == USE_HEAD_BACKWARD;
    return head ? model->shape.layers + 2 : walk_unit_place(model, step->unit);
}

int walk_unit_place(const struct model *model, int unit)
{
    const struct unit *of = &model->units[unit];
    return of->kind == UNIT_EMBED ? 0 : of->kind == UNIT_NORM ? model->shape.layers + 1 : of->block + 1;
}

int walk_unit_at(const struct model *model, int place)
{
    return place == 0 ? 0 : place > model->shape.layers ? model->unit_count - 1 : model_block(model, place - 1);
}

bool use_completes_gradient(enum use use)
{
    return use == USE_NORM_BACKWARD || use == USE_MLP_BACKWARD || use == USE_BLOCK_BACKWARD ||
           use == USE_EMBED_BACKWARD;
}

bool walk_keeps_output(const struct model *model, const struct config_zero *knobs, int place)
{
    bool between_blocks = place >= 1 && place < model->shape.layers;
    return knobs->recompute != RECOMPUTE_FULL || !between_blocks || place % segment_blocks(knobs) == 0;
}

bool walk_offloads_output(const struct model *model, const struct config_zero *knobs, int place)
{
    return knobs->recompute == RECOMPUTE_FULL && knobs->cpu_checkpointing && place >= 0 &&
           place % segment_blocks(knobs) == 0 && place + segment_blocks(knobs) < model->shape.layers;
}

int walk_checkpoint_before(const struct config_zero *knobs, int place)
{
    const int input = place - 1;
    return input % segment_blocks(knobs) == 0 ? input - segment_blocks(knobs) : -1;
}

bool walk_keeps_part(const struct config_zero *knobs, enum activation_part part)
{
    switch (part) {
    case PART_ATTENTION: return knobs->recompute == RECOMPUTE_NONE;
    case PART_MLP:
    case PART_HIDDEN: return knobs->recompute != RECOMPUTE_FULL;
    default: return true;
    }
}

static void add(struct walk *walk, enum use use, int unit, int micro_step)
{
    walk->steps[walk->length++] = (struct walk_step){use, unit, micro_step, use != USE_EMBED_BACKWARD};
}

static int tiles_of(const struct model *model)
{
    return model_tiled(model) ? model->mlp_tiles : 0;
}

/* A use of a block and then of its tiles. */
static void add_block(struct walk *walk, const struct model *model, enum use block, enum use mlp, int number,
                      int micro_step)
{
    add(walk, block, model_block(model, number), micro_step);
    for (int tile = 0; mlp < USES && tile < tiles_of(model); tile++)
        add(walk, mlp, model_mlp(model, number, tile), micro_step);
}

static void add_block_backward(struct walk *walk, const struct model *model, const struct config_zero *knobs,
                               int number, int micro_step)
{
    const bool again = knobs->recompute == RECOMPUTE_FULL && walk_keeps_output(model, knobs, number + 1);
    for (int tile = tiles_of(model) - 1; tile >= 0; tile--) {
        if (again) add(walk, USE_MLP_RECOMPUTE, model_mlp(model, number, tile), micro_step);
        add(walk, USE_MLP_BACKWARD, model_mlp(model, number, tile), micro_step);
    }
    if (knobs->recompute == RECOMPUTE_ATTENTION)
        add(walk, USE_ATTENTION_RECOMPUTE, model_block(model, number), micro_step);
    add(walk, USE_BLOCK_BACKWARD, model_block(model, number), micro_step);
}

/* Segments from the last to the first: forward through one again if need be, then back through it. */
static void add_blocks_backward(struct walk *walk, const struct model *model, const struct config_zero *knobs,
                                int micro_step)
{
    const int each = segment_blocks(knobs), blocks = model->shape.layers;
    for (int first = (blocks - 1) / each * each; first >= 0; first -= each) {
        const int end = first + each < blocks ? first + each : blocks;
        for (int b = first; b < end && knobs->recompute == RECOMPUTE_FULL; b++)
            add_block(walk, model, USE_BLOCK_RECOMPUTE,
                      walk_keeps_output(model, knobs, b + 1) ? USES : USE_MLP_RECOMPUTE, b, micro_step);
        for (int b = end - 1; b >= first; b--) add_block_backward(walk, model, knobs, b, micro_step);
    }
}

static void add_micro_step(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training,
                           int micro_step)
{
    const int norm = model->unit_count - 1;
    add(walk, USE_EMBED_FORWARD, 0, micro_step);
    for (int b = 0; b < model->shape.layers; b++)
        add_block(walk, model, USE_BLOCK_FORWARD, USE_MLP_FORWARD, b, micro_step);
    add(walk, USE_NORM_FORWARD, norm, micro_step);
    add(walk, USE_HEAD_FORWARD, 0, micro_step);
    if (!training) return;
    add(walk, USE_HEAD_BACKWARD, 0, micro_step);
    add(walk, USE_NORM_BACKWARD, norm, micro_step);
    add_blocks_backward(walk, model, knobs, micro_step);
    add(walk, USE_EMBED_BACKWARD, 0, micro_step);
}

bool walk_init(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training,
               int micro_steps)
{
    const int64_t uses = 3 * (int64_t)model->unit_count + 2; /* of a micro-step at most */
    *walk = (struct walk){calloc((size_t)(uses * micro_steps), sizeof *walk->steps), 0};
    for (int m = 0; walk->steps && m < micro_steps; m++) add_micro_step(walk, model, knobs, training, m);
    return walk->steps != NULL;
}

void walk_release(struct walk *walk)
{
    free(walk->steps);
}
