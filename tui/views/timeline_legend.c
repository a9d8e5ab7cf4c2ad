/* What letters, patterns and colours of the lanes mean: only those that the schedule which trains can bring about. */
#include <string.h>

#include "tui/draw/bar.h"
#include "tui/draw/output.h"
#include "tui/views/timeline.h"

enum { NAMED_IN_FULL = 110 }; /* columns */

static int draw_entry(struct canvas canvas, int x, int y, enum style style, const char *sign, const char *name)
{
    if (x + utf8_columns(sign) + 1 + utf8_columns(name) > canvas.at.columns) return x;
    x = draw_text(canvas, x, y, style, sign);
    return draw_text(canvas, x + 1, y, STYLE_TEXT, name) + 1 + (canvas.at.columns >= NAMED_IN_FULL);
}

static int draw_mark_entry(struct canvas canvas, int x, int y, enum mark mark)
{
    struct mark_look look = mark_look(mark);
    char sign[8] = {look.letter, '\0'};
    uint32_t fill = filling(canvas.surface, look.style, look.sign, look.pattern);
    if (fill != ' ' && fill != (uint32_t)look.letter) utf8_encode(sign + 1, fill);
    return draw_entry(canvas, x, y, look.style, sign, canvas.at.columns >= NAMED_IN_FULL ? look.name : look.brief);
}

/* Marks that an operation of the schedule brings about: while it runs, or while it waits for what it depends on. */
static void mark_op(bool can[MARKS], const struct schedule *schedule, int number)
{
    const struct op *op = &schedule->ops[number];
    can[mark_of_op(op->kind, op->phase, op->prefetch)] = true;
    for (int d = 0; d < op->dependency_count; d++) {
        struct span waiting = {.ready_ns = 1, .op = (uint32_t)number, .waited_on = op->dependency[d].op};
        if (schedule->ops[waiting.waited_on].lane != op->lane)
            can[MARK_WAIT + (enum mark)stall_before(schedule, &waiting).why] = true;
    }
}

/* False: operations were recorded without what they depend on. */
static bool waits_are_known(const struct schedule *schedule)
{
    for (int i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].dependency_count) return true;
    return false;
}

void timeline_draw_legend(struct canvas canvas, const struct scene *scene)
{
    const struct run_schedule *schedule = run_training(scene->model);
    bool known = schedule && schedule->has_ops, ascii = canvas.surface->ascii, can[MARKS];
    memset(can, !known, sizeof can);
    for (int i = 0; known && i < schedule->ops.op_count; i++) mark_op(can, &schedule->ops, i);
    for (enum mark mark = MARK_WAIT; known && !waits_are_known(&schedule->ops) && mark < MARKS; mark++)
        can[mark] = mark == MARK_WAIT + (enum mark)STALL_COPY ? run_lane_count(scene->model) > 2
                                                              : mark != MARK_WAIT + (enum mark)STALL_NVME;
    int x = draw_text(canvas, 1, 0, STYLE_DIM, "works") + 1;
    for (enum mark mark = MARK_FORWARD; mark < MARK_WAIT; mark++)
        if (can[mark]) x = draw_mark_entry(canvas, x, 0, mark);
    x = draw_entry(canvas, x, 0, STYLE_TEXT, ascii ? "~" : "·", "paced");
    x = draw_text(canvas, 1, 1, STYLE_DIM, "waits") + 1;
    for (enum stall why = STALL_NONE + 1; why < STALLS; why++)
        if (can[MARK_WAIT + (enum mark)why] && why != STALL_PEERS)
            x = draw_mark_entry(canvas, x, 1, MARK_WAIT + (enum mark)why);
    x = draw_entry(canvas, x, 1, STYLE_TEXT, ascii ? ":" : "┊", "for the slowest rank");
    draw_entry(canvas, x, 1, STYLE_UNKNOWN, "?", "unknown");
}
