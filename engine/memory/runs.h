/* A set of byte addresses kept as sorted, disjoint, non-touching runs [first, end). The allocator keeps two of them per
 * category: what is live and what is committed. Sets are small (a run per group of neighbouring buffers), so an array with
 * binary search beats a tree. Bookkeeping that cannot grow aborts: a few dozen bytes are missing only when all is lost. */
#ifndef ENGINE_MEMORY_RUNS_H
#define ENGINE_MEMORY_RUNS_H

#include <stdbool.h>
#include <stdint.h>

struct run { uint64_t first, end; };
struct runs { struct run *run; int count, room; }; /* all zero: empty */

void runs_release(struct runs *runs);

void runs_add(struct runs *runs, uint64_t first, uint64_t end);
void runs_remove(struct runs *runs, uint64_t first, uint64_t end);

bool runs_touch(const struct runs *runs, uint64_t first, uint64_t end); /* any of [first, end) is in */
bool runs_cover(const struct runs *runs, uint64_t first, uint64_t end); /* all of it is in */

/* The first stretch at or after `from`, and before `end`, that is in (or, for the gap, not in) the set; false: none. */
bool runs_next(const struct runs *runs, uint64_t from, uint64_t end, struct run *run);
bool runs_next_gap(const struct runs *runs, uint64_t from, uint64_t end, struct run *gap);

#endif
