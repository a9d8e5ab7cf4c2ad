/* Live and recorded records, at their pace. Going back in a recording folds it again from its start: the model has no way
 * back, and a trace of a long run folds in well under a second. */
#include "tui/app/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

enum { FOLD_FOR_NS = 20000000, FOLDS_BETWEEN_LOOKS = 256, STEPS_KEPT = 4096, NOTICES_KEPT = 1000 };

static struct run_model *new_model(void)
{
    return run_model_new(&(struct run_model_options){.steps = STEPS_KEPT, .notices = NOTICES_KEPT});
}

int feed_open_live(struct feed *feed, struct source *source, struct run_model *model, struct error *err)
{
    *feed = (struct feed){.live = true, .source = source, .model = model ? model : new_model(), .owns_model = !model, .tape = tape_new(0)};
    return feed->model && feed->tape ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for the state of a run");
}

int feed_open_replay(struct feed *feed, const char *path, double speed, struct error *err)
{
    *feed =
        (struct feed){.model = new_model(), .owns_model = true, .tape = tape_new(0), .path = strdup(path), .speed = speed > 0 ? speed : 1};
    int status = feed->model && feed->tape && feed->path ? source_open_file(&feed->source, path, err)
                                           : error_set(err, STATUS_RUN, "no memory for the state of a run");
    if (status) feed_close(feed);
    return status;
}

void feed_close(struct feed *feed)
{
    if (!feed->live && feed->source) source_close(feed->source);
    if (feed->owns_model) run_model_free(feed->model);
    tape_free(feed->tape);
    free(feed->path);
    memset(feed, 0, sizeof *feed);
}

static void ended(struct feed *feed, enum source_result result)
{
    feed->over = true;
    if (result == SOURCE_BAD) snprintf(feed->trouble, sizeof feed->trouble, "%s", source_error(feed->source));
    else if (source_torn(feed->source))
        snprintf(feed->trouble, sizeof feed->trouble, "the file ends in the middle of a chunk; all before it is shown");
    else if (!feed->model->ended)
        snprintf(feed->trouble, sizeof feed->trouble,
                 feed->live ? "the engine closed the connection" : "the trace ends here, without the run's own end");
}

/* The next record, without folding it. */
static bool peek(struct feed *feed)
{
    if (feed->has_next || feed->over) return feed->has_next;
    enum source_result result = source_next(feed->source, &feed->next);
    feed->has_next = result == SOURCE_RECORD;
    if (result == SOURCE_END || result == SOURCE_BAD) ended(feed, result);
    return feed->has_next;
}

static bool fold_next(struct feed *feed)
{
    if (!peek(feed)) return false;
    run_model_fold(feed->model, &feed->next);
    tape_fold(feed->tape, feed->model, &feed->next);
    feed->has_next = false;
    return true;
}

static uint64_t place_ns(const struct feed *feed, uint64_t now_ns)
{
    double passed = now_ns > feed->base_ns ? (double)(now_ns - feed->base_ns) : 0;
    return feed->trace_ns + (uint64_t)(passed * feed->speed);
}

static bool due(struct feed *feed, uint64_t until_ns)
{
    return peek(feed) && (feed->live || feed->next.time_ns <= until_ns);
}

bool feed_advance(struct feed *feed, uint64_t now_ns)
{
    bool changed = false, was_over = feed->over;
    if (!feed->live && !feed->playing) return false;
    uint64_t until_ns = feed->live ? 0 : place_ns(feed, now_ns), begun_ns = clock_ns();
    for (int folds = 1; due(feed, until_ns); folds++) {
        changed |= fold_next(feed);
        if (folds % FOLDS_BETWEEN_LOOKS == 0 && clock_ns() - begun_ns > FOLD_FOR_NS) break;
    }
    if (feed->over && !feed->live) feed->playing = false;
    return changed || feed->over != was_over;
}

int64_t feed_wait_ns(const struct feed *feed, uint64_t now_ns)
{
    if (feed->over) return -1;
    if (feed->live) return feed->has_next ? 0 : -1;
    if (!feed->playing || !feed->has_next) return feed->playing ? 0 : -1;
    uint64_t place = place_ns(feed, now_ns);
    return feed->next.time_ns <= place ? 0 : (int64_t)((double)(feed->next.time_ns - place) / feed->speed) + 1;
}

int feed_fd(const struct feed *feed)
{
    return feed->live && !feed->over ? source_fd(feed->source) : -1;
}

void feed_play(struct feed *feed, bool playing, uint64_t now_ns)
{
    feed->playing = playing && !feed->over;
    feed->base_ns = now_ns;
    feed->trace_ns = feed->model->now_ns;
    if (!feed->trace_ns && peek(feed)) feed->trace_ns = feed->next.time_ns;
}

void feed_speed(struct feed *feed, double factor, uint64_t now_ns)
{
    double speed = feed->speed * factor;
    uint64_t place = place_ns(feed, now_ns);
    if (speed < 1.0 / 64 || speed > 1024) return;
    if (feed->playing) feed->trace_ns = place, feed->base_ns = now_ns;
    feed->speed = speed;
}

static uint32_t steps_done(const struct feed *feed)
{
    const struct run_step *step = run_last_step(feed->model);
    return step ? step->step : 0;
}

void feed_until_step(struct feed *feed, uint32_t step)
{
    feed->playing = false;
    while (steps_done(feed) < step && fold_next(feed)) {}
}

bool feed_until_shortage(struct feed *feed)
{
    feed->playing = false;
    while (!(feed->model->shortage.known && feed->model->state == RUN_OUT_OF_MEMORY) && fold_next(feed)) {}
    return feed->model->shortage.known;
}

void feed_next_step(struct feed *feed)
{
    feed_until_step(feed, steps_done(feed) + 1);
}

/* Opens the file again: nothing is folded. */
static bool rewind_feed(struct feed *feed)
{
    struct source *source;
    struct error err;
    struct run_model *model = new_model();
    struct tape *tape = tape_new(0);
    feed->playing = false;
    if (!model || !tape || source_open_file(&source, feed->path, &err)) {
        snprintf(feed->trouble, sizeof feed->trouble, "%.250s", model && tape ? err.text : "no memory");
        run_model_free(model);
        tape_free(tape);
        return false;
    }
    source_close(feed->source);
    run_model_free(feed->model);
    tape_free(feed->tape);
    feed->source = source;
    feed->model = model;
    feed->tape = tape;
    feed->over = feed->has_next = false;
    feed->trouble[0] = '\0';
    return true;
}

void feed_previous_step(struct feed *feed)
{
    uint32_t step = steps_done(feed);
    if (step <= 1) feed_first(feed);
    else if (rewind_feed(feed)) feed_until_step(feed, step - 1);
}

/* To where the first step begins: what the run is and what was planned is known there. */
void feed_first(struct feed *feed)
{
    if (!rewind_feed(feed)) return;
    while (peek(feed) && feed->next.kind != TRACE_STEP_BEGIN) fold_next(feed);
}

void feed_last(struct feed *feed)
{
    feed->playing = false;
    while (fold_next(feed)) {}
}
