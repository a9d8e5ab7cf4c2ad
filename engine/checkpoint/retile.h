/* Reads the state of a model whose source has other MLP tiles, and so other units. For example, a run with model.mlp_tiles 1 loads a
 * checkpoint with 4 tiles, or a run with 4 tiles loads a file of weights, which has none. The models differ only in their tiles;
 * elements are found by their place in the whole tensors. Reads are as long as rows allow and in nearly ascending order. */
#pragma once

#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum { RETILE_STRIP_ELEMS = 16384 };

struct retile {
    struct state_source kept;         /* the original source, in units of `from` */
    const struct model *from, *wanted;
    float strip[RETILE_STRIP_ELEMS];  /* rows of a tensor whose width differs between the two models */
};

/* Changes `source`, which reads units of `from`, to read units of `wanted`; leaves it as it is if both have the same
 * tiles. `retile` and both models must live as long as the source is used. */
void retile_source(struct retile *retile, struct state_source *source, const struct model *from, const struct model *wanted);
