/* A recursive-descent parser: sum := product {+|- product}; product := factor {*|/ factor}; factor := number, name, metric,
 * function or (sum). Nodes lie in one array; units are settled here, so that evaluating cannot meet a wrong one. */
#include "engine/lab/expression.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/lab/expression_parts.h"
#include "engine/plan/accounting.h"

#define T(what) (1u << TAKES_##what)
#define RUN     METRIC_RUN
#define PLAN    METRIC_PLAN
#define MACHINE METRIC_MACHINE
const struct metric_row metric_table[METRICS] = {
#define METRIC(ID, name, bytes, seconds, takes, where, help) {name, {bytes, seconds}, takes, where, help},
#include "engine/lab/metrics.def"
#undef METRIC
};
#undef RUN
#undef PLAN
#undef MACHINE

enum { DEPTH_MAX = 64, NODES_MAX = 256, WORD_ROOM = 64, TEXT_ROOM = 400 };

struct parser {
    struct expression *out;
    const char *at;
    const struct lab_names *names;
    struct error *err;
    int depth, status;
};

static const struct {
    const char *name;
    enum node_kind kind;
    int operands;
} functions[] = {
    {"min", NODE_MIN, 2},     {"max", NODE_MAX, 2},   {"abs", NODE_ABS, 1},
    {"round", NODE_ROUND, 1}, {"ceil", NODE_CEIL, 1}, {"floor", NODE_FLOOR, 1},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const char *const op_names[OP_KINDS] = {
#define OP(ID, name, lane, phase, help) name,
#include "engine/plan/ops.def"
#undef OP
};

/* ---- words --------------------------------------------------------------------------------------------------------- */

static void skip_blanks(struct parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t') parser->at++;
}

static bool takes(struct parser *parser, char character)
{
    skip_blanks(parser);
    if (*parser->at != character) return false;
    return parser->at++, true;
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    if (!isalpha((unsigned char)*text) && *text != '_') return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '\'') length++;
    return length;
}

static bool word(struct parser *parser, char out[WORD_ROOM])
{
    skip_blanks(parser);
    size_t length = word_length(parser->at);
    if (!length || length >= WORD_ROOM) return false;
    memcpy(out, parser->at, length);
    out[length] = '\0';
    parser->at += length;
    return true;
}

static int fail(struct parser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(struct parser *parser, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!parser->status) parser->status = error_set(parser->err, STATUS_USAGE, "%s", text);
    return -1;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------- */

static int node_add(struct parser *parser, struct node node)
{
    struct expression *out = parser->out;
    if (out->count == NODES_MAX) return free(node.plan), free(node.of.text), fail(parser, "the expression is too long");
    if (out->count == out->room) {
        int room = out->room ? 2 * out->room : 8;
        struct node *nodes = realloc(out->nodes, (size_t)room * sizeof *nodes);
        if (!nodes) return free(node.plan), free(node.of.text), fail(parser, "no memory for an expression");
        out->nodes = nodes;
        out->room = room;
    }
    out->nodes[out->count] = node;
    return out->count++;
}

static struct dimension dimension_at(const struct parser *parser, int node)
{
    return parser->out->nodes[node].dimension;
}

static int sum(struct parser *parser);

static int number(struct parser *parser)
{
    char *end, digits[48];
    size_t length = 0, used = 0;
    while (isdigit((unsigned char)parser->at[length]) || parser->at[length] == '.' ||
           (parser->at[length] == ',' && isdigit((unsigned char)parser->at[length + 1]) &&
            isdigit((unsigned char)parser->at[length + 2]) && isdigit((unsigned char)parser->at[length + 3]) &&
            !isdigit((unsigned char)parser->at[length + 4])))
        length++;
    if ((parser->at[length] == 'e' || parser->at[length] == 'E') && isdigit((unsigned char)parser->at[length + 1]))
        for (length++; isdigit((unsigned char)parser->at[length]);) length++;
    for (size_t i = 0; i < length && used + 1 < sizeof digits; i++)
        if (parser->at[i] != ',') digits[used++] = parser->at[i];
    digits[used] = '\0';
    double value = strtod(digits, &end);
    if (*end || !(value < 1e300)) return fail(parser, "%.20s: this is no number", digits);
    parser->at += length;
    size_t blanks = strspn(parser->at, " "), letters;
    const struct unit_name *unit = unit_at(parser->at + blanks, &letters);
    struct node node = {.kind = NODE_NUMBER, .number = value};
    if (unit) {
        node.number *= unit->factor;
        node.dimension = unit->dimension;
        parser->at += blanks + letters;
    }
    return node_add(parser, node);
}

/* ---- what stands in a metric's parentheses ------------------------------------------------------------------------- */

static int category_named(const char *name)
{
    for (int c = 0; c < CATEGORIES; c++)
        if (strcmp(category_name((enum category)c), name) == 0) return c;
    return -1;
}

static int in_list(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static int traffic_named(const char *name)
{
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (strcmp(traffic_name((enum traffic)kind), name) == 0) return kind;
    return -1;
}

static int tier_named(const char *name)
{
    for (int tier = 0; tier < TIERS; tier++)
        if (strcmp(tier_name((enum tier)tier), name) == 0) return tier;
    return -1;
}

static int phase_named(const char *name)
{
    for (int phase = 0; phase < PHASES; phase++)
        if (strcmp(phase_name((enum phase)phase), name) == 0) return phase;
    return -1;
}

static int lane_named(const char *name)
{
    for (enum lane lane = 0; lane < LANES; lane++)
        if (strcmp(lane_name(lane), name) == 0) return (int)lane;
    return -1;
}

/* Numbers are small in practice; a rank or step that is not there is said when it is looked for. */
static int select_rank(struct parser *parser, struct selection_of *of)
{
    char any[WORD_ROOM];
    skip_blanks(parser);
    if (isdigit((unsigned char)*parser->at)) {
        char *end;
        long rank = strtol(parser->at, &end, 10);
        parser->at = end;
        of->rank = rank > RUN_RANKS_MAX ? RUN_RANKS_MAX : (int)rank;
        return 0;
    }
    if (word(parser, any) && strcmp(any, "any") == 0) return of->rank = ANY, 0;
    return fail(parser, "after rank stands a number, or any (the one with most)");
}

static int select_step(struct parser *parser, struct selection_of *of)
{
    of->has_step = true;
    bool back = takes(parser, '-');
    of->step = sum(parser);
    if (of->step >= 0 && !dimension_equal(dimension_at(parser, of->step), (struct dimension){0, 0}))
        return fail(parser, "after step stands a plain number");
    if (of->step >= 0 && back) of->step = node_add(parser, (struct node){.kind = NODE_NEGATIVE, .left = of->step});
    return of->step < 0 ? -1 : 0;
}

static int quoted(struct parser *parser, char **out)
{
    const char *end = takes(parser, '"') ? strchr(parser->at, '"') : NULL;
    if (!end || end - parser->at >= TEXT_ROOM)
        return fail(parser, "a text in quotes is missing here: %.30s", parser->at);
    free(*out);
    *out = strndup(parser->at, (size_t)(end - parser->at));
    parser->at = end + 1;
    return *out ? 0 : fail(parser, "no memory for an expression");
}

static bool can(const struct metric_row *row, enum takes what)
{
    return row->takes & 1u << what;
}

/* A key of the configuration is looked up where it is asked for; an accounting's name is known now. */
static int text_is_known(struct parser *parser, const struct metric_row *row, const char *text)
{
    const struct accounting *found;
    struct error err;
    if (row != &metric_table[METRIC_ACCOUNTING] || accounting_find(&found, text, &err) == STATUS_OK) return 0;
    return fail(parser, "%s", err.text);
}

/* The nearest of the words that this metric takes, or NULL. */
static const char *nearest_word(const struct metric_row *row, const char *name)
{
    const char *known[CATEGORIES + TIERS + TRAFFIC_KINDS + OP_KINDS + PHASES + LANES + 4];
    int count = 0;
    if (can(row, TAKES_RANK)) known[count++] = "rank";
    if (can(row, TAKES_STEP)) known[count++] = "step";
    if (can(row, TAKES_AHEAD)) known[count++] = "prefetch";
    if (can(row, TAKES_HOST)) known[count++] = lane_name(LANE_HOST);
    for (int c = 0; c < CATEGORIES && can(row, TAKES_CATEGORY); c++) known[count++] = category_name((enum category)c);
    for (int t = 0; t < TIERS && can(row, TAKES_TIER); t++) known[count++] = tier_name((enum tier)t);
    for (int k = 0; k < TRAFFIC_KINDS && can(row, TAKES_KIND); k++) known[count++] = traffic_name((enum traffic)k);
    for (int o = 0; o < OP_KINDS && can(row, TAKES_OP); o++) known[count++] = op_names[o];
    for (int p = 0; p < PHASES && can(row, TAKES_PHASE); p++) known[count++] = phase_name((enum phase)p);
    for (int l = 0; l < LANES && can(row, TAKES_LANE); l++) known[count++] = lane_name((enum lane)l);
    return nearest_name(name, known, count);
}

static int one_selection(struct parser *parser, const struct metric_row *row, struct selection_of *of)
{
    char name[WORD_ROOM];
    if (can(row, TAKES_TEXT)) return quoted(parser, &of->text) < 0 ? -1 : text_is_known(parser, row, of->text);
    if (!word(parser, name)) return fail(parser, "%s(...): a word is missing at %.20s", row->name, parser->at);
    if (can(row, TAKES_RANK) && !strcmp(name, "rank")) return select_rank(parser, of);
    if (can(row, TAKES_STEP) && !strcmp(name, "step")) return select_step(parser, of);
    if (can(row, TAKES_AHEAD) && !strcmp(name, "prefetch")) return of->ahead = true, 0;
    if (can(row, TAKES_HOST) && !strcmp(name, lane_name(LANE_HOST))) return of->lane = LANE_HOST, 0;
    int found;
    if (can(row, TAKES_CATEGORY) && (found = category_named(name)) >= 0) return of->category = found, 0;
    if (can(row, TAKES_TIER) && (found = tier_named(name)) >= 0) return of->tier = (enum tier)found, 0;
    if (can(row, TAKES_KIND) && (found = traffic_named(name)) >= 0) return of->kind = found, 0;
    if (can(row, TAKES_OP) && (found = in_list(op_names, OP_KINDS, name)) >= 0) return of->op = found, 0;
    if (can(row, TAKES_PHASE) && (found = phase_named(name)) >= 0) return of->phase = found, 0;
    if (can(row, TAKES_LANE) && (found = lane_named(name)) >= 0) return of->lane = found, 0;
    const char *nearest = nearest_word(row, name);
    if (nearest)
        return fail(parser, "%s(%s): %s does not take this word; did you mean %s?", row->name, name, row->name,
                    nearest);
    return fail(parser, "%s(%s): %s does not take this word; see the table of metrics in docs/LABS.md", row->name, name,
                row->name);
}

static int selections(struct parser *parser, const struct metric_row *row, struct selection_of *of)
{
    *of = (struct selection_of){
        .rank = ANY, .category = ANY, .op = ANY, .kind = ANY, .phase = ANY, .lane = ANY, .step = -1};
    if (!takes(parser, '(')) {
        return can(row, TAKES_TEXT) ? fail(parser, "%s needs a name in quotes: %s(\"...\")", row->name, row->name) : 0;
    }
    if (takes(parser, ')') && !can(row, TAKES_TEXT)) return 0;
    do {
        if (one_selection(parser, row, of) < 0) return -1;
    } while (takes(parser, ','));
    return takes(parser, ')') ? 0 : fail(parser, "%s(...): a ) is missing at %.20s", row->name, parser->at);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static int metric_named(const char *name)
{
    for (int m = 0; m < METRICS; m++)
        if (strcmp(metric_table[m].name, name) == 0) return m;
    return -1;
}

static int unknown_name(struct parser *parser, const char *name)
{
    const char *known[METRICS + FUNCTIONS + LAB_KEPT_MAX + 1];
    int count = 0;
    for (int m = 0; m < METRICS; m++) known[count++] = metric_table[m].name;
    for (int f = 0; f < FUNCTIONS; f++) known[count++] = functions[f].name;
    for (int n = 0; parser->names && n < parser->names->count; n++) known[count++] = parser->names->at[n].name;
    known[count++] = "plan";
    const char *nearest = nearest_name(name, known, count);
    if (nearest) return fail(parser, "there is no metric or kept value %s; did you mean %s?", name, nearest);
    return fail(parser, "there is no metric or kept value %s; metrics stand in docs/LABS.md", name);
}

/* `plan` is the settings of a plan, or NULL: measured in the run. */
static int metric(struct parser *parser, int id, char *plan)
{
    const struct metric_row *row = &metric_table[id];
    struct node node = {.kind = NODE_METRIC,
                        .metric = (enum metric)id,
                        .dimension = row->dimension,
                        .planned = plan != NULL,
                        .plan = plan};
    if (plan && !(row->where & METRIC_PLAN)) return free(plan), fail(parser, "a plan does not say %s", row->name);
    if (!plan && !(row->where & METRIC_RUN))
        return fail(parser, "%s is said by a plan: plan().%s", row->name, row->name);
    if (selections(parser, row, &node.of) < 0) return free(plan), free(node.of.text), -1;
    if (plan && node.of.has_step)
        return free(plan), free(node.of.text), fail(parser, "a plan has no steps: plan(\"...\").%s", row->name);
    return node_add(parser, node);
}

static int plan(struct parser *parser)
{
    char *settings = NULL, name[WORD_ROOM];
    if (!takes(parser, '('))
        return fail(parser, "plan is written plan(\"stage=2 ranks=8\").peak, or plan().peak for the run as it is");
    skip_blanks(parser);
    if (*parser->at == '"' && quoted(parser, &settings) < 0) return free(settings), -1;
    if (!settings) settings = strdup("");
    if (!settings) return fail(parser, "no memory for an expression");
    if (!takes(parser, ')') || !takes(parser, '.') || !word(parser, name))
        return free(settings), fail(parser, "after plan(\"...\") stands a metric: plan(\"...\").peak");
    int id = metric_named(name);
    if (id < 0) return free(settings), unknown_name(parser, name);
    return metric(parser, id, settings);
}

static int function(struct parser *parser, int number_of)
{
    int operands[2] = {-1, -1};
    if (!takes(parser, '(')) return fail(parser, "%s needs parentheses", functions[number_of].name);
    for (int i = 0; i < functions[number_of].operands; i++) {
        if (i && !takes(parser, ','))
            return fail(parser, "%s takes %d values", functions[number_of].name, functions[number_of].operands);
        if ((operands[i] = sum(parser)) < 0) return -1;
    }
    if (!takes(parser, ')'))
        return fail(parser, "%s(...): a ) is missing at %.20s", functions[number_of].name, parser->at);
    struct dimension dimension = dimension_at(parser, operands[0]);
    if (operands[1] >= 0 && !dimension_equal(dimension, dimension_at(parser, operands[1])))
        return fail(parser, "%s of %s and %s%s", functions[number_of].name, dimension_name(dimension),
                    dimension_name(dimension_at(parser, operands[1])),
                    dimension_advice(dimension, dimension_at(parser, operands[1])));
    return node_add(parser, (struct node){.kind = functions[number_of].kind,
                                          .dimension = dimension,
                                          .left = operands[0],
                                          .right = operands[1]});
}

static int named(struct parser *parser)
{
    char name[WORD_ROOM];
    if (!word(parser, name)) return fail(parser, "a name is too long: %.20s", parser->at);
    for (int n = 0; parser->names && n < parser->names->count; n++) {
        if (strcmp(parser->names->at[n].name, name) != 0) continue;
        struct node node = {.kind = NODE_KEPT, .dimension = parser->names->at[n].dimension};
        memcpy(node.name, parser->names->at[n].name, sizeof node.name);
        return node_add(parser, node);
    }
    if (strcmp(name, "plan") == 0) return plan(parser);
    for (int f = 0; f < FUNCTIONS; f++)
        if (strcmp(functions[f].name, name) == 0) return function(parser, f);
    int id = metric_named(name);
    return id >= 0 ? metric(parser, id, NULL) : unknown_name(parser, name);
}

/* ---- arithmetic ---------------------------------------------------------------------------------------------------- */

static int factor(struct parser *parser)
{
    int inner;
    if (takes(parser, '-')) {
        inner = factor(parser);
        return inner < 0 ? -1
                         : node_add(parser, (struct node){.kind = NODE_NEGATIVE,
                                                          .dimension = dimension_at(parser, inner),
                                                          .left = inner});
    }
    if (takes(parser, '(')) {
        inner = sum(parser);
        if (inner >= 0 && !takes(parser, ')')) return fail(parser, "a ) is missing at %.20s", parser->at);
        return inner;
    }
    if (isdigit((unsigned char)*parser->at) || *parser->at == '.') return number(parser);
    if (word_length(parser->at)) return named(parser);
    return fail(parser, "a value is missing at: %.30s", *parser->at ? parser->at : "the end of the line");
}

static int scaled(struct parser *parser, enum node_kind kind, int left, int right)
{
    struct dimension a = dimension_at(parser, left), b = dimension_at(parser, right);
    int sign = kind == NODE_MULTIPLY ? 1 : -1, bytes = a.bytes + sign * b.bytes, seconds = a.seconds + sign * b.seconds;
    if (abs(bytes) > 3 || abs(seconds) > 3) return fail(parser, "this has no sensible unit");
    struct dimension dimension = {(signed char)bytes, (signed char)seconds};
    return node_add(parser, (struct node){.kind = kind, .dimension = dimension, .left = left, .right = right});
}

static int product(struct parser *parser)
{
    int left = factor(parser);
    for (;;) {
        enum node_kind kind = takes(parser, '*') ? NODE_MULTIPLY : takes(parser, '/') ? NODE_DIVIDE : NODE_NUMBER;
        if (left < 0 || kind == NODE_NUMBER) return left;
        int right = factor(parser);
        left = right < 0 ? -1 : scaled(parser, kind, left, right);
    }
}

static int sum_within(struct parser *parser)
{
    int left = product(parser);
    for (;;) {
        enum node_kind kind = takes(parser, '+') ? NODE_ADD : takes(parser, '-') ? NODE_SUBTRACT : NODE_NUMBER;
        if (left < 0 || kind == NODE_NUMBER) return left;
        int right = product(parser);
        if (right < 0) return -1;
        struct dimension a = dimension_at(parser, left), b = dimension_at(parser, right);
        if (!dimension_equal(a, b))
            return fail(parser, "%s and %s cannot be added%s", dimension_name(a), dimension_name(b),
                        dimension_advice(a, b));
        left = node_add(parser, (struct node){.kind = kind, .dimension = a, .left = left, .right = right});
    }
}

static int sum(struct parser *parser)
{
    if (++parser->depth > DEPTH_MAX) return fail(parser, "the expression is nested too deeply");
    int node = sum_within(parser);
    parser->depth--;
    return node;
}

int expression_parse(struct expression **out, const char **text, const struct lab_names *names, struct error *err)
{
    struct parser parser = {.out = calloc(1, sizeof(struct expression)), .at = *text, .names = names, .err = err};
    *out = NULL;
    if (!parser.out) return error_set(err, STATUS_RUN, "no memory for an expression");
    parser.out->root = sum(&parser);
    if (parser.out->root < 0) return expression_free(parser.out), parser.status;
    skip_blanks(&parser);
    *text = parser.at;
    *out = parser.out;
    return STATUS_OK;
}

void expression_free(struct expression *expression)
{
    if (!expression) return;
    for (int n = 0; n < expression->count; n++) {
        free(expression->nodes[n].plan);
        free(expression->nodes[n].of.text);
    }
    free(expression->nodes);
    free(expression);
}

struct dimension expression_dimension(const struct expression *expression)
{
    return expression->nodes[expression->root].dimension;
}
