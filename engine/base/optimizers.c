#include "engine/base/optimizers.h"

const struct optimizer_info optimizer_table[OPTIMIZERS] = {
#define OPTIMIZER(ID, name, states, first, second) [OPTIMIZER_##ID] = {name, states, {first, second}},
#include "engine/base/optimizers.def"
#undef OPTIMIZER
};
