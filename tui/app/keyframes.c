#include "tui/app/feed.h"

#include <stdlib.h>
#include <string.h>

/* Folding some steps again takes a millisecond; a snapshot of each would take more memory than the records. */
enum { SPACING_AT_START = 4 };

void keyframes_init(struct keyframes *keyframes, size_t bytes_max)
{
    *keyframes = (struct keyframes){.spacing = SPACING_AT_START, .bytes_max = bytes_max};
}

void keyframes_release(struct keyframes *keyframes)
{
    for (int i = 0; i < keyframes->count; i++) run_model_free(keyframes->at[i].snapshot);
    free(keyframes->at);
    memset(keyframes, 0, sizeof *keyframes);
}

static void thin_out(struct keyframes *keyframes)
{
    int kept = 0;
    keyframes->spacing *= 2;
    for (int i = 0; i < keyframes->count; i++) {
        struct keyframe *keyframe = &keyframes->at[i];
        if (i % 2 == 0) {
            keyframes->at[kept++] = *keyframe;
            continue;
        }
        keyframes->bytes -= run_snapshot_bytes(keyframe->snapshot);
        run_model_free(keyframe->snapshot);
    }
    keyframes->count = kept;
}

void keyframes_put(struct keyframes *keyframes, uint32_t step, uint64_t time_ns, struct run_model *model)
{
    const struct keyframe *last = keyframes->count ? &keyframes->at[keyframes->count - 1] : NULL;
    if (last && step < last->step + keyframes->spacing) return;
    const bool room = array_grow((void **)&keyframes->at, keyframes->count, &keyframes->room, sizeof *keyframes->at);
    struct run_model *snapshot = room ? run_snapshot_take(model) : NULL;
    if (!snapshot) return;
    keyframes->at[keyframes->count++] = (struct keyframe){step, time_ns, snapshot};
    keyframes->bytes += run_snapshot_bytes(snapshot);
    while (keyframes->bytes > keyframes->bytes_max && keyframes->count > 2) thin_out(keyframes);
}

/* How many keyframes are at or before the given step, or at or before the given time. */
static int not_after(const struct keyframes *keyframes, uint32_t step, uint64_t time_ns)
{
    int low = 0, high = keyframes->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const struct keyframe *keyframe = &keyframes->at[middle];
        if (keyframe->step <= step && keyframe->time_ns <= time_ns) low = middle + 1;
        else high = middle;
    }
    return low;
}

const struct keyframe *keyframe_before_step(const struct keyframes *keyframes, uint32_t step)
{
    int count = not_after(keyframes, step, UINT64_MAX);
    return count ? &keyframes->at[count - 1] : NULL;
}

const struct keyframe *keyframe_before_time(const struct keyframes *keyframes, uint64_t time_ns)
{
    int count = not_after(keyframes, UINT32_MAX, time_ns);
    return count ? &keyframes->at[count - 1] : NULL;
}

const struct keyframe *keyframe_from_step(const struct keyframes *keyframes, uint32_t step)
{
    int before = step ? not_after(keyframes, step - 1, UINT64_MAX) : 0;
    return before < keyframes->count ? &keyframes->at[before] : NULL;
}
