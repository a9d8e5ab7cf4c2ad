/* The state of a model in other units than those in which it is kept: a checkpoint of a run with model.mlp_tiles 4 for a run with 1,
 * a file of weights, which knows no tiles, for either. The models are the same but for their tiles; elements are found by their
 * place in the whole tensors. What is read is read in pieces as long as rows allow, and in nearly ascending order. */
#ifndef ENGINE_CHECKPOINT_RETILE_H
#define ENGINE_CHECKPOINT_RETILE_H

#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum { RETILE_STRIP_ELEMS = 16384 };

struct retile {
    struct state_source kept;         /* by the units of `from` */
    const struct model *from, *wanted;
    float strip[RETILE_STRIP_ELEMS];  /* rows of a tensor that is wider than what is wanted of it, or goes into a wider one */
};

/* `source`, which reads units of `from`, becomes one that reads those of `wanted`; the same where they are the same. `retile` and both
 * models must live as long as the source is used. */
void retile_source(struct retile *retile, struct state_source *source, const struct model *from, const struct model *wanted);

#endif
