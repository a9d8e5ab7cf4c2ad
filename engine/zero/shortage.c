/* Agrees on running out of memory: all ranks get the failed take and the memory held by the lowest rank that failed. Also checks
 * before the agreement of a step that the update will fit, because no memory may run out once it has begun to write. */
#include <stdio.h>
#include <string.h>

#include "engine/zero/internal.h"

int zero_agree_on_failure(struct zero *zero, const struct zero_shortage *mine, bool *failed,
                          struct zero_shortage *shortage, struct error *err)
{
    struct zero_shortage all[zero->ranks];
    int status = comm_exchange(zero->comm, mine, all, sizeof *mine, NULL, err);
    uint64_t failed_ranks = 0;
    *failed = false;
    for (int r = zero->ranks - 1; status == STATUS_OK && r >= 0; r--) {
        if (!all[r].failed) continue;
        *failed = true;
        *shortage = all[r];
        shortage->rank = r;
        shortage->also_ranks = failed_ranks;
        failed_ranks |= UINT64_C(1) << r;
    }
    return status;
}

/* ---- before the agreement ---- */

static bool refuse_update(struct zero *zero, int op, const struct buffer *buffer, const struct error *why)
{
    zero->step.update_failure = take_failure_of(zero->memory, op, buffer, why);
    return false;
}

/* Adds up the live bytes of each tier in the order of the list; peak: the highest after the agreement. Stops at the first take
 * there that passes its tier's limit (limit NULL: no limits) and returns its operation, and its buffer in *over; else -1. */
static int walk_step_end(const struct schedule *schedule, const int64_t limit[TIERS], int64_t peak[TIERS],
                     const struct buffer **over)
{
    const int agreement = schedule_agreement(schedule);
    int64_t live[TIERS] = {0};
    memset(peak, 0, TIERS * sizeof *peak);
    for (int b = 0; b < schedule->lasting_count; b++) live[schedule->buffers[b].tier] += schedule->buffers[b].bytes;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int *take = &schedule->effects[op->first_take], *give = &schedule->effects[op->first_give];
        for (int t = 0; t < op->take_count; t++) {
            const struct buffer *buffer = *over = &schedule->buffers[take[t]];
            live[buffer->tier] += buffer->bytes;
            if (i > agreement && live[buffer->tier] > peak[buffer->tier]) peak[buffer->tier] = live[buffer->tier];
            if (limit && peak[buffer->tier] > limit[buffer->tier]) return i;
        }
        for (int g = 0; g < op->give_count; g++)
            live[schedule->buffers[give[g]].tier] -= schedule->buffers[give[g]].bytes;
    }
    return -1;
}

void zero_compute_update_peaks(struct zero *zero)
{
    const struct buffer *none;
    for (int s = 0; s < SCHEDULES; s++)
        walk_step_end(&zero->plan.schedules[s], NULL, zero->plan.update_peak_bytes[s], &none);
}

/* Walks the list only if a budget is too small, to name the take that would pass it. */
static bool fits_budgets(struct zero *zero, const struct schedule *schedule)
{
    struct memory_snapshot now;
    struct error why;
    const int64_t *peak = zero->plan.update_peak_bytes[schedule - zero->plan.schedules];
    int64_t limit[TIERS], reached[TIERS];
    const struct buffer *buffer;
    bool fits = true;
    memory_snapshot(zero->memory, &now);
    for (int tier = 0; tier < TIERS; tier++) {
        limit[tier] = now.budget_bytes[tier] ? (int64_t)now.budget_bytes[tier] : INT64_MAX;
        if (tier == TIER_HOST && now.budget_bytes[tier]) /* a save holds memory beside the schedule */
            limit[tier] -= (int64_t)memory_live_from(zero->memory, tier, CATEGORY_STAGING, zero->save_offset);
        fits &= peak[tier] <= limit[tier];
    }
    if (fits) return true;
    const int op = walk_step_end(schedule, limit, reached, &buffer);
    error_set(&why, STATUS_RUN,
              "out of %s memory: %s of the update will ask for %lld bytes, %lld more than the budget of %llu leaves",
              tier_name(buffer->tier), category_name(buffer->category), (long long)buffer->bytes,
              (long long)(reached[buffer->tier] - limit[buffer->tier]),
              (unsigned long long)now.budget_bytes[buffer->tier]);
    return refuse_update(zero, op, buffer, &why);
}

/* Commits the pages of all that the update takes on the device. */
static bool reserve_update(struct zero *zero, const struct schedule *schedule)
{
    for (int i = schedule_agreement(schedule) + 1; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++) {
            const struct buffer *buffer = &schedule->buffers[schedule->effects[op->first_take + t]];
            struct error why;
            if (buffer->tier == TIER_DEVICE && memory_reserve(zero->memory, buffer->tier, buffer->category,
                                                              buffer->offset, (uint64_t)buffer->bytes, &why))
                return refuse_update(zero, i, buffer, &why);
        }
    }
    return true;
}

/* A device may have less room than its budget. Then unused pages are returned first. */
static bool fits_device(struct zero *zero, const struct schedule *schedule)
{
    if (!zero->device || reserve_update(zero, schedule)) return true;
    memory_trim(zero->memory);
    zero->step.update_failure.failed = false;
    return reserve_update(zero, schedule);
}

bool zero_update_fits(struct zero *zero, const struct schedule *schedule)
{
    return fits_budgets(zero, schedule) && fits_device(zero, schedule);
}
