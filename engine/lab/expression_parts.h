/* Inside of expressions: parsing and values (expression.c), metrics by name (expression_metric.c), what was measured (measured.c), plans
 * (planned.c). */
#ifndef ENGINE_LAB_EXPRESSION_PARTS_H
#define ENGINE_LAB_EXPRESSION_PARTS_H

#include "engine/lab/expression.h"

enum metric {
#define METRIC(ID, name, bytes, seconds, takes, where, help) METRIC_##ID,
#include "engine/lab/metrics.def"
#undef METRIC
    METRICS
};

enum takes { TAKES_RANK, TAKES_TIER, TAKES_CATEGORY, TAKES_STEP, TAKES_OP, TAKES_KIND, TAKES_AHEAD, TAKES_PHASE, TAKES_LANE, TAKES_HOST, TAKES_TEXT };
enum metric_where { METRIC_RUN = 1, METRIC_PLAN = 2, METRIC_MACHINE = 4 };

struct metric_row { const char *name; struct dimension dimension; unsigned takes; unsigned where; const char *help; };
extern const struct metric_row metric_table[METRICS];

enum { ANY = -1 };

/* What stands in a metric's parentheses; ANY where it was not said. */
struct selection_of {
    int rank, category, op, kind, phase, lane;
    enum tier tier;
    bool ahead, has_step;
    int step; /* node of the expression that gives it */
    char *text;
};

enum node_kind {
    NODE_NUMBER, NODE_KEPT, NODE_METRIC, NODE_NEGATIVE, NODE_ADD, NODE_SUBTRACT, NODE_MULTIPLY, NODE_DIVIDE,
    NODE_MIN, NODE_MAX, NODE_ABS, NODE_ROUND, NODE_CEIL, NODE_FLOOR,
};

struct node {
    enum node_kind kind;
    struct dimension dimension;
    double number;             /* NODE_NUMBER */
    char name[LAB_NAME_MAX];   /* NODE_KEPT */
    int left, right;           /* nodes */
    enum metric metric;
    bool planned;              /* of plan(), not of the run */
    char *plan;                /* its settings; "": those of the run as it is now */
    struct selection_of of;
};

struct expression { int count, room, root; struct node *nodes; };

/* The value of a metric; *step: of the training run, 0: the last whole one. */
struct lab_value measured_value(const struct node *node, const struct lab_scene *scene, int64_t step);
struct lab_value planned_value(const struct node *node, const struct lab_scene *scene);

struct lab_value value_known(double value, struct dimension dimension);
struct lab_value value_unknown(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The number that a key has, as text of a configuration shows it. */
struct lab_value value_of_key(const struct config *config, const char *key);

/* ---- parsing: words, sums and all that they are made of (expression.c), metrics and what stands in their parentheses
 * (expression_metric.c). An int result is a node, 0 where there is none to return, or -1: it failed, and the parser has kept why. ---- */

enum { WORD_ROOM = 64 };

struct parser {
    struct expression *out;
    const char *at;
    const struct lab_names *names; /* of kept values; NULL: none */
    struct error *err;
    int depth, status; /* status: of the first failure */
};

/* Blanks are passed over by all of these. Whether this character comes next, and then it is passed over, too. */
void parser_skip_blanks(struct parser *parser);
bool parser_takes(struct parser *parser, char character);
/* A word, if one comes next and there is room for it. */
bool parser_word(struct parser *parser, char out[WORD_ROOM]);
/* A text in quotes, which replaces *out; the caller frees. */
int parse_quoted(struct parser *parser, char **out);

/* Always -1. */
int parser_fail(struct parser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes over what the node owns, also when it fails. */
int parser_add(struct parser *parser, struct node node);
struct dimension parser_dimension(const struct parser *parser, int node);

int parse_sum(struct parser *parser);
/* Behind a metric's name, and behind the word plan. `plan`: the settings of a plan, taken over; NULL: measured in the run. */
int parse_metric(struct parser *parser, int id, char *plan);
int parse_plan(struct parser *parser);
int metric_named(const char *name); /* -1: none */
/* ... and the failure of a name that is nothing, with the nearest that is something. */
int parse_unknown(struct parser *parser, const char *name);

#endif
