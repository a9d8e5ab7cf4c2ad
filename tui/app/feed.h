/* What the app knows of a run, and the moment that is looked at. A live run is a trace that has not ended, so both are read
 * alike: `newest` folds everything as it comes (a file as fast as it can be read); it leaves keyframes behind, and while one
 * looks back `back` is folded from one of these to the cursor, out of memory (engine/trace/record_buffer.h) or out of the trace file.
 *
 *     feed_open_live(&feed, source, NULL, "run.zlt", &err)   or feed_open_replay(&feed, "run.zlt", &err)
 *     feed_advance(&feed, now_ns)                            folds what has come, moves a cursor that plays
 *     draw(feed_model(&feed), feed_history(&feed, 0, 0))
 *     feed_go_step(&feed, 12); feed_newest(&feed);
 *
 * Time is handed in, so a feed can be driven by a test. */
#ifndef TUI_APP_FEED_H
#define TUI_APP_FEED_H

#include "engine/base/error.h"
#include "engine/trace/file.h"
#include "engine/trace/record_buffer.h"
#include "tui/app/keyframes.h"
#include "tui/app/record_reader.h"

struct part { struct history *history; uint64_t from_ns, to_ns; };

struct feed {
    bool live, owns_model, owns_source;
    struct record_reader newest;
    uint32_t step;               /* that began last in newest */
    bool flows;                  /* live: so much came that more may have come meanwhile */
    struct keyframes keyframes;
    char *path;                  /* the trace file; NULL: none */
    struct record_buffer *past;           /* live: what is kept in memory */
    struct trace_file *recording;/* feed_record() */
    char recorded[64];           /* its name; "": never asked for */
    /* the cursor */
    bool behind;                 /* it is not at the newest record */
    uint64_t cursor_ns;
    struct record_reader back;            /* folded to the cursor */
    struct part part;
    /* pace: at clock base_ns the cursor stood at from_ns */
    bool playing;
    int speed;                   /* steps up or down from that of the recording */
    uint64_t base_ns, from_ns;
};

/* The model is borrowed, or NULL: one of its own. path: where the engine records it; NULL: nowhere. */
int feed_open_live(struct feed *feed, struct source *source, struct run_model *model, const char *path, struct error *err);
int feed_open_replay(struct feed *feed, const char *path, struct error *err); /* its cursor stands before the first record */
void feed_close(struct feed *feed);

const struct run_model *feed_model(const struct feed *feed); /* as of the cursor */
/* The history that has a window in full, if there is one (cursor.c). Both 0: the step under the cursor. */
const struct history *feed_history(struct feed *feed, uint64_t from_ns, uint64_t to_ns);

/* Folds what is due, for at most some milliseconds: then feed_wait_ns() is 0 if there is more. True: what is to be seen may
 * have changed. */
bool feed_advance(struct feed *feed, uint64_t now_ns);
/* Nanoseconds until feed_advance() has work; 0: now; -1: when feed_fd() can be read, or never. */
int64_t feed_wait_ns(const struct feed *feed, uint64_t now_ns);
int feed_fd(const struct feed *feed); /* -1: none */
bool feed_flows(const struct feed *feed); /* feed_fd() is to be polled at once; else a look now and then is enough */

/* Live: writes what is kept to a new file, and what comes as well. feed_close() ends it. */
int feed_record(struct feed *feed, const char *path, struct error *err);
void feed_note(struct feed *feed, const struct trace_record *record); /* a record of our own beside them */

/* ---- cursor.c: going to a moment. Each stops the play. False: there is no such moment, or it is not kept any more. ---- */

bool feed_go_time(struct feed *feed, uint64_t time_ns);
bool feed_go_step(struct feed *feed, uint32_t step); /* its end (record_reader_until_step_ends()); 0: before the first */
bool feed_next_step(struct feed *feed);
bool feed_previous_step(struct feed *feed);
bool feed_next_op(struct feed *feed, int rank);      /* to where one of the rank's operations ends */
bool feed_previous_op(struct feed *feed, int rank);
void feed_newest(struct feed *feed);

/* To the next record that matches after the cursor, or the last before it. False: none; the cursor stays. */
typedef bool feed_match(const struct run_model *model, const struct trace_record *record, const void *user);
bool feed_find(struct feed *feed, feed_match *match, const void *user, bool forward);

/* ---- cursor.c: playing ---- */

void feed_play(struct feed *feed, bool playing, uint64_t now_ns);
void feed_faster(struct feed *feed, int by, uint64_t now_ns); /* by steps of the scale; negative: slower, then backwards */
double feed_speed(const struct feed *feed);

#endif
