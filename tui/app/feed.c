/* Keeps the newest state of a run: opens a feed, reads new records, records to a file. */
#include "tui/app/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

/* MANY_FOLDS: about as many records as a socket holds. */
enum { FOLD_FOR_NS = 20000000, FOLDS_BETWEEN_LOOKS = 256, MANY_FOLDS = 1024, KEYFRAME_BYTES = 12 << 20 };

static int begin(struct feed *feed, struct run_model *model, const char *path, struct error *err)
{
    keyframes_init(&feed->keyframes, KEYFRAME_BYTES);
    feed->owns_model = !model;
    feed->newest.model = model ? model : record_reader_model();
    feed->newest.history = history_new(FEED_HISTORY_BYTES);
    feed->path = path ? strdup(path) : NULL;
    feed->past = feed->live ? record_buffer_new(0) : NULL;
    bool done = feed->newest.model && feed->newest.history && (feed->path || !path) && (feed->past || !feed->live);
    return done ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for the state of a run");
}

int feed_open_live(struct feed *feed, struct source *source, struct run_model *model, const char *path,
                   struct error *err)
{
    *feed = (struct feed){.live = true, .newest.source = source};
    int status = begin(feed, model, path, err);
    if (status) feed_close(feed);
    return status;
}

int feed_open_replay(struct feed *feed, const char *path, struct error *err)
{
    *feed = (struct feed){.owns_source = true};
    int status = begin(feed, NULL, path, err);
    if (!status) status = source_open_file(&feed->newest.source, path, err);
    if (!status) status = source_open_file(&feed->back.source, path, err);
    if (!status && !(feed->back.model = record_reader_model()))
        status = error_set(err, STATUS_RUN, "no memory for the state of a run");
    if (status) {
        feed_close(feed);
        return status;
    }
    feed->behind = true;
    if (record_reader_peek(&feed->back)) feed->cursor_ns = feed->back.next.time_ns;
    return STATUS_OK;
}

void feed_close(struct feed *feed)
{
    record_reader_release(&feed->back, true);
    part_release(&feed->part);
    if (!feed->owns_source) feed->newest.source = NULL;
    record_reader_release(&feed->newest, feed->owns_model);
    trace_file_close(feed->recording, NULL);
    keyframes_release(&feed->keyframes);
    record_buffer_free(feed->past);
    free(feed->path);
    memset(feed, 0, sizeof *feed);
}

const struct run_model *feed_model(const struct feed *feed)
{
    return feed->behind ? feed->back.model : feed->newest.model;
}

/* ---- reading on ---------------------------------------------------------------------------------------------------- */

static void give_up_recording(struct feed *feed, const struct error *err)
{
    snprintf(feed->newest.trouble, sizeof feed->newest.trouble, "%.250s", err->text);
    trace_file_close(feed->recording, NULL);
    feed->recording = NULL;
}

static void record(struct feed *feed, const void *encoded)
{
    struct error err;
    if (feed->recording && trace_file_put_encoded(feed->recording, encoded, &err)) give_up_recording(feed, &err);
}

void feed_note(struct feed *feed, const struct trace_record *note)
{
    struct error err;
    if (feed->recording && trace_file_put(feed->recording, note, &err)) give_up_recording(feed, &err);
}

/* Passes one record to the model, the history, the memory and the recording. */
static void take(struct feed *feed)
{
    struct record_reader *newest = &feed->newest;
    const struct trace_record *next = &newest->next;
    if (next->kind == TRACE_STEP_BEGIN && next->step_begin.step != feed->step) {
        feed->step = next->step_begin.step;
        keyframes_put(&feed->keyframes, feed->step, next->time_ns, newest->model);
    }
    if (feed->past) record_buffer_put(feed->past, source_encoded(newest->source));
    record(feed, source_encoded(newest->source));
    record_reader_fold(newest);
}

bool feed_read_until(struct feed *feed, bool (*enough)(const struct record_reader *newest, uint64_t what), uint64_t what)
{
    while (!enough(&feed->newest, what) && record_reader_peek(&feed->newest)) take(feed);
    return enough(&feed->newest, what);
}

/* A record that was read but not folded stays in newest.next, which shows that there is more. */
static bool read_on(struct feed *feed)
{
    bool was_over = feed->newest.over;
    uint64_t begun_ns = clock_ns(), revision = feed->newest.model->revision;
    int folds = 0;
    for (; record_reader_peek(&feed->newest); folds++) {
        if (folds % FOLDS_BETWEEN_LOOKS == 0 && folds && clock_ns() - begun_ns > FOLD_FOR_NS) break;
        take(feed);
    }
    feed->flows = feed->live && folds >= MANY_FOLDS;
    return feed->newest.model->revision != revision || feed->newest.over != was_over;
}

bool feed_advance(struct feed *feed, uint64_t now_ns)
{
    bool changed = !feed->newest.over && read_on(feed);
    uint64_t cursor_ns = feed->cursor_ns;
    bool was_behind = feed->behind;
    if (feed->behind && feed->newest.over && feed->back.over) feed_newest(feed);
    if (feed->playing) pace_advance(feed, now_ns);
    return changed || feed->cursor_ns != cursor_ns || feed->behind != was_behind;
}

int64_t feed_wait_ns(const struct feed *feed, uint64_t now_ns)
{
    bool reads = !feed->newest.over && (!feed->live || feed->newest.has_next);
    return reads ? 0 : pace_wait_ns(feed, now_ns);
}

bool feed_flows(const struct feed *feed)
{
    return feed->flows && !feed->newest.over;
}

int feed_fd(const struct feed *feed)
{
    return feed->live && !feed->newest.over ? source_fd(feed->newest.source) : -1;
}

/* ---- recording ----------------------------------------------------------------------------------------------------- */

int feed_record(struct feed *feed, const char *path, struct error *err)
{
    struct source *past;
    struct trace_record next;
    int status = source_open_buffer(&past, feed->past, err);
    if (status) return status;
    status = trace_file_create(&feed->recording, path, err);
    while (!status && source_next(past, &next) == SOURCE_RECORD)
        status = trace_file_put_encoded(feed->recording, source_encoded(past), err);
    source_close(past);
    if (!status) snprintf(feed->recorded, sizeof feed->recorded, "%s", path);
    else if (feed->recording) trace_file_close(feed->recording, NULL), feed->recording = NULL;
    return status;
}
