/* What follows from a lab that was read. */
#include "engine/lab/lab.h"

#include <string.h>

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
