#include "engine/plan/walk.h"

#include <stdlib.h>

static int segment_blocks(const struct config_zero *knobs)
{
    return knobs->checkpoint_every > 0 ? knobs->checkpoint_every : 1;
}

/* The block that reads the output at a place; below 0, or past the last: no block does. */
static int block_behind(const struct model *model, int place)
{
    return place + 1 - model->first;
}

bool walk_keeps_output(const struct model *model, const struct config_zero *knobs, int place)
{
    const int block = block_behind(model, place);
    const bool between_blocks = block >= 1 && block < model->shape.layers;
    return knobs->recompute != RECOMPUTE_FULL || !between_blocks || block % segment_blocks(knobs) == 0;
}

bool walk_offloads_output(const struct model *model, const struct config_zero *knobs, int place)
{
    const int block = block_behind(model, place);
    return knobs->recompute == RECOMPUTE_FULL && knobs->cpu_checkpointing && block >= 0 &&
           block % segment_blocks(knobs) == 0 && block + segment_blocks(knobs) < model->shape.layers;
}

int walk_checkpoint_before(const struct model *model, const struct config_zero *knobs, int place)
{
    const int input = place - 1, each = segment_blocks(knobs);
    return block_behind(model, input) % each == 0 && block_behind(model, input) >= each ? input - each : -1;
}

bool walk_keeps_saved(const struct model *model, const struct config_zero *knobs, int s)
{
    return !(model->architecture->saved[s].remade & 1u << knobs->recompute);
}

/* The backward of the first use only needs to know which rows forward looked up. */
static void add(struct walk *walk, const struct model *model, enum op_kind kind, const struct use *use, int unit,
                int micro_step)
{
    const int place = model_place(model, use, unit);
    walk->steps[walk->length++] =
        (struct walk_step){kind, use, unit, place, micro_step, kind != OP_BACKWARD || place > 0};
}

static int tiles_of(const struct model *model)
{
    return model_tiled(model) ? model->mlp_tiles : 0;
}

/* The own use of a unit. */
static void add_unit(struct walk *walk, const struct model *model, enum op_kind kind, int unit, int micro_step)
{
    add(walk, model, kind, model->units[unit].use, unit, micro_step);
}

static void add_block(struct walk *walk, const struct model *model, enum op_kind kind, int number, int tiles,
                      int micro_step)
{
    add_unit(walk, model, kind, model_block(model, number), micro_step);
    for (int tile = 0; tile < tiles; tile++) add_unit(walk, model, kind, model_mlp(model, number, tile), micro_step);
}

static void add_half_again(struct walk *walk, const struct model *model, int number, int micro_step)
{
    const struct architecture *of = model->architecture;
    for (const struct use *use = of->uses; use < of->uses + of->use_count; use++)
        if (use->repeat == REPEAT_HALF) add(walk, model, OP_RECOMPUTE, use, model_block(model, number), micro_step);
}

static void add_block_backward(struct walk *walk, const struct model *model, const struct config_zero *knobs,
                               int number, int micro_step)
{
    const bool again = knobs->recompute == RECOMPUTE_FULL && walk_keeps_output(model, knobs, model->first + number);
    for (int tile = tiles_of(model) - 1; tile >= 0; tile--) {
        const int unit = model_mlp(model, number, tile);
        if (again) add_unit(walk, model, OP_RECOMPUTE, unit, micro_step);
        add_unit(walk, model, OP_BACKWARD, unit, micro_step);
    }
    if (knobs->recompute == RECOMPUTE_ATTENTION) add_half_again(walk, model, number, micro_step);
    add_unit(walk, model, OP_BACKWARD, model_block(model, number), micro_step);
}

/* Segments from the last to the first: forward through one again if need be, then back through it. */
static void add_blocks_backward(struct walk *walk, const struct model *model, const struct config_zero *knobs,
                                int micro_step)
{
    const int each = segment_blocks(knobs), blocks = model->shape.layers;
    for (int first = (blocks - 1) / each * each; first >= 0; first -= each) {
        const int end = first + each < blocks ? first + each : blocks;
        for (int b = first; b < end && knobs->recompute == RECOMPUTE_FULL; b++)
            add_block(walk, model, OP_RECOMPUTE, b,
                      walk_keeps_output(model, knobs, model->first + b) ? 0 : tiles_of(model), micro_step);
        for (int b = end - 1; b >= first; b--) add_block_backward(walk, model, knobs, b, micro_step);
    }
}

/* -1: it has none. */
static int unit_of(const struct model *model, const struct use *use)
{
    int unit = model->unit_count - 1;
    while (unit >= 0 && model->units[unit].use != use) unit--;
    return unit;
}

/* All that one use of the architecture stands for, forward or back; a half and tiles stand with their block. */
static void add_use(struct walk *walk, const struct model *model, const struct config_zero *knobs, enum op_kind kind,
                    const struct use *use, int micro_step)
{
    const int own = unit_of(model, use);
    switch (use->repeat) {
    case REPEAT_ONCE:
        if (own >= 0) add(walk, model, kind, use, own, micro_step);
        break;
    case REPEAT_TIED: add(walk, model, kind, use, model->tied ? 0 : own, micro_step); break;
    case REPEAT_BLOCK:
        if (kind == OP_BACKWARD) add_blocks_backward(walk, model, knobs, micro_step);
        for (int b = 0; kind == OP_FORWARD && b < model->shape.layers; b++)
            add_block(walk, model, kind, b, tiles_of(model), micro_step);
        break;
    case REPEAT_TILE:
    case REPEAT_HALF: break;
    }
}

static void add_micro_step(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training,
                           int micro_step)
{
    const struct use *uses = model->architecture->uses;
    const int count = model->architecture->use_count;
    for (int u = 0; u < count; u++) add_use(walk, model, knobs, OP_FORWARD, &uses[u], micro_step);
    for (int u = count - 1; training && u >= 0; u--) add_use(walk, model, knobs, OP_BACKWARD, &uses[u], micro_step);
}

bool walk_init(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training,
               int micro_steps)
{
    const int64_t uses = 3 * (int64_t)model->unit_count + 2; /* of a micro-step at most */
    *walk = (struct walk){calloc((size_t)(uses * micro_steps), sizeof *walk->steps), 0};
    for (int m = 0; walk->steps && m < micro_steps; m++) add_micro_step(walk, model, knobs, training, m);
    return walk->steps != NULL;
}
