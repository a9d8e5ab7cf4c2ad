/* The marks of a lane's activities, each with a letter, a pattern and a colour. Work fills its columns, waiting is a
 * row of thin lines, idling is blank, so the three differ before any letter is read. */
#include <string.h>

#include "tui/draw/bar.h"
#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"

/* Of a wait; its letter and its help are those of its cause. */
#define WAIT(stall, pattern, style, name, brief)                                                                       \
    [MARK_WAIT + STALL_##stall] = {0, pattern, '-', STYLE_##style, name, brief, NULL}
static const struct mark_look looks[MARKS] = {
    [MARK_IDLE] = {' ', ' ', ' ', STYLE_TEXT, "idle", "idle", ""},
    [MARK_UNKNOWN] = {'?', '?', '?', STYLE_UNKNOWN, "unknown", "lost", "records of this time are missing"},
    [MARK_FORWARD] = {'F', 0x2588, '/', STYLE_FORWARD, "forward", "fwd", "forward: a unit computes its output"},
    [MARK_BACKWARD] = {'V', 0x2593, '#', STYLE_BACKWARD, "backward", "bwd", "backward (block'): a unit computes its gradients"},
    [MARK_UPDATE] = {'U', 0x2592, '%', STYLE_UPDATE, "update", "upd",
                     "the optimizer changes the parameters of this rank"},
    [MARK_GATHER] = {'N', 0x256c, '+', STYLE_LANE_GATHER, "gather", "gather",
                     "all-gather: compute needs these parameters now"},
    [MARK_PREFETCH] = {'E', 0x25cb, 'o', STYLE_LANE_PREFETCH, "prefetch", "prefetch",
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
    [MARK_OTHER] = {'X', 0x25aa, ':', STYLE_LANE_AGREE, "other", "other",
                    "another collective or message of another program"},
    WAIT(NONE, ' ', TEXT, "idle", "idle"),
    WAIT(GATHER, 0x2500, WAIT_GATHER, "gather", "gather"),
    WAIT(BUCKET, 0x2550, WAIT_BUCKET, "bucket", "bucket"),
    WAIT(REFRESH, 0x254d, WAIT_REFRESH, "refresh", "refresh"),
    WAIT(COPY, 0x254c, WAIT_REFRESH, "copy", "copy"),
    WAIT(COMPUTE, 0x2509, WAIT_COMPUTE, "compute", "compute"),
    WAIT(MEMORY, 0x2573, WAIT_MEMORY, "no room", "no room"),
    WAIT(ASKED, 0x2571, WAIT_LIMIT, "prefetch limit", "pf limit"),
    WAIT(LIMIT, 0x253c, WAIT_LIMIT, "no overlap", "no overl."),
    WAIT(PEERS, 0x250a, WAIT_PEERS, "slowest rank", "slowest"),
    WAIT(AGREE, 0x2508, WAIT_AGREE, "agree", "agree"),
    WAIT(HOST, 0x254e, WAIT_COMPUTE, "host", "host"),
    WAIT(NVME, 0x254f, WAIT_REFRESH, "nvme", "nvme"),
    WAIT(GRADIENT, 0x2504, WAIT_BUCKET, "gradient", "gradient"),
    WAIT(POOL, 0x2505, WAIT_MEMORY, "pool buffer", "pool"),
    WAIT(PINNED, 0x2574, WAIT_MEMORY, "pinned room", "pinned"),
};

struct mark_look mark_look(enum mark mark)
{
    struct mark_look look = looks[mark];
    if (mark < MARK_WAIT) return look;
    look.letter = (uint32_t)stall_table[mark - MARK_WAIT].letter;
    look.help = stall_table[mark - MARK_WAIT].help;
    return look;
}

/* In a box that holds more than work. */
uint32_t texture_sign(enum texture texture, bool ascii)
{
    static const uint32_t signs[TEXTURES][2] = {
        {' ', ' '}, [TEXTURE_PEERS] = {0x250a, ':'}, [TEXTURE_PACED] = {0x00b7, '~'}};
    return signs[texture][ascii];
}

enum mark mark_of_busy(enum busy busy)
{
    static const enum mark marks[BUSY_KINDS] = {
        [PHASE_FORWARD] = MARK_FORWARD,      [PHASE_BACKWARD] = MARK_BACKWARD,    [PHASE_OPTIMIZER] = MARK_UPDATE,
        [BUSY_SECONDARY] = MARK_SECONDARY,   [BUSY_QUANTIZE] = MARK_QUANTIZE,     [BUSY_DEQUANTIZE] = MARK_DEQUANTIZE,
        [BUSY_GATHER] = MARK_GATHER,         [BUSY_GATHER_AHEAD] = MARK_PREFETCH, [BUSY_REDUCE_SCATTER] = MARK_REDUCE,
        [BUSY_ALL_REDUCE] = MARK_ALL_REDUCE, [BUSY_REFRESH] = MARK_REFRESH,       [BUSY_AGREE] = MARK_AGREE,
        [BUSY_OTHER] = MARK_OTHER,           [BUSY_D2H] = MARK_OFFLOAD,           [BUSY_H2D] = MARK_FETCH,
        [BUSY_NVME_READ] = MARK_SWAP_IN,     [BUSY_NVME_WRITE] = MARK_SWAP_OUT};
    return marks[busy];
}

enum mark mark_of_op(enum op_kind kind, enum phase phase, bool prefetch)
{
    return mark_of_busy(busy_of_op(kind, phase, prefetch));
}

/* ---- the legend: only marks that the schedule which trains can bring about ---- */

enum { NAMED_IN_FULL = 110, ROOMY = 160 }; /* columns */

/* Where the next entry stands; entries go on in the next row, under the first one. */
struct place {
    struct canvas canvas;
    int x, y;
};

enum { INDENT = 7 };

static bool fits(const struct place *at, const char *sign, const char *name)
{
    return at->x + utf8_columns(sign) + 1 + utf8_columns(name) <= at->canvas.at.columns;
}

static void draw_entry(struct place *at, enum style style, const char *sign, const char *name)
{
    if (!fits(at, sign, name)) at->x = INDENT, at->y++;
    at->x = draw_text(at->canvas, at->x, at->y, style, sign);
    at->x = draw_text(at->canvas, at->x + 1, at->y, STYLE_TEXT, name) + 1 + (at->canvas.at.columns >= NAMED_IN_FULL);
}

static void draw_mark_entry(struct place *at, enum mark mark)
{
    const struct canvas canvas = at->canvas;
    struct mark_look look = mark_look(mark);
    uint32_t fill = filling(canvas.surface, look.style, look.sign, look.pattern);
    const bool both = fill != ' ' && fill != look.letter;
    const struct text sign = text_of("%s%s", utf8_of(look.letter).text, both ? utf8_of(fill).text : "");
    draw_entry(at, look.style, sign.text, canvas.at.columns >= NAMED_IN_FULL ? look.name : look.brief);
}

/* Marks that an operation of the schedule brings about: while it runs, or while it waits for what it depends on. */
static void mark_op(bool can[MARKS], const struct run_schedule *plan, int number)
{
    const struct op *op = &plan->ops.ops[number];
    can[mark_of_op(op->kind, op->phase, op->prefetch)] = true;
    for (int d = 0; d < op->dependency_count; d++) {
        struct span waiting = {.ready_ns = 1, .op = (uint32_t)number, .waited_on = op->dependency[d].op};
        if (plan->ops.ops[waiting.waited_on].lane != op->lane)
            can[MARK_WAIT + (enum mark)stall_before(plan, &waiting).why] = true;
    }
}

/* False: operations were recorded without what they depend on. */
static bool waits_are_known(const struct schedule *schedule)
{
    for (int i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].dependency_count) return true;
    return false;
}

int timeline_draw_legend(struct canvas canvas, const struct scene *scene)
{
    const struct run_schedule *training = run_training(scene->model),
                              *schedule = training ? training : run_schedule_numbered(scene->model, TRACE_OBSERVED);
    bool known = schedule && schedule->has_ops, ascii = canvas.surface->ascii, can[MARKS];
    memset(can, !known, sizeof can);
    for (int i = 0; known && i < schedule->ops.op_count; i++) mark_op(can, schedule, i);
    for (enum mark mark = MARK_WAIT; training && known && !waits_are_known(&schedule->ops) && mark < MARKS; mark++)
        can[mark] = mark == MARK_WAIT + (enum mark)STALL_COPY ? run_lane_count(scene->model) > 2
                                                              : mark != MARK_WAIT + (enum mark)STALL_NVME;
    const bool brief = canvas.at.columns < NAMED_IN_FULL;
    const struct utf8 paced = utf8_of(texture_sign(TEXTURE_PACED, ascii)),
                      peers = utf8_of(texture_sign(TEXTURE_PEERS, ascii));
    struct place works = {canvas, INDENT, 0}, waited = {canvas, INDENT, 1};
    draw_text(canvas, 1, 0, STYLE_DIM, "works");
    /* of copies between tiers the lane's name says what they are */
    for (enum mark mark = MARK_FORWARD; mark < (canvas.at.columns < ROOMY ? MARK_OFFLOAD : MARK_WAIT); mark++)
        if (can[mark]) draw_mark_entry(&works, mark);
    waited.y = works.y + 1;
    draw_text(canvas, 1, waited.y, STYLE_DIM, "waits");
    for (enum stall why = STALL_NONE + 1; why < STALLS; why++)
        if (can[MARK_WAIT + (enum mark)why] && why != STALL_PEERS) draw_mark_entry(&waited, MARK_WAIT + (enum mark)why);
    draw_entry(fits(&works, paced.text, "paced") ? &works : &waited, STYLE_TEXT, paced.text, "paced");
    draw_entry(&waited, STYLE_TEXT, peers.text, brief ? "slowest" : "for the slowest rank");
    draw_entry(&waited, STYLE_UNKNOWN, "?", "unknown");
    return waited.y + 1;
}
