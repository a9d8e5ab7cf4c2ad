#include "engine/plan/walk.h"

#include <stdlib.h>

static int segment_blocks(const struct config_zero *knobs)
{
    return knobs->checkpoint_every > 0 ? knobs->checkpoint_every : 1;
}

int walk_place(const struct model *model, const struct walk_step *step)
{
    bool head = step->use == USE_HEAD_FORWARD || step->use == USE_HEAD_BACKWARD;
    return head ? model->unit_count : step->unit;
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

int walk_checkpoint_before(const struct config_zero *knobs, int unit)
{
    const int input = unit - 1;
    return input % segment_blocks(knobs) == 0 ? input - segment_blocks(knobs) : -1;
}

bool walk_keeps_part(const struct config_zero *knobs, enum activation_part part)
{
    switch (part) {
    case PART_ATTENTION: return knobs->recompute == RECOMPUTE_NONE;
    case PART_MLP: return knobs->recompute != RECOMPUTE_FULL;
    default: return true;
    }
}

static void add(struct walk *walk, enum use use, int unit, int micro_step)
{
    walk->steps[walk->length++] = (struct walk_step){use, unit, micro_step, use != USE_EMBED_BACKWARD};
}

/* Segments from the last to the first: forward through one again if need be, then back through it. */
static void add_blocks_backward(struct walk *walk, const struct config_zero *knobs, int blocks, int micro_step)
{
    const int each = segment_blocks(knobs);
    for (int first = (blocks - 1) / each * each + 1; first >= 1; first -= each) {
        const int last = first + each - 1 < blocks ? first + each - 1 : blocks;
        for (int u = first; u <= last && knobs->recompute == RECOMPUTE_FULL; u++)
            add(walk, USE_BLOCK_RECOMPUTE, u, micro_step);
        for (int u = last; u >= first; u--) {
            if (knobs->recompute == RECOMPUTE_ATTENTION) add(walk, USE_ATTENTION_RECOMPUTE, u, micro_step);
            add(walk, USE_BLOCK_BACKWARD, u, micro_step);
        }
    }
}

static void add_micro_step(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training,
                           int micro_step)
{
    const int norm = model->unit_count - 1;
    add(walk, USE_EMBED_FORWARD, 0, micro_step);
    for (int u = 1; u < norm; u++) add(walk, USE_BLOCK_FORWARD, u, micro_step);
    add(walk, USE_NORM_FORWARD, norm, micro_step);
    add(walk, USE_HEAD_FORWARD, 0, micro_step);
    if (!training) return;
    add(walk, USE_HEAD_BACKWARD, 0, micro_step);
    add(walk, USE_NORM_BACKWARD, norm, micro_step);
    add_blocks_backward(walk, knobs, model->shape.layers, micro_step);
    add(walk, USE_EMBED_BACKWARD, 0, micro_step);
}

bool walk_init(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training,
               int micro_steps)
{
    const int uses = 3 * model->unit_count + 2; /* of a micro-step at most */
    *walk = (struct walk){calloc((size_t)uses * (size_t)micro_steps, sizeof *walk->steps), 0};
    for (int m = 0; walk->steps && m < micro_steps; m++) add_micro_step(walk, model, knobs, training, m);
    return walk->steps != NULL;
}

void walk_release(struct walk *walk)
{
    free(walk->steps);
}
