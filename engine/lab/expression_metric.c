/* What stands in a metric's parentheses: words that select a rank, a step, a tier and so on, of which each metric takes its
 * own; or one text in quotes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/base/named.h"
#include "engine/base/nearest.h"
#include "engine/lab/expression_parser.h"

static const char *const op_names[OP_KINDS] = {
#define OP(ID, name, lane, phase, help) name,
#include "engine/plan/ops.def"
#undef OP
};

/* Labs that were written before operations had these names are read as before. */
static const struct {
    const char *name;
    enum op_kind kind;
} former_names[] = {
    {"bring", OP_PARAM_H2D},
    {"gradout", OP_GRAD_D2H},
    {"reattend", OP_ATTENTION_RECOMPUTE},
    {"remlp", OP_MLP_RECOMPUTE},
};

NAMED(category, CATEGORIES)
NAMED(traffic, TRAFFIC_KINDS)
NAMED(tier, TIERS)
NAMED(phase, PHASES)
NAMED(lane, LANES)

static int in_list(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static int op_named(const char *name)
{
    for (size_t n = 0; n < sizeof former_names / sizeof *former_names; n++)
        if (strcmp(former_names[n].name, name) == 0) return (int)former_names[n].kind;
    return in_list(op_names, OP_KINDS, name);
}

/* Numbers are small in practice; a rank or step that is not there is said when it is looked for. */
static int select_rank(struct parser *parser, struct selection_of *of)
{
    char any[WORD_ROOM];
    parser_skip_blanks(parser);
    if (isdigit((unsigned char)*parser->at)) {
        char *end;
        long rank = strtol(parser->at, &end, 10);
        parser->at = end;
        of->rank = rank > RUN_RANKS_MAX ? RUN_RANKS_MAX : (int)rank;
        return 0;
    }
    if (parser_word(parser, any) && strcmp(any, "any") == 0) return of->rank = ANY, 0;
    return parser_fail(parser, "after rank stands a number, or any (the one with most)");
}

static int select_step(struct parser *parser, struct selection_of *of)
{
    of->has_step = true;
    bool back = parser_takes(parser, '-');
    of->step = parse_sum(parser);
    if (of->step >= 0 && !dimension_equal(parser_dimension(parser, of->step), (struct dimension){0, 0}))
        return parser_fail(parser, "after step stands a plain number");
    if (of->step >= 0 && back) of->step = parser_add(parser, (struct node){.kind = NODE_NEGATIVE, .left = of->step});
    return of->step < 0 ? -1 : 0;
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
    return parser_fail(parser, "%s", err.text);
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
    if (can(row, TAKES_TEXT)) return parse_quoted(parser, &of->text) < 0 ? -1 : text_is_known(parser, row, of->text);
    if (!parser_word(parser, name))
        return parser_fail(parser, "%s(...): a word is missing at %.20s", row->name, parser->at);
    if (can(row, TAKES_RANK) && !strcmp(name, "rank")) return select_rank(parser, of);
    if (can(row, TAKES_STEP) && !strcmp(name, "step")) return select_step(parser, of);
    if (can(row, TAKES_AHEAD) && !strcmp(name, "prefetch")) return of->ahead = true, 0;
    if (can(row, TAKES_HOST) && !strcmp(name, lane_name(LANE_HOST))) return of->lane = LANE_HOST, 0;
    int found;
    if (can(row, TAKES_CATEGORY) && (found = category_named(name)) >= 0) return of->category = found, 0;
    if (can(row, TAKES_TIER) && (found = tier_named(name)) >= 0) return of->tier = (enum tier)found, 0;
    if (can(row, TAKES_KIND) && (found = traffic_named(name)) >= 0) return of->kind = found, 0;
    if (can(row, TAKES_OP) && (found = op_named(name)) >= 0) return of->op = found, 0;
    if (can(row, TAKES_PHASE) && (found = phase_named(name)) >= 0) return of->phase = found, 0;
    if (can(row, TAKES_LANE) && (found = lane_named(name)) >= 0) return of->lane = found, 0;
    const char *nearest = nearest_word(row, name);
    if (nearest)
        return parser_fail(parser, "%s(%s): %s does not take this word; did you mean %s?", row->name, name, row->name,
                           nearest);
    return parser_fail(parser, "%s(%s): %s does not take this word; see the table of metrics in docs/LABS.md",
                       row->name, name, row->name);
}

int parse_selections(struct parser *parser, const struct metric_row *row, struct selection_of *of)
{
    *of = (struct selection_of){
        .rank = ANY, .category = ANY, .op = ANY, .kind = ANY, .phase = ANY, .lane = ANY, .step = -1};
    if (!parser_takes(parser, '(')) {
        return can(row, TAKES_TEXT)
                   ? parser_fail(parser, "%s needs a name in quotes: %s(\"...\")", row->name, row->name)
                   : 0;
    }
    if (parser_takes(parser, ')') && !can(row, TAKES_TEXT)) return 0;
    do {
        if (one_selection(parser, row, of) < 0) return -1;
    } while (parser_takes(parser, ','));
    return parser_takes(parser, ')') ? 0
                                     : parser_fail(parser, "%s(...): a ) is missing at %.20s", row->name, parser->at);
}

/* ---- metrics by name: measured in the run, or said by a plan ---- */

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

int metric_named(const char *name)
{
    for (int m = 0; m < METRICS; m++)
        if (strcmp(metric_table[m].name, name) == 0) return m;
    return -1;
}

int parse_metric(struct parser *parser, int id, char *plan)
{
    const struct metric_row *row = &metric_table[id];
    struct node node = {.kind = NODE_METRIC,
                        .metric = (enum metric)id,
                        .dimension = row->dimension,
                        .planned = plan != NULL,
                        .plan = plan};
    if (plan && !(row->where & METRIC_PLAN))
        return free(plan), parser_fail(parser, "a plan does not say %s", row->name);
    if (!plan && !(row->where & METRIC_RUN))
        return parser_fail(parser, "%s is said by a plan: plan().%s", row->name, row->name);
    if (parse_selections(parser, row, &node.of) < 0) return free(plan), free(node.of.text), -1;
    if (plan && node.of.has_step)
        return free(plan), free(node.of.text), parser_fail(parser, "a plan has no steps: plan(\"...\").%s", row->name);
    return parser_add(parser, node);
}

int parse_plan(struct parser *parser)
{
    char *settings = NULL, name[WORD_ROOM];
    if (!parser_takes(parser, '('))
        return parser_fail(parser,
                           "plan is written plan(\"stage=2 ranks=8\").peak, or plan().peak for the run as it is");
    parser_skip_blanks(parser);
    if (*parser->at == '"' && parse_quoted(parser, &settings) < 0) return free(settings), -1;
    if (!settings) settings = strdup("");
    if (!settings) return parser_fail(parser, "no memory for an expression");
    if (!parser_takes(parser, ')') || !parser_takes(parser, '.') || !parser_word(parser, name))
        return free(settings), parser_fail(parser, "after plan(\"...\") stands a metric: plan(\"...\").peak");
    int id = metric_named(name);
    if (id < 0) return free(settings), parse_unknown(parser, name);
    return parse_metric(parser, id, settings);
}
