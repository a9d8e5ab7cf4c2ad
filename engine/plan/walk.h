/* The walk: the uses of units in the order in which a step computes them, forward and back, micro-step by micro-step.
 * The planner writes all other operations around the walk.
 *
 * Activation checkpointing (Chen et al. 2016) changes only the walk and what forward keeps. Blocks stand in segments of
 * checkpoint_every blocks. With full recomputation forward keeps the input of each segment (its *checkpoint*) and nothing
 * of the blocks inside; before the backward of a segment its blocks are recomputed. With attention recomputation
 * every block keeps its output and its MLP's saved buffer, and recomputes that of attention just before its backward.
 *
 * With tiled MLPs the block's forward comes first, then its tiles, which together produce the block's output. In backward the tiles
 * come first. With full recomputation a tile is recomputed just before its backward if the block's output was kept, else together
 * with its block.
 * Internal to engine/plan. */
#pragma once

#include "engine/plan/model.h"

struct walk_step {
    enum op_kind kind; /* OP_FORWARD, OP_BACKWARD or OP_RECOMPUTE */
    const struct use *use;
    int unit, place, micro_step; /* place in the chain of outputs */
    bool needs_parameters;
};

struct walk { struct walk_step *steps; int length; };

/* Makes the walk; if not training, forward only. False: no memory. The caller frees walk->steps. */
bool walk_init(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training, int micro_steps);

/* Whether the gradient of the step's unit is complete after it. A tied use comes first in backward; the unit's own use adds the rest. */
static inline bool walk_completes_gradient(const struct walk_step *step)
{
    return step->kind == OP_BACKWARD && (step->use->repeat != REPEAT_TIED || step->unit > 0);
}

/* Whether forward keeps the output at a place of the chain for backward. walk_keeps_saved(): the same for saved buffer `s`. */
bool walk_keeps_output(const struct model *model, const struct config_zero *knobs, int place);
/* Whether that output is offloaded to the host tier until backward: it is a checkpoint, but not the last segment's, which backward
 * needs first. */
bool walk_offloads_output(const struct model *model, const struct config_zero *knobs, int place);
/* If the block at `place` begins a segment: the place of the previous segment's checkpoint. Else, or in the first segment, -1. */
int walk_checkpoint_before(const struct model *model, const struct config_zero *knobs, int place);
bool walk_keeps_saved(const struct model *model, const struct config_zero *knobs, int s);
