/* The table of optimizers: the name of each, and the states that it keeps for every element. */
#pragma once

enum optimizer {
#define OPTIMIZER(ID, name, states, first, second) OPTIMIZER_##ID,
#include "engine/base/optimizers.def"
#undef OPTIMIZER
    OPTIMIZERS
};

enum { OPTIMIZER_STATES_MAX = 2 };

struct optimizer_info {
    const char *name;
    int states;
    const char *state[OPTIMIZER_STATES_MAX];
};

extern const struct optimizer_info optimizer_table[OPTIMIZERS];
