/* Keeps the newest state of a run: opens a feed, reads new records, records to a file. */
#include "tui/app/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

/* ---- keyframes ---- */

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
