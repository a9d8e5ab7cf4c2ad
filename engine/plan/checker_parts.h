/* What the files that prove a schedule share. Internal to engine/plan. */
#ifndef ENGINE_PLAN_CHECKER_PARTS_H
#define ENGINE_PLAN_CHECKER_PARTS_H

#include "engine/plan/checker.h"

/* done[lane]: the highest operation of `lane` that has certainly ended when this one starts (-1: none). Lanes are in order,
 * so that one number stands for all operations below it on that lane. */
struct past { int done[LANES]; };

struct checker {
    const struct schedule *schedule;
    const struct model *model;
    struct past *past;        /* by operation */
    int *taken_by, *given_by; /* by buffer; lasting: -1, op_count */
    struct error *err;
};

int checker_fail(const struct checker *checker, int op, const char *what, const char *detail);
bool checker_ended_before(const struct checker *checker, int earlier, int op);

/* No two operations that can run at the same time touch the same bytes, unless both only read them. */
int check_access(struct checker *checker);

#endif
