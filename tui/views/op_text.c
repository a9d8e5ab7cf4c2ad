/* Operations, units and the moment that is shown, in words. */
#include "tui/views/op_text.h"

#include <stdio.h>
#include <string.h>

const char *unit_text(char out[OP_TEXT_ROOM], const struct run_model *model, int unit)
{
    const struct run_header *header = &model->header;
    if (unit >= 0 && unit < header->unit_count) snprintf(out, OP_TEXT_ROOM, "%s", header->units[unit].name);
    else snprintf(out, OP_TEXT_ROOM, "unit %d", unit);
    return out;
}

static const char *pieces_text(char out[OP_TEXT_ROOM], const struct run_model *model, const struct schedule *ops,
                               const struct op *op)
{
    char name[OP_TEXT_ROOM];
    const int first = ops->pieces[op->first_piece].unit, last = ops->pieces[op->first_piece + op->piece_count - 1].unit;
    unit_text(out, model, first);
    if (first != last) snprintf(out + strlen(out), OP_TEXT_ROOM - strlen(out), "…%s", unit_text(name, model, last));
    return out;
}

const char *op_object(char out[OP_TEXT_ROOM], const struct run_model *model, const struct schedule *ops, int number)
{
    const struct op *op = &ops->ops[number];
    out[0] = '\0';
    if (op->bucket >= 0) snprintf(out, OP_TEXT_ROOM, "bucket %d", op->bucket);
    else if (op->unit >= 0) unit_text(out, model, op->unit);
    else if (op->piece_count > 0) pieces_text(out, model, ops, op);
    return out;
}

const char *op_text(char out[OP_TEXT_ROOM], const struct run_model *model, const struct run_schedule *plan, int op)
{
    if (!op_label(out, model, plan->number, op)) out[0] = '\0';
    return out;
}

const char *moment_text(char out[OP_TEXT_ROOM], const struct run_model *model, const struct progress *at)
{
    const struct run_step *last = run_last_step(model);
    static const char *const names[PURPOSES] = {"step", "evaluation before step", "sample before step"};
    if (!at->plan) snprintf(out, OP_TEXT_ROOM, "no schedule is known yet");
    else if (!at->step && !last) snprintf(out, OP_TEXT_ROOM, "before the first step");
    else if (!at->step) snprintf(out, OP_TEXT_ROOM, "before step %u", last->step + 1);
    else snprintf(out, OP_TEXT_ROOM, "%s %u, %s", names[at->plan->purpose], at->step, at->open ? "going on" : "done");
    return out;
}
