/* Shared by the files that prove a schedule (checker*.c). Internal to engine/plan. */
#pragma once

#include "engine/plan/checker.h"

/* done[lane]: the highest operation of `lane` that has certainly ended when this one starts (-1: none). Lanes are in order,
 * so that one number stands for all operations below it on that lane. */
struct lanes_done { int done[LANES]; };

struct checker {
    const struct schedule *schedule;
    const struct model *model;
    struct lanes_done *past;        /* by operation */
    int *taken_by, *given_by; /* by buffer: operations; -1 and op_count for a lasting buffer */
    struct error *err;
};

/* By lane, the last operation that touched something; -1: none. Lanes are in order, so an operation that comes after these also comes
 * after all earlier ones. */
struct latest { int op[LANES]; };

int checker_fail(const struct checker *checker, int op, const char *what, const char *detail);
/* Whether all operations in `latest` have certainly ended when `op` starts. */
bool checker_all_before(const struct checker *checker, const struct latest *latest, int op);

/* No two operations that can run at the same time touch the same bytes, unless both only read them. */
int check_access(struct checker *checker);
/* Buffers that share addresses do not live together. */
int check_addresses(struct checker *checker);
/* Each collective is among the ranks that hold, or receive, what it moves. */
int check_groups(struct checker *checker);
/* Everything that must be reduced, copied, refreshed or updated is so exactly once. */
int check_coverage(struct checker *checker);
