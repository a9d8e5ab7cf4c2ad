/* Memory now: records have absolute bytes per category, so a tier is their sum. The fullest instant of a step is kept
 * with its categories. Screens show it instead of a random instant: it is steady, and it decides what fits. */
#include "engine/observe/fold.h"

static struct run_tier *tier_of(struct run_model *model, const struct trace_record *record, unsigned tier)
{
    struct run_rank *rank = model_rank(model, record->rank);
    return rank && tier < TIERS ? &rank->tier[tier] : NULL;
}

void fold_memory(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_memory *from = &record->memory;
    struct run_tier *tier = tier_of(model, record, from->tier);
    if (!tier || from->category >= CATEGORY_CODES) return;
    struct run_memory *memory = &tier->category[from->category];
    tier->now.known = memory->known = true;
    tier->now.live_bytes += from->live_bytes - memory->live_bytes;
    tier->now.reserved_bytes += from->reserved_bytes - memory->reserved_bytes;
    if (from->category < CATEGORIES) tier->now.held_bytes[from->category] = from->live_bytes;
    memory->live_bytes = from->live_bytes;
    memory->reserved_bytes = from->reserved_bytes;
    memory->peak_bytes = from->peak_bytes;
    if (!tier->open_peak.known || tier->now.live_bytes > tier->open_peak.live_bytes) tier->open_peak = tier->now;
    if (tier->now.live_bytes > tier->highest_bytes) tier->highest_bytes = tier->now.live_bytes;
}

void holdings_begin_step(struct run_rank *rank)
{
    for (int tier = 0; tier < TIERS; tier++) {
        rank->tier[tier].open_peak = rank->tier[tier].now;
        rank->tier[tier].began_bytes = rank->tier[tier].now.live_bytes;
    }
}

void holdings_end_step(struct run_rank *rank, uint32_t step)
{
    rank->peak_step = step;
    for (int tier = 0; tier < TIERS; tier++) rank->tier[tier].step_peak = rank->tier[tier].open_peak;
}

void fold_budget(struct run_model *model, const struct trace_record *record)
{
    struct run_tier *tier = tier_of(model, record, record->budget.tier);
    if (!tier) return;
    tier->has_budget = true;
    tier->budget_bytes = record->budget.bytes;
}

void fold_tier_peak(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_tier_peak *from = &record->tier_peak;
    struct run_tier *tier = tier_of(model, record, from->tier);
    if (!tier) return;
    tier->has_total = true;
    tier->live_bytes = from->live_bytes;
    tier->reserved_bytes = from->reserved_bytes;
    tier->peak_bytes = from->peak_bytes;
}

void fold_tenant(struct run_model *model, const struct trace_record *record)
{
    struct run_tier *tier = tier_of(model, record, record->tenant.tier);
    if (!tier || record->tenant.category >= CATEGORIES) return;
    tier->category[record->tenant.category].has_at_peak = true;
    tier->category[record->tenant.category].at_peak_bytes = record->tenant.bytes;
}
