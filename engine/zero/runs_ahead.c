/* When lanes of a device may run ahead of it; this is the one place that says so. Otherwise the lane waits for each of its operations.
 *
 * An operation that was sent to the device runs asynchronously and cannot be cancelled. So
 *   - the gate is open, and nothing is paced or in slow motion: an operation may be held up only before it is sent, or when it
 *     has ended, by somebody who sees both;
 *   - no take can fail: all categories together, each from its lowest address to its highest, stay within the budgets with what
 *     is held beside the schedule. That is the plan's peak at least;
 *   - the pages of all that were committed before the step, so that none has to come while the device works.
 * Bits, peaks and the trace's meaning are the same either way. */
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

/* Whole pages of a category, from its beginning: no page of it is ever returned to make room for another's. */
void zero_weigh_whole(struct zero *zero)
{
    memset(zero->whole_bytes, 0, sizeof zero->whole_bytes);
    for (int which = 0; has_streams(zero) && which < SCHEDULES; which++) {
        struct footprint footprint;
        if (!zero->schedules[which].op_count) continue;
        footprint_of(&footprint, &zero->schedules[which]);
        for (enum tier tier = TIER_DEVICE; tier <= TIER_HOST; tier++)
            for (enum category c = 0; c < CATEGORIES; c++)
                zero->whole_bytes[which][tier] +=
                    round_up(footprint.category[tier][c].extent_bytes, memory_unit_bytes(zero->memory, tier, c));
    }
}

/* Beside a schedule may lie what is being saved, which begins and ends within pages. */
static uint64_t beside_bytes(const struct zero *zero, enum tier tier)
{
    const uint64_t live_bytes =
        tier == TIER_HOST ? memory_live_from(zero->memory, tier, CATEGORY_STAGING, zero->save_offset) : 0;
    return live_bytes ? live_bytes + 2 * memory_unit_bytes(zero->memory, tier, CATEGORY_STAGING) : 0;
}

static bool fits(const struct zero *zero, int which, enum tier tier, uint64_t budget_bytes)
{
    return budget_bytes == 0 || zero->whole_bytes[which][tier] + beside_bytes(zero, tier) <= budget_bytes;
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

/* The device itself may not have them. */
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

/* Where a budget is tight, what another schedule left committed may have taken the place of what was committed first. */
static bool commit_all(struct zero *zero, const struct schedule *schedule)
{
    if (commit(zero, schedule)) return true;
    memory_trim(zero->memory);
    return commit(zero, schedule);
}

static void tell(struct zero *zero)
{
    char text[160];
    if (zero->ahead.told) return;
    zero->ahead.told = true;
    snprintf(text, sizeof text,
             "rank %d: there is no room for all that a step uses at once: the GPU waits a little between operations",
             zero->rank);
    zero_log(zero, ZERO_RING_CONTROL, text);
}

bool zero_runs_ahead(struct zero *zero, int which)
{
    const struct schedule *schedule = &zero->schedules[which];
    if (!has_streams(zero) || is_paced(zero) || (zero->gate && gate_limit(zero->gate) != GATE_OPEN)) return false;
    if (fits_all(zero, which) && !zero->ahead.refused[which]) {
        if (commit_all(zero, schedule)) return true;
        zero->ahead.refused[which] = true; /* the GPU will hardly have more later */
        memory_trim(zero->memory);
    }
    tell(zero);
    return false;
}
