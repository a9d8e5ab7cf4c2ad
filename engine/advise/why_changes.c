/* The effect of changing a key: plans the configuration with one change (why_moves.c). */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/why_parts.h"
#include "engine/plan/footprint.h"

struct why_plan why_plan_from(const struct setup *setup, int rank, enum tier tier)
{
    const struct footprint *footprint = &setup->footprint;
    struct traffic_sum sums[TRAFFIC_KINDS];
    struct flops flops;
    traffic_of(sums, &setup->schedule, &setup->model, rank);
    flops_of(&flops, &setup->schedule, &setup->model);
    struct why_plan plan = {.known = true,
                            .peak_bytes = (uint64_t)footprint->peak_bytes[tier],
                            .resting_bytes = (uint64_t)footprint->resting_bytes[tier],
                            .sent_bytes = (uint64_t)setup_sent_bytes(setup, rank),
                            .bus_bytes = (uint64_t)(sums[TRAFFIC_D2H].sent_bytes + sums[TRAFFIC_H2D].sent_bytes),
                            .nvme_bytes =
                                (uint64_t)(sums[TRAFFIC_NVME_READ].sent_bytes + sums[TRAFFIC_NVME_WRITE].sent_bytes),
                            .recomputed = flops.recomputed / (flops.forward + flops.backward)};
    for (int t = 0; t < TIERS; t++) plan.tier_peak_bytes[t] = (uint64_t)footprint->peak_bytes[t];
    for (int c = 0; c < CATEGORIES; c++) plan.at_peak_bytes[c] = (uint64_t)footprint->category[tier][c].at_peak_bytes;
    return plan;
}

void why_plan_of(struct why_plan *plan, const struct config *config, int rank, enum tier tier)
{
    struct setup setup;
    *plan = (struct why_plan){0};
    if (setup_init(&setup, config, NULL)) return;
    *plan = why_plan_from(&setup, rank, tier);
    setup_release(&setup);
}

/* Whether the change lowers the peak, and this category's share of it. */
static bool helps(const struct why_change *change, const struct why_tenant *tenant, const struct why *why)
{
    return change->plan.peak_bytes < why->plan.peak_bytes &&
           change->plan.at_peak_bytes[tenant->category] < tenant->planned_bytes;
}

/* The lowest peak first. */
static int by_peak(const void *a, const void *b)
{
    const struct why_change *one = a, *other = b;
    return (one->plan.peak_bytes > other->plan.peak_bytes) - (one->plan.peak_bytes < other->plan.peak_bytes);
}

/* Keeps the changes that help. If no change of the category's own key helps, keeps the first of them all the same: that
 * it changes nothing is an answer too. */
void why_changes(struct why_tenant *tenant, const struct config *config, const struct why *why)
{
    enum move_id moves[WHY_MOVES_MAX];
    struct why_change tried[WHY_MOVES_MAX], idle = {0};
    int count = 0;
    const int offered = why_moves_of(moves, why->tier, tenant->category);
    tenant->knob = why_owner(&tenant->how, config, why->tier, tenant->category, tenant->planned_bytes);
    for (int m = 0; m < offered; m++) {
        struct why_change change;
        struct config changed = *config;
        if (!why_move(&change, &changed, moves[m])) continue;
        why_plan_of(&change.plan, &changed, why->rank, why->tier);
        bool is_stage = changed.zero.stage != config->zero.stage;
        if (change.plan.known && helps(&change, tenant, why)) tried[count++] = change;
        else if (change.plan.known && !is_stage && !idle.plan.known) idle = change;
    }
    qsort(tried, (size_t)count, sizeof *tried, by_peak);
    if (count == 0 && idle.plan.known) tried[count++] = idle;
    tenant->change_count = count < WHY_CHANGES_MAX ? count : WHY_CHANGES_MAX;
    memcpy(tenant->changes, tried, (size_t)tenant->change_count * sizeof *tried);
}

void why_stages(struct why *why, const struct config *config)
{
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        struct why_change *change = &why->stages[stage];
        struct config changed = *config;
        if (why_move(change, &changed, MOVE_STAGE_0 + stage))
            why_plan_of(&change->plan, &changed, why->rank, why->tier);
        if (stage == why->stage) change->plan = why->plan;
    }
}
