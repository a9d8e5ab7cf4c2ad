/* The records of a run and the cursor, which is the moment that the screen shows. A live run is a trace that has not
 * ended, so live runs and recordings are read alike. `newest` folds all records as they arrive and stores keyframes.
 * While the cursor is in the past, `back` is folded from a keyframe to the cursor, from memory
 * (engine/trace/record_buffer.h) or from the trace file.
 *
 *     feed_open_live(&feed, source, NULL, "run.zlt", &err)   or feed_open_replay(&feed, "run.zlt", &err)
 *     feed_advance(&feed, now_ns)                            folds new records, moves a cursor that plays
 *     draw(feed_model(&feed), feed_history(&feed, 0, 0))
 *     feed_go_step(&feed, 12); feed_newest(&feed);
 *
 * Functions get the time as an argument, so a test can set it. */
#pragma once

#include "engine/base/error.h"
#include "engine/observe/snapshot.h"
#include "engine/trace/file.h"
#include "engine/trace/record_buffer.h"
#include "tui/app/record_reader.h"

/* ---- keyframes: snapshots of the model before each step, or before every `spacing` steps, from which
 * folding can begin. When they take more than bytes_max, every other one is dropped, and half as many are taken from
 * then on. ---- */

struct keyframe {
    uint32_t step;    /* the step about to begin: the next record is its first STEP_BEGIN */
    uint64_t time_ns; /* time of that record */
    struct run_model *snapshot;
};

struct keyframes {
    struct keyframe *at; /* oldest first */
    int count, room;
    uint32_t spacing;    /* steps between two */
    size_t bytes, bytes_max;
};

void keyframes_init(struct keyframes *keyframes, size_t bytes_max);
void keyframes_release(struct keyframes *keyframes);

/* Call before `model` folds the first STEP_BEGIN of this step. If memory is short, the keyframe is left out. */
void keyframes_put(struct keyframes *keyframes, uint32_t step, uint64_t time_ns, struct run_model *model);

/* keyframe_before_*(): the last keyframe at or before the step or time; keyframe_from_step(): the first from the step on. NULL: none. */
const struct keyframe *keyframe_before_step(const struct keyframes *keyframes, uint32_t step);
const struct keyframe *keyframe_before_time(const struct keyframes *keyframes, uint64_t time_ns);
const struct keyframe *keyframe_from_step(const struct keyframes *keyframes, uint32_t step);

/* A history of an older window, folded once more. NULL with to_ns > 0: folding failed for this window and is not tried again. */
struct part { struct history *history; uint64_t from_ns, to_ns; };

/* Live, while the user steps by operations. wanted: the screen is to show the begin of the first operation of `rank` after after_ns.
 * holds: the cursor stands at that begin, while `newest` has folded later records, too. Any other move clears both. */
struct hold {
    bool wanted, holds;
    int rank;
    uint64_t after_ns;
};

/* Live: the whole step that is played slowly; step 0: none. Moment i, times[i] of the trace, is shown from clock time
 * begun_ns + i * each_ns on. */
enum { LAST_STEP_MOMENTS = 4096 };
struct last_step {
    uint32_t step, schedule;
    int rank, count;
    uint64_t begun_ns, each_ns, times[LAST_STEP_MOMENTS];
};

struct feed {
    bool live, owns_model, owns_source;
    struct record_reader newest;
    uint32_t step;               /* the step that began last in newest */
    bool flows;                  /* live: so many records arrived at once that the socket may hold more */
    struct keyframes keyframes;
    char *path;                  /* the trace file; NULL: none */
    struct record_buffer *past;           /* live: the records that are kept in memory */
    struct trace_file *recording;/* feed_record() */
    char recorded[64];           /* path of the last recording; "": there was none */
    /* the cursor */
    bool behind;                 /* the cursor is not at the newest record */
    uint64_t cursor_ns;
    struct record_reader back;            /* folded to the cursor */
    struct part part;
    struct hold hold;
    struct last_step last;
    /* pace: at clock time base_ns the cursor was at from_ns */
    bool playing;
    int speed;                   /* index in the scale of speeds, relative to the recorded speed (0) */
    uint64_t base_ns, from_ns;
};

/* The model is borrowed; NULL: the feed makes one. path: the trace file that the engine writes; NULL: none. */
int feed_open_live(struct feed *feed, struct source *source, struct run_model *model, const char *path, struct error *err);
int feed_open_replay(struct feed *feed, const char *path, struct error *err); /* cursor: before the first record */
void feed_close(struct feed *feed);

const struct run_model *feed_model(const struct feed *feed); /* as of the cursor */
/* A history that covers the whole window, if possible (cursor.c). Both 0: the step under the cursor. */
const struct history *feed_history(struct feed *feed, uint64_t from_ns, uint64_t to_ns);

/* Folds records that have arrived, for about 20 ms at most, and moves a playing cursor. If records remain, feed_wait_ns() returns 0. True:
 * the picture may have changed. */
bool feed_advance(struct feed *feed, uint64_t now_ns);
/* Nanoseconds until feed_advance() has work; 0: now; -1: when feed_fd() is readable, or never. */
int64_t feed_wait_ns(const struct feed *feed, uint64_t now_ns);
int feed_fd(const struct feed *feed); /* -1: none */
bool feed_flows(const struct feed *feed); /* true: poll feed_fd() at once; false: polling it now and then is enough */

/* Live: writes the kept records and all later ones to a new file. feed_close() ends it. */
int feed_record(struct feed *feed, const char *path, struct error *err);
void feed_note(struct feed *feed, const struct trace_record *record); /* adds a record of the front end to that file */

/* ---- cursor.c: moving the cursor. All but feed_go_time() stop playing. False: no such moment, or it is no longer kept. ---- */

bool feed_go_time(struct feed *feed, uint64_t time_ns);
bool feed_go_step(struct feed *feed, uint32_t step); /* to the step's end (record_reader_until_step_ends()); 0: before the first step */
bool feed_next_step(struct feed *feed);
bool feed_previous_step(struct feed *feed);
bool feed_next_op(struct feed *feed, int rank); /* to where one of the rank's operations begins or ends */
bool feed_previous_op(struct feed *feed, int rank);
void feed_newest(struct feed *feed);
/* Goes to the last record. While a recording is still being read, it starts from a state stored in the file (engine/observe/states.h). The
 * cursor is then at a later time than `newest`, until `newest` has read all records, too. */
void feed_last(struct feed *feed);

/* Live: shows the next operation of `rank` twice, at its begin and at its end. Call feed_hold_next() when the run is told to let
 * an operation run, and feed_hold() after records: once the operation has ended, it moves the cursor back to its begin. */
void feed_hold_next(struct feed *feed, int rank);
void feed_hold(struct feed *feed);

/* ---- cursor.c: the last whole step ---- */

/* Live: moves the cursor through the moments of the last whole step of this rank, slowly, while the run goes on. Call it again after
 * feed_last_wait_ns() (-1: nothing plays), or sooner for motion between two moments. Any other move ends it. True: the picture
 * may have changed. */
bool feed_play_last(struct feed *feed, int rank, uint64_t now_ns);
int64_t feed_last_wait_ns(const struct feed *feed, uint64_t now_ns);
double feed_last_slowness(const struct last_step *last); /* time in which the step is shown / time that it took */

/* Goes to the first matching record after the cursor, or the last before it. False: none; the cursor stays. */
typedef bool feed_match(const struct run_model *model, const struct trace_record *record, const void *user);
bool feed_find(struct feed *feed, feed_match *match, const void *user, bool forward);

/* ---- cursor.c: playing ---- */

void feed_play(struct feed *feed, bool playing, uint64_t now_ns);
void feed_faster(struct feed *feed, int by, uint64_t now_ns); /* by steps of the scale; negative: slower, then backwards */
double feed_speed(const struct feed *feed);

/* ---- functions that the files of a feed share ---- */

enum { FEED_HISTORY_BYTES = 24 << 20 }; /* limit of each history: the newest, and that of an older window */

/* Reads until enough(newest, what) is true, or there are no more records: the file ends, or no later record of a live run has arrived.
 * Returns the last result of enough(). */
bool feed_read_until(struct feed *feed, bool (*enough)(const struct record_reader *newest, uint64_t what), uint64_t what);

/* cursor.c */
void part_release(struct part *part);
void pace_advance(struct feed *feed, uint64_t now_ns);
int64_t pace_wait_ns(const struct feed *feed, uint64_t now_ns); /* -1: it does not play */
