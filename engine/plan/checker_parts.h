/* What the files that prove a schedule share. Internal to engine/plan. */
#pragma once

#include "engine/plan/checker.h"

/* done[lane]: the highest operation of `lane` that has certainly ended when this one starts (-1: none). Lanes are in order,
 * so that one number stands for all operations below it on that lane. */
struct lanes_done { int done[LANES]; };

struct checker {
    const struct schedule *schedule;
    const struct model *model;
    struct lanes_done *past;        /* by operation */
    int *taken_by, *given_by; /* by buffer; lasting: -1, op_count */
    struct error *err;
};

/* Of each lane the highest operation that did something; -1: none. Since lanes are in order, who comes after these comes after
 * all below them. */
struct latest { int op[LANES]; };

int checker_fail(const struct checker *checker, int op, const char *what, const char *detail);
/* All that `latest` names has certainly ended when `op` starts. */
bool checker_all_before(const struct checker *checker, const struct latest *latest, int op);

/* No two operations that can run at the same time touch the same bytes, unless both only read them. */
int check_access(struct checker *checker);
/* Buffers that share addresses do not live together. */
int check_addresses(struct checker *checker);
/* Each collective is among the ranks that hold, or receive, what it moves. */
int check_groups(struct checker *checker);
/* What has to be reduced, copied or refreshed is, once; and all is updated, once. */
int check_coverage(struct checker *checker);
