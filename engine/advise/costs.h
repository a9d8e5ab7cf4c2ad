/* What a step costs, in words: the largest parts of its time, which rank the others wait for, and its critical path. For any trace with
 * operations, zerolab's own or another program's. */
#pragma once

#include "engine/observe/totals.h"

enum { COSTS_MAX = 16, COST_ROOM = 200 };

/* A part of a step, a sum over the same ranks and steps as the totals. name: a stable word for JSON. */
struct cost { uint64_t ns; const char *name; char text[COST_ROOM]; };

/* From sums over `parts` ranks and steps; sorted, the largest first. Returns how many; parts that are 0 are left out. */
int costs_of(struct cost costs[COSTS_MAX], const struct totals *sum, double parts);

/* The parts of the path, largest first, in one line. */
void critical_text(char *out, size_t room, const struct critical *sum, double steps);
