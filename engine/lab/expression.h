/* Expressions of labs: arithmetic over what a run measured and what a plan says.
 *
 *     peak(optimizer) within a check:   peak(optimizer, rank 1) == psi * 12 bytes / ranks within 2%
 *     plan("model=gpt2-xl stage=2 ranks=8").peak
 *     before / peak                     a name is a value that the lab kept earlier ("keep: before = peak")
 *
 * Units are checked when the lab is read: bytes are not compared with seconds. When it is evaluated a value can still be
 * unknown (no step has been trained yet); it then says why, and is never taken for 0. */
#ifndef ENGINE_LAB_EXPRESSION_H
#define ENGINE_LAB_EXPRESSION_H

#include <stdint.h>

#include "engine/config/config.h"
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

/* A key and the values that a lab tries for it (contest.h). */
enum { LAB_TRIES_MAX = 8, LAB_TRY_VALUES_MAX = 6 };
struct lab_try { const char *key; int count; const char *values[LAB_TRY_VALUES_MAX]; }; /* "key", "value": as settings */
struct lab_tries { int count; struct lab_try at[LAB_TRIES_MAX]; };

struct contest; /* what came of trying them all */

/* What expressions are evaluated on. model and history NULL: only plans are known. */
struct lab_scene {
    const struct run_model *model;
    const struct history *history;
    const char *const *sets; /* how the run was started, "key=value": plan("...") begins from these */
    int set_count;
    const struct contest *contest; /* NULL: none was held */
    const struct lab_kept *kept;
    int kept_count;
};

/* Names that may be used, in the order in which the lab keeps them, and their units. */
struct lab_names { int count; struct { char name[LAB_NAME_MAX]; struct dimension dimension; } at[LAB_KEPT_MAX]; };

struct expression;

/* Parses as much of *text as is an expression and moves *text behind it. STATUS_USAGE: what is wrong and what is right. */
int expression_parse(struct expression **out, const char **text, const struct lab_names *names, struct error *err);
void expression_free(struct expression *expression);
struct dimension expression_dimension(const struct expression *expression);

struct lab_value expression_evaluate(const struct expression *expression, const struct lab_scene *scene);

/* "stage=2 ranks=8 model=gpt2-xl": short names become paths of keys ("zero_optimization.stage=2"); others stay. Writes
 * "key=value" texts, each to be freed, and checks that a configuration made of these (after `sets`) can be had. */
int lab_settings(char *out[LAB_SETS_MAX], int *count, const char *text, const char *const *sets, int set_count, struct error *err);

/* STATUS_USAGE: a setting or an action of a lab names this key, and with it a place where a run would leave files. Who wrote a lab
 * has no say in that; the learner may type it. */
int lab_refuse_place(const char *key, struct error *err);

/* The metrics as a Markdown table, for docs/LABS.md; the caller frees. */
char *lab_metrics_markdown(void);

#endif
