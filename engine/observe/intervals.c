/* Plain intervals of time: their unions and overlaps, by HTA's definitions (totals.h). */
#include <stdlib.h>

#include "engine/base/order.h"
#include "engine/observe/totals.h"

void intervals_unite(struct intervals *all)
{
    int last = 0;
    if (all->count == 0) return;
    qsort(all->at, (size_t)all->count, sizeof *all->at, ascending_u64);
    for (int i = 1; i < all->count; i++) {
        if (all->at[i].from_ns > all->at[last].to_ns) all->at[++last] = all->at[i];
        else if (all->at[i].to_ns > all->at[last].to_ns) all->at[last].to_ns = all->at[i].to_ns;
    }
    all->count = last + 1;
}

static uint64_t length(const struct intervals *united)
{
    uint64_t sum_ns = 0;
    for (int i = 0; i < united->count; i++) sum_ns += united->at[i].to_ns - united->at[i].from_ns;
    return sum_ns;
}

static uint64_t common(const struct intervals *left, const struct intervals *right)
{
    uint64_t sum_ns = 0;
    for (int l = 0, r = 0; l < left->count && r < right->count;) {
        const struct interval *a = &left->at[l], *b = &right->at[r];
        uint64_t from_ns = a->from_ns > b->from_ns ? a->from_ns : b->from_ns;
        uint64_t to_ns = a->to_ns < b->to_ns ? a->to_ns : b->to_ns;
        if (to_ns > from_ns) sum_ns += to_ns - from_ns;
        if (a->to_ns < b->to_ns) l++;
        else r++;
    }
    return sum_ns;
}

static void widen(struct interval *window, const struct intervals *united)
{
    if (united->count == 0) return;
    if (united->at[0].from_ns < window->from_ns) window->from_ns = united->at[0].from_ns;
    if (united->at[united->count - 1].to_ns > window->to_ns) window->to_ns = united->at[united->count - 1].to_ns;
}

void temporal_of(struct temporal *out, struct intervals compute, struct intervals communication,
                 struct intervals moving)
{
    struct interval window = {UINT64_MAX, 0};
    intervals_unite(&compute);
    intervals_unite(&communication);
    intervals_unite(&moving);
    widen(&window, &compute);
    widen(&window, &moving);
    *out = (struct temporal){.window_ns = window.to_ns > window.from_ns ? window.to_ns - window.from_ns : 0,
                             .compute_ns = length(&compute),
                             .communication_ns = length(&communication),
                             .overlapped_ns = common(&compute, &communication),
                             .non_compute_ns = length(&moving) - common(&compute, &moving)};
    out->idle_ns = out->window_ns - out->compute_ns - out->non_compute_ns;
}
