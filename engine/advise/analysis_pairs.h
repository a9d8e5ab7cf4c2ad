/* What --diff holds against each other: sections of two traces that belong together, and the keys of their configurations that
 * differ. */
#ifndef ENGINE_ADVISE_ANALYSIS_PAIRS_H
#define ENGINE_ADVISE_ANALYSIS_PAIRS_H

#include "engine/advise/analysis.h"

/* Sections of A and B; NULL: nothing of the other belongs to it. */
struct analysis_pair {
    const struct analysis_section *side[2];
    uint32_t loss_step; /* the last step of both that was updated; 0: none */
    float loss[2];      /* ... and what was lost in it */
};

/* Sections of one stage and number of ranks, in the order in which they appear; what is left of both then, likewise; and what is
 * left of one. Sets *pairs, which the caller frees; returns how many, -1: no memory. */
int analysis_pairs(struct analysis_pair **pairs, const struct analysis *left, const struct analysis *right);

/* A key whose value at the start was another one. */
struct analysis_key { const char *path; char value[2][80]; };

/* Sets *keys, which the caller frees; returns how many, -1: one of the traces does not say how it was configured. */
int analysis_keys(struct analysis_key **keys, const struct analysis *left, const struct analysis *right);

#endif
