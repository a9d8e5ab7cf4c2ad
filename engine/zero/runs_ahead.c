/* Decides when lanes may run ahead of their device (run() in zero.c also requires that there is no slow motion). Otherwise each
 * lane waits for the end of each operation.
 *
 * An operation that was sent to the device runs asynchronously and cannot be cancelled. So these conditions must hold:
 *   - the gate is open, no rank is held and nothing is paced, because the host can delay an operation only before it sends it or
 *     after its end. (Also, a lane that runs ahead records a collective's begin only when all ranks have met to send it);
 *   - no take can fail: all categories together, each from its range's start to its highest address, stay within the budgets,
 *     with the memory held beside the schedule. This sum is at least the plan's peak;
 *   - the pages of all these buffers were committed before the step, so that none is committed while the device works.
 * Bits, peaks and the meaning of the trace are the same either way. */
#include <stdio.h>
#include <string.h>

#include "engine/base/gate.h"
#include "engine/memory/pages.h"
#include "engine/zero/internal.h"

static bool has_streams(const struct zero *zero)
{
    for (int lane = 0; zero->device && lane < LANES; lane++)
        if (zero->device->streams[lane]) return true;
    return false;
}

static bool is_paced(const struct zero *zero)
{
    const struct config_link *links = zero->config->topology.links;
    for (int link = 0; link < LINKS; link++)
        if (links[link].bandwidth_bytes_per_s > 0 || links[link].latency_s > 0) return true;
    return zero->config->topology.device_flops > 0;
}

/* Counts whole pages of each category from its start, so that no page has to be returned to make room for another category. */
void zero_compute_whole_bytes(struct zero *zero)
{
    memset(zero->plan.whole_bytes, 0, sizeof zero->plan.whole_bytes);
    for (int which = 0; has_streams(zero) && which < SCHEDULES; which++) {
        struct footprint footprint;
        if (!zero->plan.schedules[which].op_count) continue;
        footprint_of(&footprint, &zero->plan.schedules[which]);
        for (enum tier tier = TIER_DEVICE; tier <= TIER_HOST; tier++)
            for (enum category c = 0; c < CATEGORIES; c++)
                zero->plan.whole_bytes[which][tier] +=
                    round_up(footprint.category[tier][c].extent_bytes, memory_unit_bytes(zero->memory, tier, c));
    }
}

/* A save may hold memory beside the schedule; it may begin and end within a page. */
static uint64_t beside_bytes(const struct zero *zero, enum tier tier)
{
    const uint64_t live_bytes =
        tier == TIER_HOST ? memory_live_from(zero->memory, tier, CATEGORY_STAGING, zero->save_offset) : 0;
    return live_bytes ? live_bytes + 2 * memory_unit_bytes(zero->memory, tier, CATEGORY_STAGING) : 0;
}

static bool fits(const struct zero *zero, int which, enum tier tier, uint64_t budget_bytes)
{
    return budget_bytes == 0 || zero->plan.whole_bytes[which][tier] + beside_bytes(zero, tier) <= budget_bytes;
}

static bool fits_all(const struct zero *zero, int which)
{
    struct memory_snapshot now;
    memory_snapshot(zero->memory, &now);
    return fits(zero, which, TIER_DEVICE, now.budget_bytes[TIER_DEVICE]) &&
           fits(zero, which, TIER_HOST, now.budget_bytes[TIER_HOST]);
}

static bool is_in_memory(const struct buffer *buffer)
{
    return !buffer->lasting && buffer->tier != TIER_NVME;
}

/* Commits all buffers of the step. False: the device (or the machine) has no pages left. */
static bool commit(struct zero *zero, const struct schedule *schedule)
{
    bool there = true;
    for (int b = 0; b < schedule->buffer_count && there; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        struct error why;
        if (is_in_memory(buffer))
            there = memory_reserve(zero->memory, buffer->tier, buffer->category, buffer->offset,
                                   (uint64_t)buffer->bytes, &why) == STATUS_OK;
    }
    for (int b = 0; b < schedule->buffer_count && there; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        if (is_in_memory(buffer))
            there = memory_is_committed(zero->memory, buffer->tier, buffer->category, buffer->offset,
                                        (uint64_t)buffer->bytes);
    }
    return there;
}

static void tell(struct zero *zero)
{
    char text[160];
    if (zero->plan.ahead.told) return;
    zero->plan.ahead.told = true;
    snprintf(text, sizeof text,
             "rank %d: there is no room for all that a step uses at once: the GPU waits a little between operations",
             zero->rank);
    zero_log(zero, ZERO_RING_CONTROL, text);
}

bool zero_runs_ahead(struct zero *zero, int which)
{
    const struct schedule *schedule = &zero->plan.schedules[which];
    if (!has_streams(zero) || is_paced(zero)) return false;
    if (zero->gate && (gate_limit(zero->gate) != GATE_OPEN || gate_holds_any(zero->gate))) return false;
    if (fits_all(zero, which) && !zero->plan.ahead.refused[which]) {
        if (commit(zero, schedule)) return true;
        memory_trim(zero->memory); /* of a tight budget, unused pages of another schedule may have left no room */
        if (commit(zero, schedule)) return true;
        zero->plan.ahead.refused[which] = true; /* the GPU will hardly have more later */
        memory_trim(zero->memory);
    }
    tell(zero);
    return false;
}
