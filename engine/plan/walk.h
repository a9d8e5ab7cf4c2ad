/* The walk: the uses of units in the order in which a step computes them, forward and back, micro-step by micro-step.
 * Everything else of a schedule is written around it.
 *
 * Activation checkpointing (Chen et al. 2016) changes only the walk and what forward keeps. Blocks stand in segments of
 * checkpoint_every blocks. With full recomputation forward keeps the input of each segment (its *checkpoint*) and nothing
 * of the blocks inside; before the backward of a segment its blocks are walked forward again. With attention recomputation
 * every block keeps its output and its MLP's saved buffer, and makes its attention's again just before its backward.
 *
 * With tiled MLPs the block's forward comes first, then its tiles, which together produce the block's output. In backward the tiles
 * come first. A tile is recomputed just before its backward, unless the block's output is needed too.
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

/* Not training: forward only. Without memory, false. */
bool walk_init(struct walk *walk, const struct model *model, const struct config_zero *knobs, bool training, int micro_steps);

/* The gradient of the step's unit is complete with it: a tied use comes first in backward, and the unit's own use adds the rest. */
static inline bool walk_completes_gradient(const struct walk_step *step)
{
    return step->kind == OP_BACKWARD && (step->use->repeat != REPEAT_TIED || step->unit > 0);
}

/* Whether forward leaves the output at a place of the chain, and a buffer that a use saves, for backward. */
bool walk_keeps_output(const struct model *model, const struct config_zero *knobs, int place);
/* Whether that output waits in the host tier meanwhile: a checkpoint, but not that of the last segment, which is needed next. */
bool walk_offloads_output(const struct model *model, const struct config_zero *knobs, int place);
/* Place of the checkpoint of the segment before that of the block at `place`, if it is the first of its segment; else -1. */
int walk_checkpoint_before(const struct model *model, const struct config_zero *knobs, int place);
bool walk_keeps_saved(const struct model *model, const struct config_zero *knobs, int s);
