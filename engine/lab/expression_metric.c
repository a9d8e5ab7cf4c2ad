/* Metrics by name: measured in the run, or said by a plan. What stands in a metric's parentheses: words that select a rank, a step, a
 * tier and so on, of which each metric takes its own; or one text in quotes. What each of them takes, as Markdown for docs/LABS.md. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/base/nearest.h"
#include "engine/base/text_stream.h"
#include "engine/lab/expression_parts.h"

/* Labs that were written before operations had these names are read as before. */
static const struct {
    const char *name;
    const char *now;
} former_names[] = {
    {"bring", "param_h2d"},
    {"gradout", "grad_d2h"},
    {"reattend", "rec_attn"},
    {"remlp", "rec_mlp"},
};

/* Words of which each stands for a number: where it is put, and its name. */
#define NAMES(list, what)                                                                                              \
    static const char *list##_word(int number)                                                                         \
    {                                                                                                                  \
        return list##_name((enum what)number);                                                                         \
    }
NAMES(tier, tier)
NAMES(category, category)
NAMES(traffic, traffic)
NAMES(phase, phase)
NAMES(lane, lane)

static const struct word_list {
    enum takes takes;
    size_t place;
    int count;
    const char *(*name_of)(int number); /* NULL: the list is shorter */
} lists[] = {
    {TAKES_TIER, offsetof(struct selection_of, tier), TIERS, tier_word},
    {TAKES_CATEGORY, offsetof(struct selection_of, category), CATEGORIES, category_word},
    {TAKES_KIND, offsetof(struct selection_of, kind), TRAFFIC_KINDS, traffic_word},
    {TAKES_OP, offsetof(struct selection_of, op), OP_CODES_MAX, op_code_name},
    {TAKES_PHASE, offsetof(struct selection_of, phase), PHASES, phase_word},
    {TAKES_LANE, offsetof(struct selection_of, lane), LANES, lane_word},
};
enum { LISTS = sizeof lists / sizeof *lists };

static int in_list(const struct word_list *list, const char *name)
{
    for (size_t n = 0; list->takes == TAKES_OP && n < sizeof former_names / sizeof *former_names; n++)
        if (strcmp(former_names[n].name, name) == 0) name = former_names[n].now;
    for (int n = 0; n < list->count && list->name_of(n); n++)
        if (strcmp(list->name_of(n), name) == 0) return n;
    return -1;
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
    const char *known[CATEGORIES + TIERS + TRAFFIC_KINDS + OP_CODES_MAX + PHASES + LANES + 4];
    int count = 0;
    if (can(row, TAKES_RANK)) known[count++] = "rank";
    if (can(row, TAKES_STEP)) known[count++] = "step";
    if (can(row, TAKES_AHEAD)) known[count++] = "prefetch";
    if (can(row, TAKES_HOST)) known[count++] = lane_name(LANE_HOST);
    for (const struct word_list *list = lists; list < lists + LISTS; list++)
        for (int n = 0; n < list->count && can(row, list->takes) && list->name_of(n); n++)
            known[count++] = list->name_of(n);
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
    for (const struct word_list *list = lists; list < lists + LISTS; list++) {
        const int found = can(row, list->takes) ? in_list(list, name) : -1;
        if (found >= 0) return *(int *)((char *)of + list->place) = found, 0;
    }
    const char *nearest = nearest_word(row, name);
    if (nearest)
        return parser_fail(parser, "%s(%s): %s does not take this word; did you mean %s?", row->name, name, row->name,
                           nearest);
    return parser_fail(parser, "%s(%s): %s does not take this word; see the table of metrics in docs/LABS.md",
                       row->name, name, row->name);
}

/* What stands in the parentheses of a metric, or that there are none. */
static int parse_selections(struct parser *parser, const struct metric_row *row, struct selection_of *of)
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
#define TRACE   METRIC_TRACE
const struct metric_row metric_table[METRICS] = {
#define METRIC(ID, name, bytes, seconds, from, takes, where, help) {name, {bytes, seconds}, FROM_##from, takes, where, help},
#include "engine/lab/metrics.def"
#undef METRIC
};
#undef RUN
#undef PLAN
#undef MACHINE
#undef TRACE

int metric_named(const char *name)
{
    for (int m = 0; m < METRICS; m++)
        if (strcmp(metric_table[m].name, name) == 0) return m;
    return -1;
}

int parse_metric(struct parser *parser, int id, const char *plan)
{
    const struct metric_row *row = &metric_table[id];
    struct node node = {.kind = NODE_METRIC,
                        .metric = (enum metric)id,
                        .dimension = row->dimension,
                        .planned = plan != NULL,
                        .plan = plan};
    if (plan && !(row->where & METRIC_PLAN)) return parser_fail(parser, "a plan does not say %s", row->name);
    if (!plan && !(row->where & METRIC_RUN))
        return parser_fail(parser, "%s is said by a plan: plan().%s", row->name, row->name);
    if (parse_selections(parser, row, &node.of) < 0) return -1;
    if (plan && node.of.has_step) return parser_fail(parser, "a plan has no steps: plan(\"...\").%s", row->name);
    return parser_add(parser, node);
}

int parse_plan(struct parser *parser)
{
    const char *settings = "";
    char name[WORD_ROOM];
    if (!parser_takes(parser, '('))
        return parser_fail(parser,
                           "plan is written plan(\"stage=2 ranks=8\").peak, or plan().peak for the run as it is");
    parser_skip_blanks(parser);
    if (*parser->at == '"' && parse_quoted(parser, &settings) < 0) return -1;
    if (!parser_takes(parser, ')') || !parser_takes(parser, '.') || !parser_word(parser, name))
        return parser_fail(parser, "after plan(\"...\") stands a metric: plan(\"...\").peak");
    int id = metric_named(name);
    return id < 0 ? parse_unknown(parser, name) : parse_metric(parser, id, settings);
}

/* ---- as Markdown: the tables of docs/LABS.md ---- */

static const char *const words[] = {"rank",     "tier",  "category", "step", "operation", "traffic",
                                    "prefetch", "phase", "lane",     "host", "\"name\""};

static const char *where_of(const struct metric_row *row)
{
    if (row->where & METRIC_TRACE) return row->where & METRIC_PLAN ? "run, trace, plan" : "run, trace";
    return !(row->where & METRIC_PLAN) ? "run" : row->where & METRIC_RUN ? "run, plan" : "plan";
}

char *lab_metrics_markdown(void)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    fputs("| metric | unit | of | in parentheses | what |\n|---|---|---|---|---|\n", out);
    for (int m = 0; m < METRICS; m++) {
        const struct metric_row *row = &metric_table[m];
        bool plain = dimension_equal(row->dimension, (struct dimension){0, 0});
        fprintf(out, "| `%s` | %s | %s |", row->name, plain ? "" : dimension_name(row->dimension), where_of(row));
        const char *comma = " ";
        for (int t = TAKES_RANK; t <= TAKES_TEXT; t++)
            if (row->takes & 1u << t) fprintf(out, "%s%s", comma, words[t]), comma = ", ";
        fprintf(out, " | %s |\n", row->help);
    }
    fputs("\n| in parentheses | one of |\n|---|---|\n| rank | `rank 0`, `rank 1` ...; `rank any`: the one with most, "
          "or the mean if the table says so |\n"
          "| step | `step 3`; `step 0` is the last whole one, `step -1` the one before it |\n",
          out);
    for (const struct word_list *list = lists; list < lists + LISTS; list++) {
        fprintf(out, "| %s |", words[list->takes]);
        for (int n = 0; n < list->count && list->name_of(n); n++) fprintf(out, " `%s`", list->name_of(n));
        fputs(" |\n", out);
    }
    return text_stream_close(&text);
}
