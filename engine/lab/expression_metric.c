/* Metrics by name: measured in the run, or said by a plan. */
#include <stdlib.h>
#include <string.h>

#include "engine/lab/expression_parser.h"

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
