/* The marks of a lane's activities, each with a letter, a pattern and a colour. Work fills its columns, waiting is a
 * row of thin lines, idling is blank, so the three differ before any letter is read. */
#include "tui/timeline/timeline.h"

static const struct mark_look looks[MARK_WAIT] = {
    [MARK_IDLE] = {' ', ' ', ' ', STYLE_TEXT, "idle", "idle", ""},
    [MARK_UNKNOWN] = {'?', '?', '?', STYLE_UNKNOWN, "unknown", "lost", "records of this time are missing"},
    [MARK_FORWARD] = {'F', 0x2588, '/', STYLE_FORWARD, "forward", "fwd", "forward: a unit computes its output"},
    [MARK_BACKWARD] = {'V', 0x2593, '#', STYLE_BACKWARD, "backward", "bwd", "backward: a unit computes its gradients"},
    [MARK_UPDATE] = {'U', 0x2592, '%', STYLE_UPDATE, "update", "upd",
                     "the optimizer changes the parameters of this rank"},
    [MARK_GATHER] = {'N', 0x256c, '+', STYLE_LANE_GATHER, "gather", "gather",
                     "all-gather: compute needs these parameters now"},
    [MARK_PREFETCH] = {'E', 0x25cb, 'o', STYLE_LANE_PREFETCH, "gather ahead", "ahead",
                       "all-gather of parameters before they are needed"},
    [MARK_REDUCE] = {'R', 0x25a0, '@', STYLE_LANE_REDUCE, "reduce", "reduce",
                     "reduce-scatter: each rank keeps its part of the mean gradient"},
    [MARK_ALL_REDUCE] = {'M', 0x25a3, '&', STYLE_LANE_REDUCE, "all-reduce", "all-reduce",
                         "all-reduce: each rank keeps the whole mean gradient"},
    [MARK_REFRESH] = {'Y', 0x25a4, '$', STYLE_LANE_REFRESH, "refresh", "refresh",
                      "all-gather of updated parameters, at stages 1 and 2"},
    [MARK_OFFLOAD] = {0x25bc, 0x2591, '*', STYLE_LANE_REFRESH, "to the host", "to host",
                      "a copy from device to host memory"},
    [MARK_FETCH] = {0x25b2, 0x2591, '*', STYLE_LANE_PREFETCH, "from the host", "from host",
                    "a copy from host to device memory"},
    [MARK_SWAP_IN] = {0x25c4, 0x2591, '*', STYLE_LANE_PREFETCH, "from NVMe", "from NVMe", "a read from NVMe"},
    [MARK_SWAP_OUT] = {0x25ba, 0x2591, '*', STYLE_LANE_REFRESH, "to NVMe", "to NVMe", "a write to NVMe"},
    [MARK_SECONDARY] = {'D', 0x25a7, '^', STYLE_LANE_REFRESH, "duplicate", "duplicate",
                        "a part of a unit is kept, which later gathers of the step read within the node"},
    [MARK_QUANTIZE] = {'Q', 0x25a5, '(', STYLE_LANE_REFRESH, "quantize", "quantize",
                       "parameters or gradients become blocks of int8 or int4, which are sent in their place"},
    [MARK_DEQUANTIZE] = {'K', 0x25a6, ')', STYLE_LANE_REFRESH, "dequantize", "dequant.",
                         "gathered blocks of int8 become parameters"},
    [MARK_AGREE] = {'C', 0x25aa, ';', STYLE_LANE_AGREE, "agree", "agree", "ranks exchange loss, norm and error flags"},
    [MARK_OTHER] = {'X', 0x25aa, ':', STYLE_LANE_AGREE, "other", "other", "another collective or message of another program"},
};

static const struct {
    uint32_t pattern;
    enum style style;
    const char *name, *brief;
} waits[STALLS] = {
    [STALL_NONE] = {' ', STYLE_TEXT, "idle", "idle"},
    [STALL_GATHER] = {0x2500, STYLE_WAIT_GATHER, "gather", "gather"},
    [STALL_BUCKET] = {0x2550, STYLE_WAIT_BUCKET, "bucket", "bucket"},
    [STALL_REFRESH] = {0x254d, STYLE_WAIT_REFRESH, "refresh", "refresh"},
    [STALL_COPY] = {0x254c, STYLE_WAIT_REFRESH, "copy", "copy"},
    [STALL_COMPUTE] = {0x2509, STYLE_WAIT_COMPUTE, "compute", "compute"},
    [STALL_MEMORY] = {0x2573, STYLE_WAIT_MEMORY, "no room", "no room"},
    [STALL_ASKED] = {0x2571, STYLE_WAIT_LIMIT, "not asked for", "not asked"},
    [STALL_LIMIT] = {0x253c, STYLE_WAIT_LIMIT, "no overlap", "no overl."},
    [STALL_PEERS] = {0x250a, STYLE_WAIT_PEERS, "slowest rank", "slowest"},
    [STALL_AGREE] = {0x2508, STYLE_WAIT_AGREE, "agree", "agree"},
    [STALL_HOST] = {0x254e, STYLE_WAIT_COMPUTE, "host", "host"},
    [STALL_NVME] = {0x254f, STYLE_WAIT_REFRESH, "nvme", "nvme"},
    [STALL_GRADIENT] = {0x2504, STYLE_WAIT_BUCKET, "gradient", "gradient"},
    [STALL_POOL] = {0x2505, STYLE_WAIT_MEMORY, "pool buffer", "pool"},
    [STALL_PINNED] = {0x2574, STYLE_WAIT_MEMORY, "pinned room", "pinned"},
};

struct mark_look mark_look(enum mark mark)
{
    if (mark < MARK_WAIT) return looks[mark];
    enum stall why = (enum stall)(mark - MARK_WAIT);
    return (struct mark_look){(uint32_t)stall_table[why].letter,
                              waits[why].pattern,
                              '-',
                              waits[why].style,
                              waits[why].name,
                              waits[why].brief,
                              stall_table[why].help};
}

/* In a box that holds more than work. */
uint32_t texture_sign(enum texture texture, bool ascii)
{
    static const uint32_t signs[TEXTURES][2] = {
        {' ', ' '}, [TEXTURE_PEERS] = {0x250a, ':'}, [TEXTURE_PACED] = {0x00b7, '~'}};
    return signs[texture][ascii];
}

enum mark mark_of_op(enum op_kind kind, enum phase phase, bool prefetch)
{
    if (op_lane(kind) == LANE_D2H) return MARK_OFFLOAD;
    if (op_lane(kind) == LANE_H2D) return MARK_FETCH;
    if (op_lane(kind) == LANE_NVME_READ) return MARK_SWAP_IN;
    if (op_lane(kind) == LANE_NVME_WRITE) return MARK_SWAP_OUT;
    switch (kind) {
    case OP_GATHER: return prefetch ? MARK_PREFETCH : MARK_GATHER;
    case OP_REDUCE_SCATTER: return MARK_REDUCE;
    case OP_ALL_REDUCE: return MARK_ALL_REDUCE;
    case OP_REFRESH: return MARK_REFRESH;
    case OP_SECONDARY: return MARK_SECONDARY;
    case OP_QUANTIZE: return MARK_QUANTIZE;
    case OP_DEQUANTIZE: return MARK_DEQUANTIZE;
    case OP_AGREE: return MARK_AGREE;
    case OP_BROADCAST:
    case OP_ALL_TO_ALL:
    case OP_EXCHANGE: return MARK_OTHER;
    default: return MARK_FORWARD + (enum mark)phase;
    }
}
