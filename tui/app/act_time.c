/* Keys that move the cursor in time, set the pace, or record the run. */
#include <math.h>
#include <time.h>

#include "engine/base/clock.h"
#include "tui/app/app_parts.h"

static const uint64_t ANSWER_NS = 2000000000u;

/* ---- moving the cursor --------------------------------------------------------------------------------------------- */

static void play(struct app *app)
{
    struct feed *feed = &app->feed;
    if (!feed->behind) feed_go_step(feed, 0); /* at the end: once more from the beginning */
    feed_play(feed, !feed->playing, clock_ns());
}

void act_time(struct app *app, const struct key_row *row)
{
    struct feed *feed = &app->feed;
    bool moved = true, forward = false;
    if (feed->live && feed->newest.model->ended) app->state.live = false; /* its screen is that of a recording now */
    switch (row->action) {
    case ACTION_PLAY: play(app); break;
    case ACTION_NEXT_STEP:
    case ACTION_PAGE_DOWN: moved = feed_next_step(feed), forward = true; break;
    case ACTION_PREVIOUS_STEP:
    case ACTION_PAGE_UP: moved = feed_previous_step(feed); break;
    case ACTION_NEXT_OP:
    case ACTION_RIGHT: moved = feed_next_op(feed, app->state.rank), forward = true; break;
    case ACTION_PREVIOUS_OP:
    case ACTION_LEFT: moved = feed_previous_op(feed, app->state.rank); break;
    case ACTION_FIRST: moved = feed_go_step(feed, 0); break;
    default: feed_last(feed); break;
    }
    app->state.by_ops = row->action == ACTION_NEXT_OP || row->action == ACTION_PREVIOUS_OP ||
                        row->action == ACTION_LEFT || row->action == ACTION_RIGHT;
    if (!moved) app_say(app, forward ? "this is the newest moment" : "nothing older is kept");
}

/* ---- pace ---------------------------------------------------------------------------------------------------------- */

/* The next value of a rising scale above or below the present one. */
static double next_of(const double *scale, int count, double now, bool up)
{
    double value = now;
    for (int i = 0; i < count; i++) {
        if (up && scale[i] > now * 1.001) return scale[i];
        if (!up && scale[i] < now * 0.999) value = scale[i];
    }
    return value;
}

/* A key that is pressed before the run has answered starts from the value that was sent last. */
static double asked_or(const struct asked *asked, double now)
{
    bool waits = asked->sent_ns && now == asked->was && clock_ns() - asked->sent_ns < ANSWER_NS;
    return waits ? asked->value : now;
}

static void ask(struct app *app, struct asked *asked, double was, double value, const char *command)
{
    if (app_send(app, command)) *asked = (struct asked){was, value, clock_ns()};
}

static void slow_motion(struct app *app, bool faster)
{
    static const double factors[] = {1, 2, 5, 10, 20, 50, 100};
    const struct run_pace *pace = &app->feed.newest.model->pace;
    double was = pace->known ? pace->slow_motion : 1, now = asked_or(&app->slow_motion, was);
    double next = next_of(factors, sizeof factors / sizeof factors[0], now, !faster);
    if (next == now) app_say(app, faster ? "this is real time" : "slower than %g times is for --set", now);
    else ask(app, &app->slow_motion, was, next, text_of("set topology.slow_motion=%g", next).text);
}

/* "off" is faster than any pace. */
static void pace_link(struct app *app, bool faster)
{
    static const double paces[] = {10e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, INFINITY};
    const struct run_pace *pace = &app->feed.newest.model->pace;
    double bandwidth = pace->known ? pace->links[LINK_INTRA].bandwidth_bytes_per_s : 0;
    double was = bandwidth > 0 ? bandwidth : INFINITY, now = asked_or(&app->link, was);
    double next = next_of(paces, sizeof paces / sizeof paces[0], now, faster);
    const struct text command =
        text_of("set topology.links.intra.bandwidth=%.0f%s", isinf(next) ? 0 : next / 1e6, isinf(next) ? "" : "MB");
    if (next == now) app_say(app, faster ? "the link is not paced" : "slower than this is for --set");
    else ask(app, &app->link, was, next, command.text);
}

void act_pace(struct app *app, const struct key_row *row)
{
    bool faster = row->action == ACTION_FASTER || row->action == ACTION_LINK_FASTER;
    if (row->action == ACTION_LINK_FASTER || row->action == ACTION_LINK_SLOWER) pace_link(app, faster);
    else if (row->modes & KEY_MODE_REPLAY) feed_faster(&app->feed, faster ? 1 : -1, clock_ns());
    else slow_motion(app, faster);
}

/* ---- keeping it ---------------------------------------------------------------------------------------------------- */

void act_record(struct app *app, const struct key_row *row)
{
    char name[64];
    struct error err;
    time_t now = time(NULL);
    struct tm local;
    (void)row;
    if (!app->feed.live) app_say(app, "this is a recording");
    else if (app->options->trace_file) app_say(app, "recorded since its start: %s", app->options->trace_file);
    else if (app->feed.recording) app_say(app, "being recorded: %s", app->feed.recorded);
    else {
        strftime(name, sizeof name, "zerolab-%Y%m%d-%H%M%S.zlt", localtime_r(&now, &local));
        if (feed_record(&app->feed, name, &err)) app_say(app, "%.310s", err.text);
        else app_say(app, "recording to %s%s", name, record_buffer_is_cut(app->feed.past) ? ", from what is still kept on" : "");
    }
}
