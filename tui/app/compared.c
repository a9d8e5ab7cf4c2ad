/* Two runs on one screen: keys move the cursor of A, and B follows it, before a frame is drawn. The
 * differences are between totals of whole runs (engine/advise/analysis.h). Totals come from the trace, which is read once, or for a
 * run in progress from a connection of its own. */
#include "tui/app/app_parts.h"

enum { ROWS_LARGE = 50 }; /* large figures need half of so many rows */
static const struct analysis_options whole = {0};

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static int open_totals(struct compared *two, const char *const files[2], struct error *err)
{
    int status = STATUS_OK;
    for (int side = 0; side < 2 && !status; side++)
        status = two->options->totals[side] ? analysis_begin(&two->analysis[side], two->options->name[side], err)
                                            : analysis_read(&two->analysis[side], files[side], &whole, err);
    return status;
}

int compared_open(struct compared *two, const struct app_compare *options, const char *file, struct error *err)
{
    *two = (struct compared){.options = options};
    int status = options->source ? feed_open_live(&two->feed, options->source, NULL, NULL, err)
                                 : feed_open_replay(&two->feed, options->file, err);
    if (status) return status;
    status = open_totals(two, (const char *const[]){file, options->file}, err);
    if (status) compared_close(two);
    return status;
}

void compared_close(struct compared *two)
{
    feed_close(&two->feed);
    for (int side = 0; side < 2; side++) analysis_release(&two->analysis[side]);
}

bool compared_advance(struct compared *two, uint64_t now_ns)
{
    for (int side = 0; side < 2; side++)
        if (two->options->totals[side]) analysis_take(&two->analysis[side], two->options->totals[side], &whole, NULL);
    return feed_advance(&two->feed, now_ns);
}

/* ---- one cursor ---------------------------------------------------------------------------------------------------- */

static bool has_begun(const struct record_reader *newest, uint64_t what)
{
    (void)what;
    return newest->model->first_ns > 0;
}

static bool has_ended(const struct record_reader *newest, uint64_t step)
{
    return record_reader_steps_done(newest) >= step;
}

static void follow_time(struct compared *two, struct feed *a, uint64_t at_ns)
{
    struct feed *b = &two->feed;
    feed_read_until(a, has_begun, 0);
    feed_read_until(b, has_begun, 0);
    two->ahead_ns = (int64_t)(b->newest.model->first_ns - a->newest.model->first_ns);
    feed_go_time(b, at_ns + (uint64_t)two->ahead_ns);
}

/* To the end of the step where A has ended it; within it, as long after its begin as A, but not beyond its end. */
static void follow_step(struct compared *two, struct feed *a, uint64_t at_ns)
{
    struct feed *b = &two->feed;
    const struct run_model *model = feed_model(a);
    const struct run_step *step = model->step_count ? &model->steps[model->step_count - 1] : NULL;
    if (!step) {
        feed_go_step(b, 0);
        return;
    }
    feed_read_until(b, has_ended, step->step);
    const struct history_step *from = history_step_numbered(a->newest.history, step->step);
    const struct history_step *to = history_step_numbered(b->newest.history, step->step);
    const bool known = from && to;
    if (known) two->ahead_ns = (int64_t)(to->begun_ns - from->begun_ns);
    const bool within = known && run_last_step(model) != step &&
                        (!to->ended_ns || at_ns - from->begun_ns < to->ended_ns - to->begun_ns);
    if (within) feed_go_time(b, at_ns + (uint64_t)two->ahead_ns);
    else if (!feed_go_step(b, step->step)) feed_newest(b);
}

/* Two runs in progress are both shown at their newest moments, until A's cursor leaves it. */
static void follow(struct compared *two, struct feed *a)
{
    struct feed *b = &two->feed;
    const uint64_t at_ns = a->behind ? a->cursor_ns : a->newest.model->now_ns;
    if (a->live && b->live && !a->behind) {
        if (b->behind) feed_newest(b);
        two->followed_ns = 0;
        return;
    }
    if (at_ns == two->followed_ns && b->newest.over) return;
    two->followed_ns = at_ns;
    (two->options->by_time ? follow_time : follow_step)(two, a, at_ns);
}

/* ---- drawing ------------------------------------------------------------------------------------------------------- */

static struct scene scene_of(struct feed *feed, const struct view_state *state)
{
    return (struct scene){feed_model(feed), feed_history(feed, state->from_ns, state->to_ns), state};
}

/* One scale for the steps of both: that of the longer one. */
static void share_scale(struct view_state states[2], const struct scene scenes[2])
{
    for (int side = 0; side < 2; side++) {
        const struct history_step *step = shown_step(&scenes[side]);
        const uint64_t took_ns = step && step->ended_ns ? step->ended_ns - step->begun_ns : 0;
        if (took_ns > states[0].window_least_ns) states[0].window_least_ns = took_ns;
    }
    states[1].window_least_ns = states[0].window_least_ns;
}

void compared_draw(struct compared *two, struct feed *a, const struct view_state *state, struct surface *surface)
{
    struct feed *b = &two->feed;
    struct view_state *states = two->state;
    follow(two, a);
    states[0] = *state;
    states[0].large &= surface->rows >= ROWS_LARGE;
    states[1] = states[0];
    feed_tell_time(b, &states[1]);
    if (state->to_ns && state->to_ns != UINT64_MAX) {
        states[1].from_ns += (uint64_t)two->ahead_ns;
        states[1].to_ns += (uint64_t)two->ahead_ns;
    }
    const struct two both = {
        .scene = {scene_of(a, &states[0]), scene_of(b, &states[1])},
        .name = {two->options->name[0], two->options->name[1]},
        .analysis = two->analysis,
    };
    if (state->view == VIEW_TIMELINE) share_scale(states, both.scene);
    two_draw(&both, surface);
}
