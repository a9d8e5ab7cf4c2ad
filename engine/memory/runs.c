/* Sorted runs: every operation finds the first run that ends after an address by binary search, then changes its neighbours. */
#include "engine/memory/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void runs_release(struct runs *runs)
{
    free(runs->run);
    *runs = (struct runs){0};
}

/* Index of the first run whose end is greater than `at` (count: none). */
static int find(const struct runs *runs, uint64_t at)
{
    int low = 0, high = runs->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (runs->run[middle].end > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Replaces runs [from, to) by the `count` given ones. */
static void splice(struct runs *runs, int from, int to, const struct run *fresh, int count)
{
    int total = runs->count - (to - from) + count;
    if (total > runs->room) {
        runs->room = total * 2 + 6;
        runs->run = realloc(runs->run, (size_t)runs->room * sizeof *runs->run);
        if (!runs->run) {
            fputs("zerolab: no memory left for the allocator's own lists\n", stderr);
            abort();
        }
    }
    memmove(runs->run + from + count, runs->run + to, (size_t)(runs->count - to) * sizeof *fresh);
    for (int i = 0; i < count; i++) runs->run[from + i] = fresh[i];
    runs->count = total;
}

void runs_add(struct runs *runs, uint64_t first, uint64_t end)
{
    if (first >= end) return;
    int from = first ? find(runs, first - 1) : 0; /* a run that ends exactly at `first` joins */
    int to = from;
    struct run joined = {first, end};
    for (; to < runs->count && runs->run[to].first <= end; to++) {
        if (runs->run[to].first < joined.first) joined.first = runs->run[to].first;
        if (runs->run[to].end > joined.end) joined.end = runs->run[to].end;
    }
    splice(runs, from, to, &joined, 1);
}

void runs_remove(struct runs *runs, uint64_t first, uint64_t end)
{
    if (first >= end) return;
    int from = find(runs, first), to = from, count = 0;
    struct run rest[2];
    for (; to < runs->count && runs->run[to].first < end; to++) {
        struct run old = runs->run[to];
        if (old.first < first) rest[count++] = (struct run){old.first, first};
        if (old.end > end) rest[count++] = (struct run){end, old.end};
    }
    if (to > from) splice(runs, from, to, rest, count);
}

bool runs_touch(const struct runs *runs, uint64_t first, uint64_t end)
{
    int i = find(runs, first);
    return first < end && i < runs->count && runs->run[i].first < end;
}

bool runs_cover(const struct runs *runs, uint64_t first, uint64_t end)
{
    int i = find(runs, first);
    return first >= end || (i < runs->count && runs->run[i].first <= first && runs->run[i].end >= end);
}

bool runs_next(const struct runs *runs, uint64_t from, uint64_t end, struct run *run)
{
    int i = find(runs, from);
    if (i == runs->count || runs->run[i].first >= end || from >= end) return false;
    run->first = runs->run[i].first > from ? runs->run[i].first : from;
    run->end = runs->run[i].end < end ? runs->run[i].end : end;
    return true;
}

bool runs_next_gap(const struct runs *runs, uint64_t from, uint64_t end, struct run *gap)
{
    int i = find(runs, from);
    if (i < runs->count && runs->run[i].first <= from) from = runs->run[i++].end;
    if (from >= end) return false;
    gap->first = from;
    gap->end = i < runs->count && runs->run[i].first < end ? runs->run[i].first : end;
    return true;
}
