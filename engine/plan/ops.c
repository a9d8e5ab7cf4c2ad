#include "engine/plan/ops.h"

#include <stddef.h>

#include "engine/plan/architecture.h"

static const struct op_row {
    struct op_words words;
    enum lane lane;
    enum phase phase;
} op_rows[OP_KINDS] = {
    [OP_FORWARD] = {{-1, "forward", "forward of a unit"}, LANE_COMPUTE, PHASE_FORWARD},
    [OP_BACKWARD] = {{-1, "backward", "gradient through a unit"}, LANE_COMPUTE, PHASE_BACKWARD},
    [OP_RECOMPUTE] = {{-1, "recompute", "forward of a unit again"}, LANE_COMPUTE, PHASE_BACKWARD},
#define OP(ID, code, name, lane, phase, help) {{code, name, help}, LANE_##lane, PHASE_##phase},
#include "engine/plan/ops.def"
#undef OP
};

const struct op_words *op_words(enum op_kind kind, const struct use *use)
{
    return use ? &use->as[kind] : &op_rows[kind].words;
}

const char *op_name(enum op_kind kind, const struct use *use)
{
    return op_words(kind, use)->name;
}

static bool coded_in_use(int code, const struct use *use, enum op_kind *kind)
{
    for (*kind = 0; *kind < USE_KINDS; ++*kind)
        if (use->as[*kind].name && use->as[*kind].code == code) return true;
    return false;
}

bool op_coded(int code, enum op_kind *kind, const struct use **use)
{
    *use = NULL;
    for (*kind = USE_KINDS; *kind < OP_KINDS; ++*kind)
        if (op_rows[*kind].words.code == code) return true;
    for (const struct architecture *const *of = architectures; *of; of++)
        for (*use = (*of)->uses; *use < (*of)->uses + (*of)->use_count; ++*use)
            if (coded_in_use(code, *use, kind)) return true;
    return false;
}

const char *op_code_name(int code)
{
    enum op_kind kind;
    const struct use *use;
    return op_coded(code, &kind, &use) ? op_name(kind, use) : NULL;
}

enum lane op_lane(enum op_kind kind)
{
    return op_rows[kind].lane;
}

enum phase op_usual_phase(enum op_kind kind)
{
    return op_rows[kind].phase;
}

enum lane lane_kind(enum lane lane)
{
    switch (lane) {
    case LANE_COMPUTE_2: return LANE_COMPUTE;
    case LANE_COMM_2:
    case LANE_COMM_3: return LANE_COMM;
    case LANE_HOST_2: return LANE_HOST;
    default: return lane;
    }
}

bool lane_computes(enum lane lane)
{
    return lane_kind(lane) == LANE_COMPUTE || lane_kind(lane) == LANE_HOST;
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

const char *lane_name(enum lane lane)
{
    static const char *const names[LANES] = {"compute", "comm", "d2h", "h2d", "host", "nvread", "nvwrite",
                                             "comp2",   "comm2", "comm3", "host2"};
    return names[lane];
}

const char *lane_short_name(enum lane lane)
{
    static const char *const names[LANES] = {"comp", "comm", "d2h", "h2d", "host", "nvrd", "nvwr", "cmp2", "com2", "com3", "hst2"};
    return names[lane];
}

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASES] = {"forward", "backward", "optimizer"};
    return names[phase];
}
