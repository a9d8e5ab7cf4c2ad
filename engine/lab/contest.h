/* Finds the best of all setups of a lab: plans every combination of the values in its try: lines, drops those whose
 * planned peak exceeds a tier's budget (a run never holds more than planned), and takes the one with the shortest paced
 * step (engine/plan/setup.h). The answer is the same on every machine; some hundred setups take a second. */
#ifndef ENGINE_LAB_CONTEST_H
#define ENGINE_LAB_CONTEST_H

#include "engine/lab/expression.h"

struct contest {
    int tried, fitting;   /* valid combinations; combinations that fit the budgets */
    double best_s;        /* the shortest paced step of the fitting ones, in seconds; 0: none fits */
    int best[LAB_TRIES_MAX]; /* index of the best value of each key */
};

/* Fills *contest. tries NULL or empty: no contest. `sets`: settings of the run; a tried value overrides them. */
void contest_hold(struct contest *contest, const struct lab_tries *tries, const char *const *sets, int set_count);

/* STATUS_USAGE: a value that no combination can have, or too many combinations. */
int contest_check(const struct lab_tries *tries, const char *const *sets, int set_count, struct error *err);

#endif
