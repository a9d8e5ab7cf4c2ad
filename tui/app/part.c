/* A window of the past that the newest tape no longer has in full, on a tape of its own: folded once more, from the keyframe
 * before it, and kept until another one is looked at. */
#include "tui/app/feed_parts.h"

enum { RECORDS_MAX = 200000 }; /* what may be folded before a frame is drawn */

void part_release(struct part *part)
{
    tape_free(part->tape);
    *part = (struct part){0};
}

/* From the keyframe to the end of the step that `to_ns` lies in. False: it is too much, or not kept. */
static bool fold_part(struct feed *feed, struct part *part, uint64_t from_ns, uint64_t to_ns)
{
    struct reel reel;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, from_ns ? from_ns - 1 : 0);
    if (!cursor_open(feed, keyframe, &reel)) return false;
    reel.tape = tape_new(FEED_TAPE_BYTES);
    part->from_ns = keyframe ? keyframe->time_ns : 0;
    for (int i = 0; reel.tape && i < RECORDS_MAX && reel_peek(&reel); i++) {
        if (reel.next.time_ns > to_ns && reel.next.kind == TRACE_STEP_BEGIN) break;
        reel_fold(&reel);
    }
    part->to_ns = reel.model->now_ns;
    part->tape = reel.tape;
    reel.tape = NULL;
    reel_release(&reel, true);
    return part->tape && part->to_ns >= to_ns;
}

const struct tape *feed_tape(struct feed *feed, uint64_t from_ns, uint64_t to_ns)
{
    struct part *part = &feed->part;
    if (!from_ns && !to_ns) from_ns = to_ns = feed->cursor_ns; /* the step under the cursor */
    if (!feed->behind || from_ns >= tape_whole_from(feed->newest.tape) || to_ns > feed->newest.model->now_ns)
        return feed->newest.tape;
    if (part->from_ns <= from_ns && to_ns <= part->to_ns) return part->tape ? part->tape : feed->newest.tape;
    part_release(part);
    if (fold_part(feed, part, from_ns, to_ns)) return part->tape;
    part_release(part);
    part->from_ns = from_ns; /* not tried again for every frame */
    part->to_ns = to_ns;
    return feed->newest.tape;
}
