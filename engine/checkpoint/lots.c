#include "engine/checkpoint/lots.h"

int lots_open(struct lots *lots, int count, struct error *err)
{
    static const uint64_t unlimited[TIERS] = {0};
    struct memory_ranges ranges = {0};
    *lots = (struct lots){0};
    ranges.bytes[TIER_HOST][CATEGORY_STAGING] = (uint64_t)count * STATE_BUFFERS_BYTES;
    int status = memory_create(&lots->memory, &ranges, unlimited, NULL, err);
    for (; lots->count < count && !status; lots->count += !status) {
        const uint64_t offset = (uint64_t)lots->count * STATE_BUFFERS_BYTES;
        status = memory_take(lots->memory, TIER_HOST, CATEGORY_STAGING, offset, STATE_BUFFERS_BYTES, err);
        if (!status) lots->lot[lots->count] = memory_at(lots->memory, TIER_HOST, CATEGORY_STAGING, offset);
    }
    if (status) lots_close(lots);
    return status;
}

void lots_close(struct lots *lots)
{
    for (int i = 0; i < lots->count; i++)
        memory_give(lots->memory, TIER_HOST, CATEGORY_STAGING, (uint64_t)i * STATE_BUFFERS_BYTES, STATE_BUFFERS_BYTES);
    memory_destroy(lots->memory);
    *lots = (struct lots){0};
}

uint64_t lots_peak_bytes(const struct lots *lots)
{
    struct memory_snapshot snapshot;
    memory_snapshot(lots->memory, &snapshot);
    return snapshot.tier[TIER_HOST].peak_bytes;
}
