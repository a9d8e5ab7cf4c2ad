#include "engine/advise/costs.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/order.h"
#include "engine/base/words.h"

struct list {
    struct cost *at;
    int count;
};

__attribute__((format(printf, 4, 5))) static void add(struct list *list, const char *name, uint64_t ns,
                                                      const char *format, ...)
{
    if (!ns || list->count == COSTS_MAX) return;
    struct cost *cost = &list->at[list->count++];
    *cost = (struct cost){.name = name, .ns = ns};
    FORMAT_ARGUMENTS(cost->text, COST_ROOM, format);
}

int costs_of(struct cost costs[COSTS_MAX], const struct totals *sum, double parts)
{
    static const char *const phases[PHASES] = {"compute of forward", "compute of backward", "compute of the optimizer"};
    struct list list = {costs, 0};
    uint64_t peers_ns = 0;
    for (int phase = 0; phase < PHASES; phase++) add(&list, phases[phase], sum->phase_ns[phase], "%s", phases[phase]);
    for (enum traffic kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct collective_totals *of = &sum->traffic[kind];
        const uint64_t waited_ns = of->peers_ns < of->exposed_ns ? of->peers_ns : of->exposed_ns;
        if (of->count) /* what no compute hides, without the wait for other ranks */
            add(&list, traffic_name(kind), of->exposed_ns - waited_ns,
                "%s beside no compute, %.3g a step of %.4g KB each", traffic_name(kind), (double)of->count / parts,
                (double)of->bytes / (double)of->count / 1e3);
        peers_ns += waited_ns;
    }
    add(&list, "peers", peers_ns, "waiting in collectives for ranks that come later");
    add(&list, "host", sum->host_exposed_ns, "the host's sums, norms and updates");
    add(&list, "idle", sum->temporal.idle_ns, "no lane at work");
    qsort(costs, (size_t)list.count, sizeof *costs, descending_u64);
    return list.count;
}

void critical_text(char *out, size_t room, const struct critical *sum, double steps)
{
    struct cost costs[COSTS_MAX];
    struct list list = {costs, 0};
    for (enum phase phase = 0; phase < PHASES; phase++) add(&list, phase_name(phase), sum->phase_ns[phase], "%s", "");
    for (enum traffic kind = 0; kind < TRAFFIC_KINDS; kind++)
        add(&list, traffic_name(kind), sum->traffic_ns[kind], "%s", "");
    add(&list, "host", sum->host_ns, "%s", "");
    add(&list, "idle", sum->idle_ns, "%s", "");
    qsort(costs, (size_t)list.count, sizeof *costs, descending_u64);
    snprintf(out, room, "%.3f ms", (double)sum->window_ns / steps / 1e6);
    for (int i = 0; i < list.count; i++)
        text_append(out, room, "%s %s %.1f %%", i ? "," : ":", costs[i].name, percent(costs[i].ns, sum->window_ns));
    int most = 0;
    for (int rank = 1; rank < CRITICAL_RANKS - 1; rank++)
        if (sum->rank_ns[rank] > sum->rank_ns[most]) most = rank;
    if (sum->hops)
        text_append(out, room, "; it changes rank %.3g times a step and is mostly on rank %d",
                    (double)sum->hops / steps, most);
}
