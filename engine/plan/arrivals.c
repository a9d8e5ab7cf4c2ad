#include "engine/plan/arrivals.h"

#include "engine/plan/footprint.h"

/* What one owner's parts take of a strip, each from a whole line on. */
static int64_t owner_bytes(const struct schedule *schedule, const struct model *model, const struct piece *pieces,
                           int count, int owner)
{
    int64_t bytes = 0;
    for (int p = 0; p < count; p++) {
        const struct piece *piece = &pieces[p];
        const int64_t own = piece_owned_elems(model, piece, schedule->ranks, owner) *
                            dtype_bytes(schedule->buffers[piece->source].dtype);
        bytes += (own + ARRIVALS_ALIGN - 1) / ARRIVALS_ALIGN * ARRIVALS_ALIGN;
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
