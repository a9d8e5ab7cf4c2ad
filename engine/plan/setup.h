/* A configuration with the step that it leads to: what `zerolab plan` prints, what a shortage is weighed against, and what
 * "why" builds again with one knob changed. Fractions of a millisecond for nano, some milliseconds for gpt2-xl. */
#pragma once

#include "engine/plan/footprint.h"

struct setup {
    struct model model;
    struct schedule schedule; /* of a training step */
    struct footprint footprint;
};

int setup_init(struct setup *setup, const struct config *config, struct error *err);
void setup_release(struct setup *setup);

/* Tensor bytes that a rank sends to others in a step. */
int64_t setup_sent_bytes(const struct setup *setup, int rank);

/* ---- pace ---- */

/* How long a step takes at least: each operation lasts what pacing makes it last (paced links, a paced device, slow motion) and
 * nothing else does; lanes are in order, and an operation begins when all that it waits for has ended. A collective lasts as
 * long as the rank needs that sends most in it (of more than 64 ranks the first 64 are looked at). The executor makes every operation last that long, so no machine is faster; one
 * whose own work is short beside the pace comes near it.
 * Of one operation; of a training step (0: nothing is paced. NAN: there was no memory to follow it). */
double paced_op_seconds(const struct setup *setup, const struct config *config, const struct op *op);
double paced_seconds(const struct setup *setup, const struct config *config);

/* What moves or uses parameters and gradients; the rest (tokens, norms, agreement, updates) is bookkeeping beside it, which
 * slow motion does not draw out to be looked at. */
bool op_is_followed(const struct op *op);
