/* Plays the last whole step of a live run that is too fast to follow, slowly and again and again: the cursor goes through the step's
 * moments on a clock of its own while the run goes on. When it comes to the end, the step that is the last one then follows. */

#include "tui/app/feed.h"

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
