/* A set of byte addresses, kept as sorted, disjoint, non-touching runs [first, end). The allocator keeps three sets for each
 * category of a tier: live, committed and pinned. Sets are small (a run per group of neighbouring buffers), so an array with
 * binary search beats a tree. A set that cannot grow aborts the process: the machine has no memory left then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct run { uint64_t first, end; };
struct runs { struct run *run; int count, room; }; /* all zero: empty */

void runs_release(struct runs *runs);

void runs_add(struct runs *runs, uint64_t first, uint64_t end);
void runs_remove(struct runs *runs, uint64_t first, uint64_t end);

bool runs_touch(const struct runs *runs, uint64_t first, uint64_t end); /* some of [first, end) is in the set */
bool runs_cover(const struct runs *runs, uint64_t first, uint64_t end); /* all of it is in the set */

/* The first run of the set in [from, end), cut to that range. False: none. */
bool runs_next(const struct runs *runs, uint64_t from, uint64_t end, struct run *run);
/* The first part of [from, end) that is not in the set. False: none. */
bool runs_next_gap(const struct runs *runs, uint64_t from, uint64_t end, struct run *gap);
