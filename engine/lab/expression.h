/* Expressions of labs: arithmetic over measured values of a run and planned values.
 *
 *     peak(optimizer) within a check:   peak(optimizer, rank 1) == psi * 12 bytes / ranks within 2%
 *     plan("model=gpt2-xl stage=2 ranks=8").peak
 *     before / peak                     a name is a value that the lab kept earlier ("keep: before = peak")
 *
 * Units are checked when the lab is read: bytes are not compared with seconds. An evaluated value can be unknown (no
 * step has been trained yet); it then says why, and is never 0. */
#pragma once

#include <stdint.h>

#include "engine/base/text_list.h"
#include "engine/lab/quantity.h"
#include "engine/observe/history.h"

enum { LAB_NAME_MAX = 24, LAB_KEPT_MAX = 64, LAB_SETS_MAX = 24 };

/* Where on the timeline a value was found. */
struct lab_where { bool known; int rank; uint32_t step; uint64_t time_ns; char what[64]; };

struct lab_value {
    bool known;
    struct quantity quantity;
    struct lab_where where;
    char why_not[160]; /* if !known */
};

struct lab_kept { char name[LAB_NAME_MAX]; struct lab_value value; };

/* A key and the values that a lab tries for it (planned.c). */
enum { LAB_TRIES_MAX = 8, LAB_TRY_VALUES_MAX = 6 };
struct lab_try { const char *key; int count; const char *values[LAB_TRY_VALUES_MAX]; }; /* "key", "value": as settings */
struct lab_tries { int count; struct lab_try at[LAB_TRIES_MAX]; };

struct contest; /* the result of trying them all */

/* Inputs of an evaluation. model and history NULL: only planned values are known. */
struct lab_scene {
    const struct run_model *model;
    const struct history *history;
    const struct text_list *sets; /* settings of the run's start, "key=value": plan("...") changes these; NULL: none */
    const struct contest *contest; /* NULL: the lab has none */
    const struct lab_kept *kept;
    int kept_count;
};

/* Names of kept values that an expression may use, in the order of the lab's keep: lines, with their units. */
struct lab_names { int count; struct { char name[LAB_NAME_MAX]; struct dimension dimension; } at[LAB_KEPT_MAX]; };

struct expression;
struct lab_pool { struct pooled *newest; }; /* memory that is freed as a whole; {0}: none (read_parts.h) */

/* Parses the longest expression at *text and moves *text after it. `pool` owns the expression; names NULL: nothing is kept.
 * STATUS_USAGE: the error says what would be right. */
int expression_parse(const struct expression **out, const char **text, const struct lab_names *names, struct lab_pool *pool,
                     struct error *err);
struct dimension expression_dimension(const struct expression *expression);

struct lab_value expression_evaluate(const struct expression *expression, const struct lab_scene *scene);

/* Expands "stage=2 ranks=8 model=gpt2-xl": short names become key paths ("zero_optimization.stage=2"); others stay.
 * lab_settings() writes "key=value" texts, which `out` owns, and checks that `sets` (NULL: none) followed by these texts make a valid
 * configuration. lab_config() returns that configuration in *config. */
int lab_settings(struct text_list *out, const char *text, const struct text_list *sets, struct error *err);
int lab_config(struct config *config, const char *text, const struct text_list *sets, struct error *err);

/* STATUS_USAGE: this key sets a path where a run would write files. A lab's author must not choose it; a learner may
 * type it. */
int lab_refuse_place(const char *key, struct error *err);

/* The metrics as a Markdown table, for docs/LABS.md; the caller frees. */
char *lab_metrics_markdown(void);

/* ---- planned.c: finds the best of all setups of a lab: plans every combination of the values in its try: lines,
 * drops those whose planned peak exceeds a tier's budget (a run never holds more than planned), and takes the one
 * with the shortest paced step (engine/plan/setup.h). The answer is the same on every machine; some hundred setups
 * take a second. ---- */

struct contest {
    int tried, fitting;   /* valid combinations; combinations that fit the budgets */
    double best_s;        /* the shortest paced step of the fitting ones, in seconds; 0: none fits */
    int best[LAB_TRIES_MAX]; /* index of the best value of each key */
};

/* Fills *contest. tries NULL or empty: no contest. `sets`: settings of the run; a tried value overrides them. */
void contest_hold(struct contest *contest, const struct lab_tries *tries, const struct text_list *sets);

/* STATUS_USAGE: a value that no combination can have, or too many combinations. */
int contest_check(const struct lab_tries *tries, const struct text_list *sets, struct error *err);
