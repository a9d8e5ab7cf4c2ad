/* Reads tests/reference/tiny_gpt.bin; make_reference.py says what is in it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/rng.h"

enum {
    REFERENCE_L = 2, REFERENCE_C = 24, REFERENCE_NH = 2, REFERENCE_X = 21, REFERENCE_V = 37, REFERENCE_B = 2, REFERENCE_T = 19,
    REFERENCE_N = REFERENCE_B * REFERENCE_T, REFERENCE_SEED = 7, REFERENCE_ADAM = 37, REFERENCE_ADAM_STEPS = 10,
    REFERENCE_PARAMETERS = (REFERENCE_V + REFERENCE_X) * REFERENCE_C + REFERENCE_L * (12 * REFERENCE_C + 13) * REFERENCE_C + 2 * REFERENCE_C,
};

struct reference {
    float *all;
    const float *logits, *losses, *gradients, *adamw;
};

/* Whole numbers from -127 to 127, the same as the script's. */
static inline float reference_signed(uint64_t stream, uint64_t i)
{
    return (float)((int64_t)(rng_u64(REFERENCE_SEED, stream, i) % 255) - 127);
}

static inline void reference_load(struct reference *r)
{
    const size_t elems = REFERENCE_N * REFERENCE_V + REFERENCE_N + REFERENCE_PARAMETERS + REFERENCE_ADAM * REFERENCE_ADAM_STEPS;
    FILE *file = fopen("tests/reference/tiny_gpt.bin", "rb");
    r->all = malloc((elems + 1) * sizeof *r->all);
    if (!file || !r->all || fread(r->all, sizeof *r->all, elems + 1, file) != elems) {
        fprintf(stderr, "tests/reference/tiny_gpt.bin is missing or of another size; run from the top folder\n");
        abort();
    }
    fclose(file);
    r->logits = r->all;
    r->losses = r->logits + REFERENCE_N * REFERENCE_V;
    r->gradients = r->losses + REFERENCE_N;
    r->adamw = r->gradients + REFERENCE_PARAMETERS;
}

static inline void reference_release(struct reference *r)
{
    free(r->all);
}
