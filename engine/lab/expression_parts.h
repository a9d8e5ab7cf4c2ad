/* Inside of expressions: parsing (expression_parser.h), values (evaluate.c), what was measured (measured.c), plans (planned.c). */
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

#endif
