/* What a check or an answer comes to on a run, and prose with its values filled in. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/lab.h"

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

static const char *wanted(enum relation relation)
{
    static const char *const words[RELATIONS] = {
        [RELATION_EQUAL] = "",           [RELATION_NOT] = "other than ", [RELATION_LESS] = "less than ",
        [RELATION_AT_MOST] = "at most ", [RELATION_MORE] = "more than ", [RELATION_AT_LEAST] = "at least ",
    };
    return words[relation];
}

struct lab_finding lab_check_hold(const struct lab_check *check, const struct lab_scene *scene)
{
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
        snprintf(finding.why, sizeof finding.why, "expected %s%s, got %s", wanted(check->relation), expected, got);
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
    char *text = NULL, number[QUANTITY_ROOM];
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
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
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
