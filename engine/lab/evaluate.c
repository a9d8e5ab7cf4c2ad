/* Expressions evaluated: unknown is handed on, with its reason; the place on the timeline is that of the first value that
 * has one. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/lab/expression_parts.h"

struct lab_value value_known(double value, struct dimension dimension)
{
    return (struct lab_value){.known = true, .quantity = {value, dimension}};
}

struct lab_value value_unknown(const char *format, ...)
{
    struct lab_value value = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(value.why_not, sizeof value.why_not, format, args);
    va_end(args);
    return value;
}

static struct lab_value evaluate(const struct expression *expression, int number, const struct lab_scene *scene);

static double combine(enum node_kind kind, double a, double b)
{
    switch (kind) {
    case NODE_ADD: return a + b;
    case NODE_SUBTRACT: return a - b;
    case NODE_MULTIPLY: return a * b;
    case NODE_DIVIDE: return a / b;
    case NODE_MIN: return fmin(a, b);
    case NODE_MAX: return fmax(a, b);
    case NODE_ABS: return fabs(a);
    case NODE_ROUND: return round(a);
    case NODE_CEIL: return ceil(a - 1e-9);
    case NODE_FLOOR: return floor(a + 1e-9);
    case NODE_NEGATIVE: return -a;
    default: return NAN;
    }
}

static bool has_right(enum node_kind kind)
{
    return kind >= NODE_ADD && kind <= NODE_MAX;
}

static struct lab_value combined(const struct expression *expression, const struct node *node,
                                 const struct lab_scene *scene)
{
    struct lab_value left = evaluate(expression, node->left, scene), right = left;
    if (left.known && has_right(node->kind)) right = evaluate(expression, node->right, scene);
    if (!left.known || !right.known) return left.known ? right : left;
    if (node->kind == NODE_DIVIDE && right.quantity.value == 0) return value_unknown("this divides by 0");
    double value = combine(node->kind, left.quantity.value, right.quantity.value);
    if (!isfinite(value)) return value_unknown("this is too large a number");
    struct lab_value result = value_known(value, node->dimension);
    result.where = left.where.known ? left.where : right.where;
    return result;
}

static struct lab_value kept(const char *name, const struct lab_scene *scene)
{
    for (int k = scene->kept_count - 1; k >= 0; k--)
        if (strcmp(scene->kept[k].name, name) == 0) return scene->kept[k].value;
    return value_unknown("%s has not been measured yet", name);
}

static struct lab_value of_metric(const struct expression *expression, const struct node *node,
                                  const struct lab_scene *scene)
{
    if (node->planned) return planned_value(node, scene);
    struct lab_value step = value_known(0, (struct dimension){0, 0});
    if (node->of.has_step) step = evaluate(expression, node->of.step, scene);
    if (!step.known) return step;
    if (fabs(step.quantity.value) > 4e9) return value_unknown("there is no such step");
    return measured_value(node, scene, (int64_t)llround(step.quantity.value));
}

static struct lab_value evaluate(const struct expression *expression, int number, const struct lab_scene *scene)
{
    const struct node *node = &expression->nodes[number];
    switch (node->kind) {
    case NODE_NUMBER: return value_known(node->number, node->dimension);
    case NODE_KEPT: return kept(node->name, scene);
    case NODE_METRIC: return of_metric(expression, node, scene);
    default: return combined(expression, node, scene);
    }
}

struct lab_value expression_evaluate(const struct expression *expression, const struct lab_scene *scene)
{
    return evaluate(expression, expression->root, scene);
}
