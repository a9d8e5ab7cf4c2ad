#include "engine/plan/arrivals.h"

/* What one owner's parts take of a strip, each from a whole line on. */
static int64_t owner_bytes(const struct schedule *schedule, const struct model *model, const struct piece *pieces,
                           int count, int owner)
{
    int64_t bytes = 0;
    for (int p = 0; p < count; p++) {
        const struct piece *piece = &pieces[p];
        const int64_t shard = shard_elems(model->units[piece->unit].elems, schedule->ranks);
        const int64_t width = dtype_bytes(schedule->buffers[piece->source].dtype);
        int64_t first = owner * shard, end = first + shard;
        if (first < piece->first) first = piece->first;
        if (end > piece->first + piece->elems) end = piece->first + piece->elems;
        if (first < end) bytes += ((end - first) * width + ARRIVALS_ALIGN - 1) / ARRIVALS_ALIGN * ARRIVALS_ALIGN;
    }
    return bytes;
}

int64_t arrivals_bytes(const struct schedule *schedule, const struct model *model, const struct piece *pieces,
                       int count)
{
    const int others = schedule->ranks - 1;
    if (!model->passes || others == 0) return 0;
    int64_t strip = 0;
    for (int owner = 0; owner <= others; owner++) {
        const int64_t bytes = owner_bytes(schedule, model, pieces, count, owner);
        if (bytes > strip) strip = bytes;
    }
    const int64_t most = ARRIVALS_BYTES / others / ARRIVALS_ALIGN * ARRIVALS_ALIGN;
    return (strip < most ? strip : most) * others;
}
