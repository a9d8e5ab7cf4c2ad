/* Inside of parsing an expression: words, sums and all that they are made of (expression.c), metrics and what stands in their
 * parentheses (expression_metric.c). An int result is a node, 0 where there is none to return, or -1: it failed, and the parser has
 * kept why. */
#ifndef ENGINE_LAB_EXPRESSION_PARSER_H
#define ENGINE_LAB_EXPRESSION_PARSER_H

#include "engine/lab/expression_parts.h"

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
/* A word, if one comes next and there is room for it; and how long one at `text` is, 0: none. */
bool parser_word(struct parser *parser, char out[WORD_ROOM]);
size_t parser_word_length(const char *text);
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
/* What stands in the parentheses of a metric, or that there are none. `of->text` is the caller's to free, also on failure. */
int parse_selections(struct parser *parser, const struct metric_row *row, struct selection_of *of);

#endif
