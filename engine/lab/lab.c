/* What follows from a lab that was read. */
#include "engine/lab/lab.h"

#include <string.h>

#include "engine/lab/expression_parts.h"
#include "engine/lab/pool.h"

/* "checkpoint TAG" among these actions. */
static bool is_saved_by(const struct lab_actions *actions, const char *tag)
{
    for (int a = 0; a < actions->count; a++) {
        const struct lab_action *action = &actions->at[a];
        const char *line = action->act == LAB_COMMAND && action->text.count == 1 ? action->text.pieces[0].text : NULL;
        if (!line || strncmp(line, "checkpoint", 10) != 0) continue;
        if (!tag || strcmp(line + 10 + strspn(line + 10, " ="), tag) == 0) return true;
    }
    return false;
}

bool lab_saves_before(const struct lab *lab, int end, const char *tag)
{
    for (int s = 0; s < end; s++) {
        const struct lab_step *step = &lab->steps[s];
        if (is_saved_by(&step->before, tag) || is_saved_by(&step->actions, tag) || is_saved_by(&step->solution, tag))
            return true;
    }
    return false;
}

void lab_free(struct lab *lab)
{
    if (lab) pool_free(lab->pool);
}

const char *lab_resume_at(const struct lab *lab, int step)
{
    const char *resume = NULL;
    for (int s = 0; s <= step && s < lab->step_count; s++)
        if (lab->steps[s].has_setup) resume = lab->steps[s].resume;
    return resume;
}

bool lab_saves(const struct lab *lab)
{
    return lab_saves_before(lab, lab->step_count, NULL);
}

void lab_sets_at(const struct lab *lab, int step, const char *const **sets, int *count)
{
    *sets = lab->sets;
    *count = lab->set_count;
    for (int s = 0; s <= step && s < lab->step_count; s++) {
        if (!lab->steps[s].has_setup) continue;
        *sets = lab->steps[s].sets;
        *count = lab->steps[s].set_count;
    }
}

/* ---- which figures are the same on every machine ---- */

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
