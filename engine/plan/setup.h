/* The training step of a configuration: model, schedule and footprint. `zerolab plan` prints it, and "why" and the answers to an
 * out-of-memory error rebuild it with a knob changed. Building it takes under 1 ms for nano, some ms for gpt2-xl. */
#pragma once

#include "engine/plan/footprint.h"

struct setup {
    struct model model;
    struct schedule schedule; /* of a training step */
    struct footprint footprint;
};

int setup_init(struct setup *setup, const struct config *config, struct error *err);
/* The same, and checks the schedule as the engine does before it runs. STATUS_CHECK: the checker found a mistake. */
int setup_init_checked(struct setup *setup, const struct config *config, struct error *err);
void setup_release(struct setup *setup);

/* Tensor bytes that a rank sends to others in a step. */
int64_t setup_sent_bytes(const struct setup *setup, int rank);
