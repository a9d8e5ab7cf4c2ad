/* Operations, units and the moment that is shown, in words. */
#include "tui/view/op_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"

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

static void write_members(char *out, size_t room, const struct process_group *group)
{
    enum { LISTED = 4 };
    const int last = member_rank(group, group->count - 1);
    if (group->count > LISTED || (group->stride == 1 && group->count > 2)) {
        if (group->stride == 1) snprintf(out, room, "ranks %d to %d", group->first, last);
        else snprintf(out, room, "%d ranks from %d to %d", group->count, group->first, last);
        return;
    }
    snprintf(out, room, "rank%s %d", group->count > 1 ? "s" : "", group->first);
    for (int m = 1; m < group->count; m++)
        text_append(out, room, "%s%d", m == group->count - 1 ? " and " : ", ", member_rank(group, m));
}

const char *takers_text(char out[TAKERS_ROOM], const struct schedule *ops, const struct op *op, int rank)
{
    static const char *const what[GROUPS] = {[GROUP_WORLD] = "",
                                             [GROUP_SHARDS] = ", a shard group",
                                             [GROUP_REPLICAS] = ", replicas of a shard",
                                             [GROUP_PARTITION] = ", which share a second copy",
                                             [GROUP_NODE] = " of node %d",
                                             [GROUP_ACROSS] = ", one of each node"};
    const struct process_group group = schedule_group(ops, op->group, rank);
    write_members(out, TAKERS_ROOM, &group);
    text_append(out, TAKERS_ROOM, what[op->group], ops->node_ranks ? rank / ops->node_ranks : 0);
    return out;
}

const char *quantized_text(char out[QUANTIZED_ROOM], const struct run_quantized *of)
{
    const double squares = of->elems ? of->squares / (double)of->elems : 0;
    snprintf(out, QUANTIZED_ROOM, "largest error %.2g, RMS %.2g", of->largest, sqrt(squares));
    if (of->of_squares > 0)
        text_append(out, QUANTIZED_ROOM, ", relative %.2g %%", 100 * sqrt(of->squares / of->of_squares));
    if (of->not_finite) text_append(out, QUANTIZED_ROOM, ", %llu not finite", (unsigned long long)of->not_finite);
    return out;
}
