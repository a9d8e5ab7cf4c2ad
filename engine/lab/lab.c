/* Functions on a lab that was read: filled-in prose, checks, answers, settings and checkpoints of its steps. */
#include "engine/lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text_stream.h"
#include "engine/lab/expression_parts.h"
#include "engine/lab/read_parts.h"

/* ---- memory ---- */

struct pooled {
    struct pooled *next;
    max_align_t bytes[];
};

void *pool_take(struct lab_pool *pool, size_t bytes)
{
    struct pooled *pooled = calloc(1, sizeof *pooled + bytes);
    if (!pooled) return NULL;
    pooled->next = pool->newest;
    pool->newest = pooled;
    return pooled->bytes;
}

char *pool_text(struct lab_pool *pool, const char *text, size_t length)
{
    char *copy = pool_take(pool, length + 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

void pool_free(struct lab_pool *pool)
{
    for (struct pooled *next; pool->newest; pool->newest = next) {
        next = pool->newest->next;
        free(pool->newest);
    }
}

void lab_free(struct lab *lab)
{
    if (lab) pool_free(&lab->pool);
    free(lab);
}

/* ---- what holds at a step ---- */

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

const char *lab_trace_at(const struct lab *lab, int step)
{
    const char *trace = lab->trace;
    for (int s = 0; s <= step && s < lab->step_count; s++)
        if (lab->steps[s].trace) trace = lab->steps[s].trace;
    return trace;
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

const struct text_list *lab_sets_at(const struct lab *lab, int step)
{
    const struct text_list *sets = &lab->sets;
    for (int s = 0; s <= step && s < lab->step_count; s++)
        if (lab->steps[s].has_setup) sets = &lab->steps[s].sets;
    return sets;
}

/* ---- which figures are the same on every machine ---- */

enum { DEPTH_MAX = 8 };

static bool is_portable(const struct lab *lab, const struct expression *expression, int depth);

static bool name_is_portable(const struct lab *lab, const char *name, int depth)
{
    for (const struct lab_step *step = lab->steps; step < lab->steps + lab->step_count; step++) {
        const struct lab_actions *const lists[] = {&step->before, &step->actions}; /* which keep values */
        for (int list = 0; list < 2; list++)
            for (int a = 0; a < lists[list]->count; a++) {
                const struct lab_action *action = &lists[list]->at[a];
                if (action->act != LAB_KEEP || strcmp(action->name, name) != 0) continue;
                if (depth == DEPTH_MAX || !is_portable(lab, action->value, depth + 1)) return false;
            }
    }
    return true;
}

/* Bytes, counts and planned figures are the same. Times and losses are not; nor is memory at a fullest instant, which
 * depends on the lanes' timing and includes scratch space per kernel thread. */
static bool is_portable(const struct lab *lab, const struct expression *expression, int depth)
{
    for (int n = 0; n < expression->count; n++) {
        const struct node *node = &expression->nodes[n];
        const bool differs = metric_table[node->metric].where & METRIC_MACHINE || node->metric == METRIC_PEAK ||
                             node->metric == METRIC_AT_PEAK;
        if (node->kind == NODE_METRIC && differs) return false;
        if (node->kind == NODE_KEPT && !name_is_portable(lab, node->name, depth)) return false;
    }
    return true;
}

bool lab_check_is_portable(const struct lab *lab, const struct lab_check *check)
{
    return is_portable(lab, check->left, 0);
}

/* ---- what a check or an answer comes to on a run, and prose with its values filled in ---- */

/* Values that agree to nine digits are equal: sums of floating-point numbers stand on either side. */
static double slack(double right, bool relative, double tolerance)
{
    return (relative ? fabs(right) * tolerance : tolerance) + fabs(right) * 1e-9;
}

static bool compare(enum relation relation, double left, double right, double slack_of)
{
    switch (relation) {
    case RELATION_EQUAL: return fabs(left - right) <= slack_of;
    case RELATION_NOT: return fabs(left - right) > slack_of;
    case RELATION_LESS: return left < right + slack_of - fabs(right) * 1e-9;
    case RELATION_AT_MOST: return left <= right + slack_of;
    case RELATION_MORE: return left > right - slack_of + fabs(right) * 1e-9;
    default: return left >= right - slack_of;
    }
}

struct lab_finding lab_check_hold(const struct lab_check *check, const struct lab_scene *scene)
{
    static const char *const wanted[] = {"", "other than ", "at most ", "at least ", "less than ", "more than "};
    struct lab_finding finding = {0};
    struct lab_value left = expression_evaluate(check->left, scene), right = left;
    if (left.known) right = expression_evaluate(check->right, scene);
    if (!left.known || !right.known) {
        snprintf(finding.why, sizeof finding.why, "%s", left.known ? right.why_not : left.why_not);
        snprintf(finding.said, sizeof finding.said, "%.70s: %s", check->text, finding.why);
        return finding;
    }
    char got[QUANTITY_ROOM], expected[QUANTITY_ROOM];
    double room = slack(right.quantity.value, check->relative, check->tolerance);
    finding.known = true;
    finding.holds = compare(check->relation, left.quantity.value, right.quantity.value, room);
    finding.where = left.where.known ? left.where : right.where;
    int length = (int)strcspn(check->text, "=<>!");
    while (length > 0 && check->text[length - 1] == ' ') length--;
    quantity_format(got, left.quantity, NULL, -1);
    quantity_format(expected, right.quantity, NULL, -1);
    if (!finding.holds)
        snprintf(finding.why, sizeof finding.why, "expected %s%s, got %s", wanted[check->relation], expected, got);
    if (finding.holds) snprintf(finding.said, sizeof finding.said, "%.180s: %s", check->text, got);
    else snprintf(finding.said, sizeof finding.said, "%.*s: %s", length > 90 ? 90 : length, check->text, finding.why);
    return finding;
}

bool lab_answer_near(const struct lab_answer *answer, struct lab_value right, struct quantity said)
{
    return right.known && dimension_equal(said.dimension, right.quantity.dimension) &&
           fabs(said.value - right.quantity.value) <= slack(right.quantity.value, answer->relative, answer->tolerance);
}

char *prose_fill(const struct prose *prose, const struct lab_scene *scene)
{
    char number[QUANTITY_ROOM];
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    for (int p = 0; p < prose->count; p++) {
        const struct prose_piece *piece = &prose->pieces[p];
        if (!piece->value) {
            fputs(piece->text, out);
            continue;
        }
        struct lab_value value = expression_evaluate(piece->value, scene);
        fputs(value.known ? quantity_format(number, value.quantity, piece->unit, piece->decimals) : "(not known yet)",
              out);
    }
    return text_stream_close(&text);
}
