/* Plain intervals of time: their unions and how they meet, by HTA's definitions (totals.h). */
#include <stdlib.h>

#include "engine/analyze/totals.h"

static int by_start(const void *left, const void *right)
{
    const struct interval *a = left, *b = right;
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

/* Sorted, and those that touch become one. Returns how many are left. */
static int unite(struct interval *all, int count)
{
    int last = 0;
    if (count == 0) return 0;
    qsort(all, (size_t)count, sizeof *all, by_start);
    for (int i = 1; i < count; i++) {
        if (all[i].from_ns > all[last].to_ns) all[++last] = all[i];
        else if (all[i].to_ns > all[last].to_ns) all[last].to_ns = all[i].to_ns;
    }
    return last + 1;
}

static uint64_t length(const struct interval *united, int count)
{
    uint64_t sum_ns = 0;
    for (int i = 0; i < count; i++) sum_ns += united[i].to_ns - united[i].from_ns;
    return sum_ns;
}

static uint64_t common(const struct interval *left, int left_count, const struct interval *right, int right_count)
{
    uint64_t sum_ns = 0;
    for (int l = 0, r = 0; l < left_count && r < right_count;) {
        uint64_t from_ns = left[l].from_ns > right[r].from_ns ? left[l].from_ns : right[r].from_ns;
        uint64_t to_ns = left[l].to_ns < right[r].to_ns ? left[l].to_ns : right[r].to_ns;
        if (to_ns > from_ns) sum_ns += to_ns - from_ns;
        if (left[l].to_ns < right[r].to_ns) l++;
        else r++;
    }
    return sum_ns;
}

static void widen(struct interval *window, const struct interval *united, int count)
{
    if (count == 0) return;
    if (united[0].from_ns < window->from_ns) window->from_ns = united[0].from_ns;
    if (united[count - 1].to_ns > window->to_ns) window->to_ns = united[count - 1].to_ns;
}

void temporal_of(struct interval *compute, int compute_count, struct interval *communication, int communication_count,
                 struct temporal *out)
{
    struct interval window = {UINT64_MAX, 0};
    compute_count = unite(compute, compute_count);
    communication_count = unite(communication, communication_count);
    widen(&window, compute, compute_count);
    widen(&window, communication, communication_count);
    *out = (struct temporal){.window_ns = window.to_ns > window.from_ns ? window.to_ns - window.from_ns : 0,
                             .compute_ns = length(compute, compute_count),
                             .communication_ns = length(communication, communication_count),
                             .overlapped_ns = common(compute, compute_count, communication, communication_count)};
    out->non_compute_ns = out->communication_ns - out->overlapped_ns;
    out->idle_ns = out->window_ns - out->compute_ns - out->non_compute_ns;
}
