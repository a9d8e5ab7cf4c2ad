/* What is true of a kind of operation, a lane or a phase, in whichever schedule. */
#include "engine/plan/builder.h"

static const struct {
    const char *name;
    enum lane lane;
    enum phase phase;
} op_rows[OP_KINDS] = {
#define OP(ID, name, lane, phase, help) {name, LANE_##lane, PHASE_##phase},
#include "engine/plan/ops.def"
#undef OP
};

const char *op_name(enum op_kind kind)
{
    return op_rows[kind].name;
}

enum lane op_lane(enum op_kind kind)
{
    return op_rows[kind].lane;
}

enum phase op_usual_phase(enum op_kind kind)
{
    return op_rows[kind].phase;
}

bool lane_computes(enum lane lane)
{
    return lane == LANE_COMPUTE || lane == LANE_HOST;
}

bool op_is_hosts(enum op_kind kind)
{
    return kind == OP_AGREE || op_rows[kind].lane == LANE_HOST;
}

bool op_is_update(enum op_kind kind)
{
    return kind == OP_UPDATE || kind == OP_HOST_UPDATE;
}

bool op_swaps(enum op_kind kind)
{
    return kind == OP_SWAP_IN || kind == OP_SWAP_OUT;
}

bool op_makes_gradient(enum op_kind kind)
{
    return kind == OP_HEAD_BACKWARD || kind == OP_NORM_BACKWARD || kind == OP_MLP_BACKWARD ||
           kind == OP_BLOCK_BACKWARD || kind == OP_EMBED_BACKWARD;
}

const char *lane_name(enum lane lane)
{
    static const char *const names[LANES] = {"compute", "comm", "d2h", "h2d", "host", "nvread", "nvwrite"};
    return names[lane];
}

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASES] = {"forward", "backward", "optimizer"};
    return names[phase];
}
