#include "tui/view/op_text.h"

#include <math.h>
#include <string.h>

struct text unit_text(const struct run_model *model, int unit)
{
    const struct run_header *header = &model->header;
    const bool named = unit >= 0 && unit < header->unit_count;
    return named ? text_of("%s", header->units[unit].name) : text_of("unit %d", unit);
}

static struct text pieces_text(const struct run_model *model, const struct schedule *ops, const struct op *op)
{
    const int first = ops->pieces[op->first_piece].unit, last = ops->pieces[op->first_piece + op->piece_count - 1].unit;
    if (first == last) return unit_text(model, first);
    return text_of("%s…%s", unit_text(model, first).text, unit_text(model, last).text);
}

struct text op_object(const struct run_model *model, const struct schedule *ops, int number)
{
    const struct op *op = &ops->ops[number];
    if (op->bucket >= 0) return text_of("bucket %d", op->bucket);
    if (op->unit >= 0) return unit_text(model, op->unit);
    return op->piece_count > 0 ? pieces_text(model, ops, op) : (struct text){""};
}

struct text op_text(const struct run_model *model, uint32_t schedule, int op)
{
    struct text out;
    return op_label(out.text, model, schedule, op) ? out : (struct text){""};
}

/* Takes the prime of backward out of a label. False: it has none. */
static bool drop_prime(struct text *label)
{
    char *prime = strchr(label->text, '\'');
    if (prime) memmove(prime, prime + 1, strlen(prime));
    return prime;
}

const char *stall_text(enum stall why)
{
    return why == STALL_ASKED ? "prefetch limit" : stall_table[why].name;
}

struct text op_text_in_full(const struct run_model *model, uint32_t schedule, int op)
{
    struct text label = op_text(model, schedule, op);
    if (drop_prime(&label)) text_add(&label, " bwd");
    return label;
}

struct text span_text_boxed(const struct run_model *model, const struct span *span)
{
    struct text label = span_text(model, span);
    drop_prime(&label);
    return label;
}

struct text span_text(const struct run_model *model, const struct span *span)
{
    struct text out;
    span_label(out.text, model, span);
    return out;
}

struct text moment_text(const struct run_model *model, const struct progress *at)
{
    const struct run_step *last = run_last_step(model);
    static const char *const names[PURPOSES] = {"step", "evaluation before step", "sample before step"};
    if (!at->plan) return text_of("no schedule is known yet");
    if (at->step) return text_of("%s %u, %s", names[at->plan->purpose], at->step, at->open ? "going on" : "done");
    return last ? text_of("before step %u", last->step + 1) : text_of("before the first step");
}

static struct text members_text(const struct process_group *group)
{
    enum { LISTED = 4 };
    const int last = member_rank(group, group->count - 1);
    if (group->count > LISTED || (group->stride == 1 && group->count > 2))
        return group->stride == 1 ? text_of("ranks %d to %d", group->first, last)
                                  : text_of("%d ranks from %d to %d", group->count, group->first, last);
    struct text out = text_of("rank%s %d", group->count > 1 ? "s" : "", group->first);
    for (int m = 1; m < group->count; m++)
        text_add(&out, "%s%d", m == group->count - 1 ? " and " : ", ", member_rank(group, m));
    return out;
}

struct text takers_text(const struct schedule *ops, const struct op *op, int rank)
{
    static const char *const what[GROUPS] = {[GROUP_WORLD] = "",
                                             [GROUP_SHARDS] = ", a shard group",
                                             [GROUP_REPLICAS] = ", replicas of a shard",
                                             [GROUP_PARTITION] = ", which share a second copy",
                                             [GROUP_NODE] = " of node %d",
                                             [GROUP_ACROSS] = ", one of each node"};
    const struct process_group group = schedule_group(ops, op->group, rank);
    struct text out = members_text(&group);
    text_add(&out, what[op->group], ops->node_ranks ? rank / ops->node_ranks : 0);
    return out;
}

struct text quantized_text(const struct run_quantized *of)
{
    const double squares = of->elems ? of->squares / (double)of->elems : 0;
    struct text out = text_of("largest error %.2g, RMS %.2g", of->largest, sqrt(squares));
    if (of->of_squares > 0) text_add(&out, ", relative %.2g %%", 100 * sqrt(of->squares / of->of_squares));
    if (of->not_finite) text_add(&out, ", %llu not finite", (unsigned long long)of->not_finite);
    return out;
}
