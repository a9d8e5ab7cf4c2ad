/* Moves the cursor: restores a second model from the keyframe before the wanted moment, and folds records up to that
 * moment, from memory if the step is kept there, else from the trace file. */
#include <stddef.h>

#include "tui/app/feed.h"

static void forget_stepping(struct feed *feed)
{
    feed->hold = (struct hold){0};
    feed->last.step = 0;
}

void feed_newest(struct feed *feed)
{
    record_reader_release(&feed->back, true);
    feed->behind = feed->playing = false;
    forget_stepping(feed);
    feed->cursor_ns = feed->newest.model->now_ns;
}

/* ---- opening the past ---------------------------------------------------------------------------------------------- */

static bool is_in_memory(const struct feed *feed, const struct keyframe *keyframe)
{
    if (!feed->past) return false;
    if (!keyframe) return !record_buffer_is_cut(feed->past);
    uint32_t first = record_buffer_first_step(feed->past);
    return first && first <= keyframe->step;
}

static bool open_at(struct feed *feed, const struct keyframe *keyframe, struct record_reader *reader)
{
    struct error err;
    bool memory = is_in_memory(feed, keyframe);
    *reader = (struct record_reader){.grows = feed->live && !feed->newest.over};
    if (!memory && !feed->path) return false;
    if (memory ? source_open_buffer(&reader->source, feed->past, &err) : source_open_file(&reader->source, feed->path, &err))
        return false;
    if (keyframe && source_resume_step(reader->source, keyframe->step, &err)) return record_reader_release(reader, true), false;
    reader->model = keyframe ? run_snapshot_restore(keyframe->snapshot, feed->newest.model) : record_reader_model();
    return reader->model || (record_reader_release(reader, true), false);
}

/* Puts the cursor at the end of `back`, or at time_ns if no record lies between the two. */
static bool place_cursor(struct feed *feed, uint64_t time_ns)
{
    const struct run_model *model = feed->back.model;
    feed->cursor_ns = time_ns > model->now_ns ? time_ns : model->now_ns;
    forget_stepping(feed);
    const uint64_t newest = feed->newest.model->revision;
    if (feed->live ? model->revision >= newest : model->revision == newest) feed_newest(feed);
    return true;
}

/* Of a recording, whether it may be read from one of its states to a moment behind all that has been read. */
static bool is_ahead(const struct feed *feed, uint32_t step, uint64_t time_ns)
{
    const struct record_reader *newest = &feed->newest;
    return !feed->live && !newest->over && time_ns > newest->model->now_ns && step > record_reader_steps_done(newest);
}

/* Whether `back` is folded to a moment behind all that has been read; then reading on from there needs no keyframe. */
static bool back_is_ahead(const struct feed *feed)
{
    return feed->behind && feed->back.model->now_ns > feed->newest.model->now_ns;
}

/* Goes on in `back` from a state of the file before the moment, if one is later than what has been read so far. */
static bool leap(struct feed *feed, uint64_t after_ns, uint32_t step, uint64_t time_ns)
{
    struct record_reader reader;
    if (!is_ahead(feed, step, time_ns) || !open_at(feed, NULL, &reader)) return false;
    if (!record_reader_skip(&reader, after_ns, step, time_ns)) return record_reader_release(&reader, true), false;
    if (time_ns == UINT64_MAX) record_reader_until_step_ends(&reader, step);
    if (step != UINT32_MAX && record_reader_steps_done(&reader) < step)
        return record_reader_release(&reader, true), false;
    record_reader_release(&feed->back, true);
    feed->back = reader;
    return feed->behind = true;
}

void feed_last(struct feed *feed)
{
    if (leap(feed, feed->newest.model->now_ns, UINT32_MAX, UINT64_MAX)) feed->playing = false, place_cursor(feed, 0);
    else feed_newest(feed);
}

/* Opens records from the keyframe on, or from the oldest kept keyframe if that one's records are gone; behind all that has been
 * read, from a state of the file before time_ns. */
static bool cursor_open(struct feed *feed, const struct keyframe *keyframe, uint64_t time_ns, struct record_reader *reader)
{
    if (open_at(feed, keyframe, reader)) {
        if (is_ahead(feed, UINT32_MAX, time_ns)) record_reader_skip(reader, feed->newest.model->now_ns, UINT32_MAX, time_ns);
        return true;
    }
    uint32_t first = feed->past ? record_buffer_first_step(feed->past) : 0;
    keyframe = first ? keyframe_from_step(&feed->keyframes, first) : NULL;
    return keyframe && open_at(feed, keyframe, reader);
}

static bool move_back_to(struct feed *feed, const struct keyframe *keyframe)
{
    struct record_reader reader;
    feed->playing = false;
    if (!cursor_open(feed, keyframe, 0, &reader)) return false;
    record_reader_release(&feed->back, true);
    feed->back = reader;
    return feed->behind = true;
}

/* ---- where to ------------------------------------------------------------------------------------------------------ */

static bool is_past_time(const struct record_reader *newest, uint64_t time_ns)
{
    return newest->model->now_ns > time_ns;
}

static bool is_past_step(const struct record_reader *newest, uint64_t step)
{
    return record_reader_steps_done(newest) > step;
}

bool feed_go_time(struct feed *feed, uint64_t time_ns)
{
    bool playing = feed->playing;
    if (is_ahead(feed, UINT32_MAX, time_ns)) {
        const bool goes_on = back_is_ahead(feed) && feed->back.model->now_ns <= time_ns;
        const uint64_t after_ns = (goes_on ? &feed->back : &feed->newest)->model->now_ns;
        if (leap(feed, after_ns, UINT32_MAX, time_ns) || goes_on) {
            record_reader_until_time(&feed->back, time_ns);
            return place_cursor(feed, feed->back.over ? 0 : time_ns);
        }
    }
    if (!feed_read_until(feed, is_past_time, time_ns)) return feed_newest(feed), true;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, time_ns);
    bool onwards = feed->behind && feed->back.model->now_ns <= time_ns &&
                   (!keyframe || keyframe->time_ns <= feed->back.model->now_ns);
    if (!onwards && !move_back_to(feed, keyframe)) return false;
    feed->playing = playing;
    record_reader_until_time(&feed->back, time_ns);
    return place_cursor(feed, time_ns);
}

bool feed_go_step(struct feed *feed, uint32_t step)
{
    if (leap(feed, feed->newest.model->now_ns, step, UINT64_MAX)) return feed->playing = false, place_cursor(feed, 0);
    if (!feed_read_until(feed, is_past_step, step) && record_reader_steps_done(&feed->newest) < step) return false;
    if (!move_back_to(feed, step ? keyframe_before_step(&feed->keyframes, step) : NULL)) return false;
    record_reader_until_step_ends(&feed->back, step);
    return place_cursor(feed, 0);
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
    if (!back_is_ahead(feed) && !feed_read_until(feed, is_past_step, step) && record_reader_steps_done(&feed->newest) < step)
        return feed_newest(feed), true;
    feed->playing = false;
    record_reader_until_step_ends(&feed->back, step);
    return place_cursor(feed, 0);
}

bool feed_previous_step(struct feed *feed)
{
    bool within;
    uint32_t step = steps_done(feed, &within);
    return feed_go_step(feed, within || !step ? step : step - 1);
}

/* ---- finding ------------------------------------------------------------------------------------------------------- */

/* Reads on up to a time. Returns the time of the first match, or of the last; 0: no match. */
static uint64_t scan(struct record_reader *reader, uint64_t until_ns, feed_match *match, const void *user, bool first)
{
    uint64_t found_ns = 0;
    while (!(first && found_ns) && record_reader_peek(reader) && reader->next.time_ns < until_ns) {
        if (match(reader->model, &reader->next, user)) found_ns = reader->next.time_ns;
        record_reader_fold(reader);
    }
    return found_ns;
}

static uint64_t find_after(struct feed *feed, feed_match *match, const void *user)
{
    struct record_reader reader;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, feed->cursor_ns);
    if (!feed->behind || !cursor_open(feed, keyframe, feed->cursor_ns, &reader)) return 0;
    record_reader_until_time(&reader, feed->cursor_ns);
    uint64_t found_ns = scan(&reader, UINT64_MAX, match, user, true);
    record_reader_release(&reader, true);
    return found_ns;
}

/* Searches from keyframe to keyframe backwards, each stretch from its start. */
static uint64_t find_before(struct feed *feed, feed_match *match, const void *user)
{
    uint64_t until_ns = feed->behind ? feed->cursor_ns : feed->newest.model->now_ns, found_ns = 0;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, until_ns - 1);
    while (!found_ns) {
        struct record_reader reader;
        if (!open_at(feed, keyframe, &reader)) break;
        found_ns = scan(&reader, until_ns, match, user, false);
        record_reader_release(&reader, true);
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

static bool is_moment(const struct run_model *model, const struct trace_record *record, const void *user)
{
    (void)model;
    return (record->kind == TRACE_OP_BEGIN || record->kind == TRACE_OP_END) && record->rank == *(const int *)user;
}

bool feed_next_op(struct feed *feed, int rank)
{
    return feed_find(feed, is_moment, &rank, true) || (feed->behind && (feed_newest(feed), true));
}

bool feed_previous_op(struct feed *feed, int rank)
{
    return feed_find(feed, is_moment, &rank, false);
}

/* ---- stepping a live run ---------------------------------------------------------------------------------------------- */

void feed_hold_next(struct feed *feed, int rank)
{
    feed_newest(feed);
    feed->hold = (struct hold){.wanted = true, .rank = rank, .after_ns = feed->newest.model->now_ns};
}

/* When the newest operation began that was begun and ended since the step was asked for; 0: there is none yet. */
static uint64_t held_begin_ns(const struct feed *feed)
{
    const struct run_model *model = feed->newest.model;
    uint64_t begin_ns = 0;
    for (int lane = 0; lane < LANES && feed->hold.rank < model->ranks; lane++) {
        const struct run_lane *of = &model->rank[feed->hold.rank].lane[lane];
        if (!of->busy && of->started_ns > feed->hold.after_ns && of->started_ns > begin_ns) begin_ns = of->started_ns;
    }
    return begin_ns;
}

void feed_hold(struct feed *feed)
{
    const struct hold hold = feed->hold;
    const uint64_t begin_ns = hold.wanted && !hold.holds ? held_begin_ns(feed) : 0;
    if (!begin_ns || !feed_go_time(feed, begin_ns)) return;
    feed->hold = hold;
    feed->hold.wanted = feed->hold.holds = feed->behind;
}

/* ---- playing: time goes on at the speed that was recorded, slower, faster, or backwards ------------------------------- */

static const double speeds[] = {-64,        -16,       -4,       -1,       -1.0 / 4, -1.0 / 16, -1.0 / 64,
                                1.0 / 1024, 1.0 / 256, 1.0 / 64, 1.0 / 16, 1.0 / 4,  1.0 / 2,   1,
                                2,          4,         8,        16,       64,       256,       1024};
enum { SPEEDS = sizeof speeds / sizeof speeds[0], NORMAL = 13, BACKWARDS_NS = 100000000 };

double feed_speed(const struct feed *feed)
{
    return speeds[NORMAL + feed->speed];
}

/* The time of a playing cursor now. */
static uint64_t place_ns(const struct feed *feed, uint64_t now_ns)
{
    double passed = now_ns > feed->base_ns ? (double)(now_ns - feed->base_ns) : 0;
    double place = (double)feed->from_ns + passed * feed_speed(feed);
    return place > 0 ? (uint64_t)place : 0;
}

void feed_play(struct feed *feed, bool playing, uint64_t now_ns)
{
    feed->playing = playing && feed->behind;
    feed->base_ns = now_ns;
    feed->from_ns = feed->cursor_ns;
}

void feed_faster(struct feed *feed, int by, uint64_t now_ns)
{
    int speed = NORMAL + feed->speed + by;
    uint64_t place = place_ns(feed, now_ns);
    if (speed < 0 || speed >= SPEEDS) return;
    if (feed->playing) feed->from_ns = place, feed->base_ns = now_ns; /* the place does not jump */
    feed->speed += by;
}

void pace_advance(struct feed *feed, uint64_t now_ns)
{
    uint64_t place = place_ns(feed, now_ns);
    bool backwards = feed_speed(feed) < 0, moved = feed_go_time(feed, place);
    feed->playing = moved && feed->behind && !(backwards && place <= feed->newest.model->first_ns);
}

/* Forwards, the next record says when the picture changes; backwards, it may change at any time. */
int64_t pace_wait_ns(const struct feed *feed, uint64_t now_ns)
{
    if (!feed->playing) return -1;
    if (feed_speed(feed) < 0) return BACKWARDS_NS;
    if (!feed->back.has_next) return BACKWARDS_NS;
    uint64_t place = place_ns(feed, now_ns);
    double left = feed->back.next.time_ns > place ? (double)(feed->back.next.time_ns - place) : 0;
    return left > 0 ? (int64_t)(left / feed_speed(feed)) + 1 : 0;
}

/* ---- an older window: folded once more into a history of its own, and kept until another one is looked at ------------ */

enum { RECORDS_MAX = 200000 }; /* what may be folded before a frame is drawn */

void part_release(struct part *part)
{
    history_free(part->history);
    *part = (struct part){0};
}

/* Folds from the keyframe to the end of the step that contains `to_ns`. False: too many records, or they are not
 * kept. */
static bool fold_part(struct feed *feed, struct part *part, uint64_t from_ns, uint64_t to_ns)
{
    struct record_reader reader;
    const struct keyframe *keyframe = keyframe_before_time(&feed->keyframes, from_ns ? from_ns - 1 : 0);
    if (!cursor_open(feed, keyframe, from_ns ? from_ns - 1 : 0, &reader)) return false;
    reader.history = history_new(FEED_HISTORY_BYTES);
    part->from_ns = reader.model->now_ns;
    if (reader.history && reader.model->revision) history_begin(reader.history, reader.model->first_ns, part->from_ns);
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
    if (!feed->behind || (!is_ahead(feed, UINT32_MAX, from_ns) && (from_ns >= history_whole_from(feed->newest.history) ||
                                                                  to_ns > feed->newest.model->now_ns)))
        return feed->newest.history;
    if (part->from_ns <= from_ns && to_ns <= part->to_ns) return part->history ? part->history : feed->newest.history;
    part_release(part);
    if (fold_part(feed, part, from_ns, to_ns)) return part->history;
    part_release(part);
    part->from_ns = from_ns; /* not tried again for every frame */
    part->to_ns = to_ns;
    return feed->newest.history;
}

/* ---- the last whole step of a live run that is too fast to follow, slowly and again and again: the cursor goes through its moments on a
 * clock of its own while the run goes on. When it comes to the end, the step that is the last one then follows. ---- */

static const uint64_t MOMENT_NS = 120000000, WHOLE_NS = 10000000000; /* each at least so long; all of them, if they are few */

/* Takes the step: its moments, in order and each once. False: its operations are not kept. */
static bool take_step(struct feed *feed, const struct run_step *done, int rank, uint64_t now_ns)
{
    struct last_step *last = &feed->last;
    const struct history_step *step = history_step_numbered(feed->newest.history, done->step);
    *last = (struct last_step){.rank = rank, .schedule = done->schedule, .begun_ns = now_ns};
    if (!step || !step->ended_ns || done->lost) return false;
    const int count = last->count =
        history_moments(feed->newest.history, rank, step, step->ended_ns, last->times, LAST_STEP_MOMENTS);
    if (count < 2) return false;
    last->each_ns = WHOLE_NS / (uint64_t)count > MOMENT_NS ? WHOLE_NS / (uint64_t)count : MOMENT_NS;
    last->step = done->step;
    return true;
}

/* The time that is shown: between two moments it goes on evenly. */
static uint64_t shown_ns(const struct last_step *last, uint64_t now_ns)
{
    const uint64_t passed_ns = now_ns - last->begun_ns, at = passed_ns / last->each_ns;
    if (at + 1 >= (uint64_t)last->count) return last->times[last->count - 1];
    const uint64_t from_ns = last->times[at], room_ns = last->times[at + 1] - from_ns - 1;
    return from_ns + (uint64_t)((double)room_ns * (double)(passed_ns % last->each_ns) / (double)last->each_ns);
}

bool feed_play_last(struct feed *feed, int rank, uint64_t now_ns)
{
    struct last_step *last = &feed->last;
    const struct run_step *done = run_last_step(feed->newest.model);
    const uint64_t cursor_ns = feed->cursor_ns;
    const bool over = now_ns - last->begun_ns >= last->each_ns * (uint64_t)last->count;
    const struct run_schedule *plan = run_training(feed->newest.model);
    if (done && plan && plan->number != done->schedule) /* no step of the stage before */
        return last->step ? (feed_newest(feed), true) : false;
    if (!last->step || over || rank != last->rank || (done && done->schedule != last->schedule)) {
        if (!done || !take_step(feed, done, rank, now_ns)) return last->step = 0, false;
    }
    const uint32_t step = last->step;
    const uint64_t time_ns = shown_ns(last, now_ns);
    if (!feed_go_time(feed, time_ns) || !feed->behind) return feed_newest(feed), true;
    last->step = step;
    return feed->cursor_ns != cursor_ns;
}

int64_t feed_last_wait_ns(const struct feed *feed, uint64_t now_ns)
{
    const struct last_step *last = &feed->last;
    return last->step ? (int64_t)(last->each_ns - (now_ns - last->begun_ns) % last->each_ns) : -1;
}

double feed_last_slowness(const struct last_step *last)
{
    const uint64_t took_ns = last->count > 1 ? last->times[last->count - 1] - last->times[0] : 0;
    return took_ns ? (double)last->each_ns * (last->count - 1) / (double)took_ns : 1;
}
