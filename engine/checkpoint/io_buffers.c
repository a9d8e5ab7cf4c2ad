#include "engine/checkpoint/io_buffers.h"

int io_buffers_open(struct io_buffers *buffers, int count, struct error *err)
{
    static const uint64_t unlimited[TIERS] = {0};
    struct memory_ranges ranges = {0};
    *buffers = (struct io_buffers){0};
    ranges.bytes[TIER_HOST][CATEGORY_STAGING] = (uint64_t)count * STATE_BUFFERS_BYTES;
    int status = memory_create(&buffers->memory, &ranges, unlimited, NULL, err);
    for (; buffers->count < count && !status; buffers->count += !status) {
        const uint64_t offset = (uint64_t)buffers->count * STATE_BUFFERS_BYTES;
        status = memory_take(buffers->memory, TIER_HOST, CATEGORY_STAGING, offset, STATE_BUFFERS_BYTES, err);
        if (!status) buffers->lot[buffers->count] = memory_at(buffers->memory, TIER_HOST, CATEGORY_STAGING, offset);
    }
    if (status) io_buffers_close(buffers);
    return status;
}

void io_buffers_close(struct io_buffers *buffers)
{
    for (int i = 0; i < buffers->count; i++)
        memory_give(buffers->memory, TIER_HOST, CATEGORY_STAGING, (uint64_t)i * STATE_BUFFERS_BYTES, STATE_BUFFERS_BYTES);
    memory_destroy(buffers->memory);
    *buffers = (struct io_buffers){0};
}

uint64_t io_buffers_peak_bytes(const struct io_buffers *buffers)
{
    struct memory_snapshot snapshot;
    memory_snapshot(buffers->memory, &snapshot);
    return snapshot.tier[TIER_HOST].peak_bytes;
}
