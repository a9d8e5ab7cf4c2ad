/* A recursive-descent parser: sum := product {+|- product}; product := factor {*|/ factor}; factor := number, name, metric,
 * function or (sum). Nodes lie in one array; units are settled here, so that evaluating cannot meet a wrong one. */
#include "engine/lab/expression.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/base/words.h"
#include "engine/lab/expression_parts.h"
#include "engine/lab/read_parts.h"

/* ---- words, characters, nodes ---- */

enum { TEXT_ROOM = 400 };

void parser_skip_blanks(struct parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t') parser->at++;
}

bool parser_takes(struct parser *parser, char character)
{
    parser_skip_blanks(parser);
    if (*parser->at != character) return false;
    return parser->at++, true;
}

/* How long the word at `text` is; 0: there is none. */
static size_t parser_word_length(const char *text)
{
    size_t length = 0;
    if (!isalpha((unsigned char)*text) && *text != '_') return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '\'') length++;
    return length;
}

bool parser_word(struct parser *parser, char out[WORD_ROOM])
{
    parser_skip_blanks(parser);
    size_t length = parser_word_length(parser->at);
    if (!length || length >= WORD_ROOM) return false;
    memcpy(out, parser->at, length);
    out[length] = '\0';
    parser->at += length;
    return true;
}

int parser_fail(struct parser *parser, const char *format, ...)
{
    char text[400];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    if (!parser->status) parser->status = error_set(parser->err, STATUS_USAGE, "%s", text);
    return -1;
}

int parse_quoted(struct parser *parser, const char **out)
{
    const char *end = parser_takes(parser, '"') ? strchr(parser->at, '"') : NULL;
    if (!end || end - parser->at >= TEXT_ROOM)
        return parser_fail(parser, "a text in quotes is missing here: %.30s", parser->at);
    *out = pool_text(parser->pool, parser->at, (size_t)(end - parser->at));
    parser->at = end + 1;
    return *out ? 0 : parser_fail(parser, "no memory for an expression");
}

int parser_add(struct parser *parser, struct node node)
{
    if (parser->count == NODES_MAX) return parser_fail(parser, "the expression is too long");
    parser->nodes[parser->count] = node;
    return parser->count++;
}

struct dimension parser_dimension(const struct parser *parser, int node)
{
    return parser->nodes[node].dimension;
}

/* ---- sums and all that they are made of ---- */

enum { DEPTH_MAX = 64 };

static const struct {
    const char *name;
    enum node_kind kind;
    int operands;
} functions[] = {
    {"min", NODE_MIN, 2},     {"max", NODE_MAX, 2},   {"abs", NODE_ABS, 1},
    {"round", NODE_ROUND, 1}, {"ceil", NODE_CEIL, 1}, {"floor", NODE_FLOOR, 1},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static int number(struct parser *parser)
{
    char *end, digits[48];
    size_t length = 0, used = 0;
    while (isdigit((unsigned char)parser->at[length]) || parser->at[length] == '.' ||
           (parser->at[length] == ',' && strspn(parser->at + length + 1, "0123456789") == 3))
        length++;
    if ((parser->at[length] == 'e' || parser->at[length] == 'E') && isdigit((unsigned char)parser->at[length + 1]))
        for (length++; isdigit((unsigned char)parser->at[length]);) length++;
    for (size_t i = 0; i < length && used + 1 < sizeof digits; i++)
        if (parser->at[i] != ',') digits[used++] = parser->at[i];
    digits[used] = '\0';
    double value = strtod(digits, &end);
    if (*end || !(value < 1e300)) return parser_fail(parser, "%.20s: this is no number", digits);
    parser->at += length;
    size_t blanks = strspn(parser->at, " "), letters;
    const struct unit_name *unit = unit_at(parser->at + blanks, &letters);
    struct node node = {.kind = NODE_NUMBER, .number = value};
    if (unit) {
        node.number *= unit->factor;
        node.dimension = unit->dimension;
        parser->at += blanks + letters;
    }
    return parser_add(parser, node);
}

static int function(struct parser *parser, int number_of)
{
    int operands[2] = {-1, -1};
    if (!parser_takes(parser, '(')) return parser_fail(parser, "%s needs parentheses", functions[number_of].name);
    for (int i = 0; i < functions[number_of].operands; i++) {
        if (i && !parser_takes(parser, ','))
            return parser_fail(parser, "%s takes %d values", functions[number_of].name, functions[number_of].operands);
        if ((operands[i] = parse_sum(parser)) < 0) return -1;
    }
    if (!parser_takes(parser, ')'))
        return parser_fail(parser, "%s(...): a ) is missing at %.20s", functions[number_of].name, parser->at);
    struct dimension dimension = parser_dimension(parser, operands[0]);
    if (operands[1] >= 0 && !dimension_equal(dimension, parser_dimension(parser, operands[1])))
        return parser_fail(parser, "%s of %s and %s%s", functions[number_of].name, dimension_name(dimension),
                           dimension_name(parser_dimension(parser, operands[1])),
                           dimension_advice(dimension, parser_dimension(parser, operands[1])));
    return parser_add(parser, (struct node){.kind = functions[number_of].kind,
                                            .dimension = dimension,
                                            .left = operands[0],
                                            .right = operands[1]});
}

int parse_unknown(struct parser *parser, const char *name)
{
    const char *known[METRICS + FUNCTIONS + LAB_KEPT_MAX + 1];
    int count = 0;
    for (int m = 0; m < METRICS; m++) known[count++] = metric_table[m].name;
    for (int f = 0; f < FUNCTIONS; f++) known[count++] = functions[f].name;
    for (int n = 0; parser->names && n < parser->names->count; n++) known[count++] = parser->names->at[n].name;
    known[count++] = "plan";
    const char *nearest = nearest_name(name, known, count);
    if (nearest) return parser_fail(parser, "there is no metric or kept value %s; did you mean %s?", name, nearest);
    return parser_fail(parser, "there is no metric or kept value %s; metrics stand in docs/LABS.md", name);
}

static int named(struct parser *parser)
{
    char name[WORD_ROOM];
    if (!parser_word(parser, name)) return parser_fail(parser, "a name is too long: %.20s", parser->at);
    for (int n = 0; parser->names && n < parser->names->count; n++) {
        if (strcmp(parser->names->at[n].name, name) != 0) continue;
        struct node node = {.kind = NODE_KEPT, .dimension = parser->names->at[n].dimension};
        memcpy(node.name, parser->names->at[n].name, sizeof node.name);
        return parser_add(parser, node);
    }
    if (strcmp(name, "plan") == 0) return parse_plan(parser);
    for (int f = 0; f < FUNCTIONS; f++)
        if (strcmp(functions[f].name, name) == 0) return function(parser, f);
    int id = metric_named(name);
    return id >= 0 ? parse_metric(parser, id, NULL) : parse_unknown(parser, name);
}

static int factor(struct parser *parser)
{
    int inner;
    if (parser_takes(parser, '-')) {
        inner = factor(parser);
        return inner < 0 ? -1
                         : parser_add(parser, (struct node){.kind = NODE_NEGATIVE,
                                                            .dimension = parser_dimension(parser, inner),
                                                            .left = inner});
    }
    if (parser_takes(parser, '(')) {
        inner = parse_sum(parser);
        if (inner >= 0 && !parser_takes(parser, ')')) return parser_fail(parser, "a ) is missing at %.20s", parser->at);
        return inner;
    }
    if (isdigit((unsigned char)*parser->at) || *parser->at == '.') return number(parser);
    if (parser_word_length(parser->at)) return named(parser);
    return parser_fail(parser, "a value is missing at: %.30s", *parser->at ? parser->at : "the end of the line");
}

static int join(struct parser *parser, enum node_kind kind, int left, int right)
{
    struct dimension a = parser_dimension(parser, left), b = parser_dimension(parser, right);
    if (kind == NODE_MULTIPLY || kind == NODE_DIVIDE) {
        const int sign = kind == NODE_MULTIPLY ? 1 : -1;
        const int bytes = a.bytes + sign * b.bytes, seconds = a.seconds + sign * b.seconds;
        if (abs(bytes) > 3 || abs(seconds) > 3) return parser_fail(parser, "this has no sensible unit");
        a = (struct dimension){(signed char)bytes, (signed char)seconds};
    } else if (!dimension_equal(a, b)) {
        return parser_fail(parser, "%s and %s cannot be added%s", dimension_name(a), dimension_name(b),
                           dimension_advice(a, b));
    }
    return parser_add(parser, (struct node){.kind = kind, .dimension = a, .left = left, .right = right});
}

/* operand {sign operand}, from left to right; the two signs are of `first` and of the kind after it. */
static int chain(struct parser *parser, const char signs[2], enum node_kind first, int (*operand)(struct parser *))
{
    int left = operand(parser);
    for (;;) {
        const int which = parser_takes(parser, signs[0]) ? 0 : parser_takes(parser, signs[1]) ? 1 : -1;
        if (left < 0 || which < 0) return left;
        const int right = operand(parser);
        left = right < 0 ? -1 : join(parser, first + (enum node_kind)which, left, right);
    }
}

static int product(struct parser *parser)
{
    return chain(parser, "*/", NODE_MULTIPLY, factor);
}

int parse_sum(struct parser *parser)
{
    if (++parser->depth > DEPTH_MAX) return parser_fail(parser, "the expression is nested too deeply");
    int node = chain(parser, "+-", NODE_ADD, product);
    parser->depth--;
    return node;
}

int expression_parse(const struct expression **out, const char **text, const struct lab_names *names, struct lab_pool *pool,
                     struct error *err)
{
    struct parser parser = {.at = *text, .names = names, .pool = pool, .err = err};
    const int root = parse_sum(&parser);
    *out = NULL;
    if (root < 0) return parser.status;
    const size_t bytes = (size_t)parser.count * sizeof *parser.nodes;
    struct expression *expression = pool_take(pool, sizeof *expression + bytes);
    if (!expression) return error_set(err, STATUS_RUN, "no memory for an expression");
    expression->count = parser.count;
    expression->root = root;
    memcpy(expression->nodes, parser.nodes, bytes);
    parser_skip_blanks(&parser);
    *text = parser.at;
    *out = expression;
    return STATUS_OK;
}

struct dimension expression_dimension(const struct expression *expression)
{
    return expression->nodes[expression->root].dimension;
}

/* ---- evaluating: unknown is handed on, with its reason; the place on the timeline is that of the first value that has one ---- */

struct lab_value value_known(double value, struct dimension dimension)
{
    return (struct lab_value){.known = true, .quantity = {value, dimension}};
}

struct lab_value value_unknown(const char *format, ...)
{
    struct lab_value value = {0};
    FORMAT_ARGUMENTS(value.why_not, sizeof value.why_not, format);
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

static struct lab_value combined(const struct expression *expression, const struct node *node,
                                 const struct lab_scene *scene)
{
    struct lab_value left = evaluate(expression, node->left, scene), right = left;
    if (left.known && node->kind >= NODE_ADD && node->kind <= NODE_MAX)
        right = evaluate(expression, node->right, scene);
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
