/* Moving the cursor: a model of its own is restored from the keyframe before the wanted moment and folded up to it, out of
 * memory where the step is kept there, else out of the trace file. */
#include <string.h>

#include "tui/app/feed_parts.h"

void feed_newest(struct feed *feed)
{
    reel_release(&feed->back, true);
    feed->behind = feed->playing = false;
    feed->cursor_ns = feed->newest.model->now_ns;
}

/* ---- opening the past ---------------------------------------------------------------------------------------------- */

static bool is_in_memory(const struct feed *feed, const struct keyframe *keyframe)
{
    if (!feed->past) return false;
    if (!keyframe) return !past_is_cut(feed->past);
    uint32_t first = past_first_step(feed->past);
    return first && first <= keyframe->step;
}

static bool open_at(struct feed *feed, const struct keyframe *keyframe, struct reel *reel)
{
    struct error err;
    bool memory = is_in_memory(feed, keyframe);
    *reel = (struct reel){.grows = feed->live && !feed->newest.over};
    if (!memory && !feed->path) return false;
    if (memory ? source_open_past(&reel->source, feed->past, &err) : source_open_file(&reel->source, feed->path, &err))
        return false;
    if (keyframe && source_resume_step(reel->source, keyframe->step, &err)) return reel_release(reel, true), false;
    reel->model = keyframe ? run_snapshot_restore(keyframe->snapshot, feed->newest.model) : reel_model();
    return reel->model || (reel_release(reel, true), false);
}

/* The keyframe, or where it is not kept any more the oldest that is. */
bool cursor_open(struct feed *feed, const struct keyframe *keyframe, struct reel *reel)
{
    if (open_at(feed, keyframe, reel)) return true;
    uint32_t first = feed->past ? past_first_step(feed->past) : 0;
    keyframe = first ? keyframe_from_step(&feed->keyframes, first) : NULL;
    return keyframe && open_at(feed, keyframe, reel);
}

static bool move_back_to(struct feed *feed, const struct keyframe *keyframe)
{
    struct reel reel;
    feed->playing = false;
    if (!cursor_open(feed, keyframe, &reel)) return false;
    reel_release(&feed->back, true);
    feed->back = reel;
    return feed->behind = true;
}

/* The cursor stands where `back` ends now; or later, where nothing was recorded in between. */
static bool stand(struct feed *feed, uint64_t time_ns)
{
    const struct run_model *model = feed->back.model;
    feed->cursor_ns = time_ns > model->now_ns ? time_ns : model->now_ns;
    if (model->revision >= feed->newest.model->revision) feed_newest(feed);
    return true;
}

/* ---- where to ------------------------------------------------------------------------------------------------------ */

static bool is_past_time(const struct reel *newest, uint64_t time_ns)
{
    return newest->model->now_ns > time_ns;
}

static bool is_past_step(const struct reel *newest, uint64_t step)
{
    return reel_steps_done(newest) > step;
}

bool feed_go_time(struct feed *feed, uint64_t time_ns)
{
    bool playing = feed->playing;
    if (!feed_read_until(feed, is_past_time, time_ns)) return feed_newest(feed), true;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, time_ns);
    bool onwards = feed->behind && feed->back.model->now_ns <= time_ns &&
                   (!keyframe || keyframe->time_ns <= feed->back.model->now_ns);
    if (!onwards && !move_back_to(feed, keyframe)) return false;
    feed->playing = playing;
    reel_until_time(&feed->back, time_ns);
    return stand(feed, time_ns);
}

bool feed_go_step(struct feed *feed, uint32_t step)
{
    if (!feed_read_until(feed, is_past_step, step) && reel_steps_done(&feed->newest) < step) return false;
    if (!move_back_to(feed, step ? keyframe_before_step(&feed->keyframes, step) : NULL)) return false;
    reel_until_step_ends(&feed->back, step);
    return stand(feed, 0);
}

/* The number of the last whole step at the cursor, and whether a later one has begun. */
static uint32_t steps_done(const struct feed *feed, bool *within)
{
    const struct run_model *model = feed_model(feed);
    const struct run_step *done = run_last_step(model);
    *within = model->step_count > 0 && done != &model->steps[model->step_count - 1];
    return done ? done->step : 0;
}

bool feed_next_step(struct feed *feed)
{
    bool within;
    uint32_t step = steps_done(feed, &within) + 1;
    if (!feed->behind) return false;
    if (!feed_read_until(feed, is_past_step, step) && reel_steps_done(&feed->newest) < step)
        return feed_newest(feed), true;
    feed->playing = false;
    reel_until_step_ends(&feed->back, step);
    return stand(feed, 0);
}

bool feed_previous_step(struct feed *feed)
{
    bool within;
    uint32_t step = steps_done(feed, &within);
    return feed_go_step(feed, within || !step ? step : step - 1);
}

/* ---- finding ------------------------------------------------------------------------------------------------------- */

/* Over what comes next in the reel, up to a time: when the first match was, or the last; 0: there is none. */
static uint64_t scan(struct reel *reel, uint64_t until_ns, feed_match *match, const void *user, bool first)
{
    uint64_t found_ns = 0;
    while (!(first && found_ns) && reel_peek(reel) && reel->next.time_ns < until_ns) {
        if (match(reel->model, &reel->next, user)) found_ns = reel->next.time_ns;
        reel_fold(reel);
    }
    return found_ns;
}

static uint64_t find_after(struct feed *feed, feed_match *match, const void *user)
{
    struct reel reel;
    if (!feed->behind || !cursor_open(feed, keyframe_before_time(&feed->keyframes, feed->cursor_ns), &reel)) return 0;
    reel_until_time(&reel, feed->cursor_ns);
    uint64_t found_ns = scan(&reel, UINT64_MAX, match, user, true);
    reel_release(&reel, true);
    return found_ns;
}

/* From keyframe to keyframe backwards, each stretch from its start. */
static uint64_t find_before(struct feed *feed, feed_match *match, const void *user)
{
    uint64_t until_ns = feed->behind ? feed->cursor_ns : feed->newest.model->now_ns, found_ns = 0;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, until_ns - 1);
    while (!found_ns) {
        struct reel reel;
        if (!open_at(feed, keyframe, &reel)) break;
        found_ns = scan(&reel, until_ns, match, user, false);
        reel_release(&reel, true);
        if (!keyframe) break;
        until_ns = keyframe->time_ns + 1;
        keyframe = keyframe->step ? keyframe_before_step(&feed->keyframes, keyframe->step - 1) : NULL;
    }
    return found_ns;
}

bool feed_find(struct feed *feed, feed_match *match, const void *user, bool forward)
{
    uint64_t found_ns = forward ? find_after(feed, match, user) : find_before(feed, match, user);
    feed->playing = false;
    return found_ns && feed_go_time(feed, found_ns);
}

static bool ends_op(const struct run_model *model, const struct trace_record *record, const void *user)
{
    (void)model;
    return record->kind == TRACE_OP_END && record->rank == *(const int *)user;
}

bool feed_next_op(struct feed *feed, int rank)
{
    return feed_find(feed, ends_op, &rank, true) || (feed->behind && (feed_newest(feed), true));
}

bool feed_previous_op(struct feed *feed, int rank)
{
    return feed_find(feed, ends_op, &rank, false);
}
