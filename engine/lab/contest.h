/* The best of all setups, found by trying them: every combination of the values that a lab's try: lines give is planned; of those
 * whose planned peaks are within the budgets of all tiers (a run never holds more) the one with the shortest paced step wins
 * (engine/plan/paced.h). So the answer is the same on every machine, and some hundred setups take a second. */
#ifndef ENGINE_LAB_CONTEST_H
#define ENGINE_LAB_CONTEST_H

#include "engine/lab/expression.h"

struct contest {
    int tried, fitting;   /* combinations that a configuration can have; that fit */
    double best_s;        /* of those; 0: none does */
    int best[LAB_TRIES_MAX]; /* which value of each key */
};

/* tries NULL or empty: nothing is tried. `sets` stand below what is tried. */
void contest_hold(struct contest *contest, const struct lab_tries *tries, const char *const *sets, int set_count);

/* STATUS_USAGE: a value that no combination can have, or too many combinations. */
int contest_check(const struct lab_tries *tries, const char *const *sets, int set_count, struct error *err);

#endif
