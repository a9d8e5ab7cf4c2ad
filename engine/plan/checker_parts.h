/* What the files that prove a schedule share. Internal to engine/plan. */
#ifndef ENGINE_PLAN_CHECKER_PARTS_H
#define ENGINE_PLAN_CHECKER_PARTS_H

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

/* A line (elements of a unit, addresses) cut wherever a range of it begins or ends, and what was done to each region between
 * two cuts. With these, a schedule is checked in one pass instead of by pairs of operations. */
struct region { struct latest read, written; };
struct regions { int64_t *cut; int count, room; struct region *at; int at_room; bool failed; }; /* begins zeroed */

void regions_release(struct regions *regions);
void regions_clear(struct regions *regions); /* for another line: no cuts */
void regions_cut(struct regions *regions, int64_t first, int64_t end);
bool regions_begin(struct regions *regions); /* after the last cut: nothing has been done. False: no memory */
void regions_find(const struct regions *regions, int64_t first, int64_t end, int *from, int *to); /* a range that was cut */
void latest_add(struct latest *latest, enum lane lane, int op);

int checker_fail(const struct checker *checker, int op, const char *what, const char *detail);
/* All that `latest` names has certainly ended when `op` starts. */
bool checker_all_before(const struct checker *checker, const struct latest *latest, int op);

/* No two operations that can run at the same time touch the same bytes, unless both only read them. */
int check_access(struct checker *checker);
/* Buffers that share addresses do not live together. */
int check_addresses(struct checker *checker);
/* What has to be reduced, copied or refreshed is, once; and all is updated, once. */
int check_coverage(struct checker *checker);

#endif
