/* A window of the past that the newest history no longer has in full, on a history of its own: folded once more, from the keyframe
 * before it, and kept until another one is looked at. */
#include "tui/app/feed_parts.h"

enum { RECORDS_MAX = 200000 }; /* what may be folded before a frame is drawn */

void part_release(struct part *part)
{
    history_free(part->history);
    *part = (struct part){0};
}

/* From the keyframe to the end of the step that `to_ns` lies in. False: it is too much, or not kept. */
static bool fold_part(struct feed *feed, struct part *part, uint64_t from_ns, uint64_t to_ns)
{
    struct record_reader reader;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, from_ns ? from_ns - 1 : 0);
    if (!cursor_open(feed, keyframe, &reader)) return false;
    reader.history = history_new(FEED_TAPE_BYTES);
    part->from_ns = keyframe ? keyframe->time_ns : 0;
    for (int i = 0; reader.history && i < RECORDS_MAX && record_reader_peek(&reader); i++) {
        if (reader.next.time_ns > to_ns && reader.next.kind == TRACE_STEP_BEGIN) break;
        record_reader_fold(&reader);
    }
    part->to_ns = reader.model->now_ns;
    part->history = reader.history;
    reader.history = NULL;
    record_reader_release(&reader, true);
    return part->history && part->to_ns >= to_ns;
}

const struct history *feed_history(struct feed *feed, uint64_t from_ns, uint64_t to_ns)
{
    struct part *part = &feed->part;
    if (!from_ns && !to_ns) from_ns = to_ns = feed->cursor_ns; /* the step under the cursor */
    if (!feed->behind || from_ns >= history_whole_from(feed->newest.history) || to_ns > feed->newest.model->now_ns)
        return feed->newest.history;
    if (part->from_ns <= from_ns && to_ns <= part->to_ns) return part->history ? part->history : feed->newest.history;
    part_release(part);
    if (fold_part(feed, part, from_ns, to_ns)) return part->history;
    part_release(part);
    part->from_ns = from_ns; /* not tried again for every frame */
    part->to_ns = to_ns;
    return feed->newest.history;
}
