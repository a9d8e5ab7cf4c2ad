/* Internals of expressions: parsing and values (expression.c), metrics by name (expression_metric.c), what was measured
 * (measured.c), plans (planned.c). */
#pragma once

#include "engine/lab/expression.h"

enum metric {
#define METRIC(ID, name, bytes, seconds, from, takes, where, help) METRIC_##ID,
#include "engine/lab/metrics.def"
#undef METRIC
    METRICS
};

enum takes { TAKES_RANK, TAKES_TIER, TAKES_CATEGORY, TAKES_STEP, TAKES_OP, TAKES_KIND, TAKES_AHEAD, TAKES_PHASE, TAKES_LANE, TAKES_HOST, TAKES_TEXT };
enum metric_where { METRIC_RUN = 1, METRIC_PLAN = 2, METRIC_MACHINE = 4, METRIC_TRACE = 8 };

enum metric_from { FROM_MEMORY, FROM_SPANS, FROM_TOTALS, FROM_STEP, FROM_RUN, FROM_CONTEST };

struct metric_row { const char *name; struct dimension dimension; enum metric_from from; unsigned takes; unsigned where; const char *help; };
extern const struct metric_row metric_table[METRICS];

enum { ANY = -1 };

/* The words in a metric's parentheses; ANY: not given. */
struct selection_of {
    int rank, category, op, kind, phase, lane;
    enum tier tier;
    bool ahead, has_step;
    int step; /* index of the node that gives the step */
    const char *text;
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
    bool planned;              /* a metric of plan(), not of the run */
    const char *plan;          /* plan()'s settings; "": those of the run now */
    struct selection_of of;
};

struct expression { int count, root; struct node nodes[]; };

enum { NODES_MAX = 256 };

/* The value of a metric. step: number of a step of the run; 0: its last whole step. */
struct lab_value measured_value(const struct node *node, const struct lab_scene *scene, int64_t step);
struct lab_value planned_value(const struct node *node, const struct lab_scene *scene);

struct lab_value value_known(double value, struct dimension dimension);
struct lab_value value_unknown(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The numeric value of a configuration key. */
struct lab_value value_of_key(const struct config *config, const char *key);

/* ---- parsing: words and sums (expression.c), metrics and their parentheses (expression_metric.c). An int result is a
 * node's index, 0 if the function returns none, or -1: failed; parser->err and status say why. ---- */

enum { WORD_ROOM = 64 };

struct parser {
    const char *at;
    const struct lab_names *names; /* of kept values; NULL: none */
    struct lab_pool *pool;         /* owns the texts of nodes */
    struct error *err;
    int depth, status; /* status: of the first failure */
    int count;
    struct node nodes[NODES_MAX];
};

/* All of these skip blanks first. parser_takes() tells whether this character is next, and then skips it. */
void parser_skip_blanks(struct parser *parser);
bool parser_takes(struct parser *parser, char character);
/* Reads a word. False: none comes next, or it is too long. */
bool parser_word(struct parser *parser, char out[WORD_ROOM]);
/* Parses a text in quotes. */
int parse_quoted(struct parser *parser, const char **out);

/* Always -1. */
int parser_fail(struct parser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a node and returns its index. */
int parser_add(struct parser *parser, struct node node);
struct dimension parser_dimension(const struct parser *parser, int node);

int parse_sum(struct parser *parser);
/* Called after a metric's name, and after the word plan. `plan`: a plan's settings; or NULL. */
int parse_metric(struct parser *parser, int id, const char *plan);
int parse_plan(struct parser *parser);
int metric_named(const char *name); /* -1: none */
/* Fails for an unknown name; the error names the nearest known one. */
int parse_unknown(struct parser *parser, const char *name);
