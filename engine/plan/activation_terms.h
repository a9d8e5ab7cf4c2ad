/* The activations of the blocks, held against the formula of Korthikanti et al. 2022 (section 4): a layer keeps
 * sbh(34 + 5as/h) bytes in 16-bit training with dropout and a stored attention matrix. Ours differ by named terms, and the
 * terms add up to the byte. s = T, b = B, h = C, a = heads. */
#ifndef ENGINE_PLAN_ACTIVATION_TERMS_H
#define ENGINE_PLAN_ACTIVATION_TERMS_H

#include "engine/plan/model.h"

struct activation_term { const char *what, *formula; int64_t bytes; }; /* over all blocks */

enum { ACTIVATION_TERMS_MAX = 12 };

struct activation_terms {
    int64_t stored, flash, inputs; /* the formula; the same without the attention matrix (34sbh); layer inputs only (2sbh) */
    int count;
    struct activation_term difference[ACTIVATION_TERMS_MAX]; /* what takes `stored` to `kept` */
    int64_t kept;                  /* here, from the forward of the blocks to their backward */
};

void activation_terms_of(struct activation_terms *terms, const struct model *model, const struct config_zero *knobs, int B, int T);

#endif
