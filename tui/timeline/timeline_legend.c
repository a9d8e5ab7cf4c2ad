/* What letters, patterns and colours of the lanes mean: only those that the schedule which trains can bring about. */
#include <string.h>

#include "tui/draw/bar.h"
#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"

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
    const int columns = at->canvas.at.columns;
    if (!fits(at, sign, name)) at->x = INDENT, at->y++;
    at->x = draw_text(at->canvas, at->x, at->y, style, sign);
    at->x = draw_text(at->canvas, at->x + 1, at->y, STYLE_TEXT, name) + 1 + (columns >= NAMED_IN_FULL);
}

static void draw_mark_entry(struct place *at, enum mark mark)
{
    const struct canvas canvas = at->canvas;
    struct mark_look look = mark_look(mark);
    char sign[16];
    uint32_t fill = filling(canvas.surface, look.style, look.sign, look.pattern);
    utf8_encode(sign, look.letter);
    if (fill != ' ' && fill != look.letter) utf8_encode(sign + strlen(sign), fill);
    draw_entry(at, look.style, sign, canvas.at.columns >= NAMED_IN_FULL ? look.name : look.brief);
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

/* Its lane's name says what it is. */
static bool has_lane_of_its_own(enum mark mark)
{
    return mark >= MARK_OFFLOAD && mark <= MARK_SWAP_OUT;
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
    char paced[8], peers[8];
    utf8_encode(paced, texture_sign(TEXTURE_PACED, ascii));
    utf8_encode(peers, texture_sign(TEXTURE_PEERS, ascii));
    struct place works = {canvas, INDENT, 0}, waits = {canvas, INDENT, 1};
    draw_text(canvas, 1, 0, STYLE_DIM, "works");
    for (enum mark mark = MARK_FORWARD; mark < MARK_WAIT; mark++)
        if (can[mark] && (canvas.at.columns >= ROOMY || !has_lane_of_its_own(mark))) draw_mark_entry(&works, mark);
    waits.y = works.y + 1;
    draw_text(canvas, 1, waits.y, STYLE_DIM, "waits");
    for (enum stall why = STALL_NONE + 1; why < STALLS; why++)
        if (can[MARK_WAIT + (enum mark)why] && why != STALL_PEERS) draw_mark_entry(&waits, MARK_WAIT + (enum mark)why);
    draw_entry(fits(&works, paced, "paced") ? &works : &waits, STYLE_TEXT, paced, "paced");
    draw_entry(&waits, STYLE_TEXT, peers, brief ? "slowest" : "for the slowest rank");
    draw_entry(&waits, STYLE_UNKNOWN, "?", "unknown");
    return waits.y + 1;
}
