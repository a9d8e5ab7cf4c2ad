/* Which figures of a lab are the same on every machine: bytes, counts and what is planned. Not so are times and losses; and what is
 * held at a fullest instant, which depends on how lanes met, and has scratch space for each thread of the kernels. */
#include <string.h>

#include "engine/lab/expression_parts.h"
#include "engine/lab/lab.h"

enum { DEPTH_MAX = 8 };

static bool is_portable(const struct lab *lab, const struct expression *expression, int depth);

static bool kept_is_portable(const struct lab *lab, const struct lab_actions *actions, const char *name, int depth)
{
    for (int a = 0; a < actions->count; a++) {
        const struct lab_action *action = &actions->at[a];
        if (action->act != LAB_KEEP || strcmp(action->name, name) != 0) continue;
        if (depth == DEPTH_MAX || !is_portable(lab, action->value, depth + 1)) return false;
    }
    return true;
}

static bool name_is_portable(const struct lab *lab, const char *name, int depth)
{
    for (int s = 0; s < lab->step_count; s++) {
        const struct lab_step *step = &lab->steps[s];
        if (!kept_is_portable(lab, &step->before, name, depth) || !kept_is_portable(lab, &step->actions, name, depth))
            return false;
    }
    return true;
}

static bool metric_is_portable(const struct node *node)
{
    const bool of_peak = node->metric == METRIC_PEAK || node->metric == METRIC_AT_PEAK;
    if (metric_table[node->metric].where & METRIC_MACHINE) return false;
    return !of_peak;
}

static bool is_portable(const struct lab *lab, const struct expression *expression, int depth)
{
    for (int n = 0; n < expression->count; n++) {
        const struct node *node = &expression->nodes[n];
        if (node->kind == NODE_METRIC && !metric_is_portable(node)) return false;
        if (node->kind == NODE_KEPT && !name_is_portable(lab, node->name, depth)) return false;
    }
    return true;
}

bool lab_check_is_portable(const struct lab *lab, const struct lab_check *check)
{
    return is_portable(lab, check->left, 0);
}
