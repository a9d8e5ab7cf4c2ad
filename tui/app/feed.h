/* Where the app's records come from, and when: live, as fast as they come; or from a file, at the pace they were recorded,
 * with stops and steps both ways. Time is handed in, so a feed can be driven by a test. */
#ifndef TUI_APP_FEED_H
#define TUI_APP_FEED_H

#include "engine/analyze/model.h"
#include "engine/analyze/tape.h"
#include "engine/base/error.h"
#include "engine/trace/source.h"

struct feed {
    struct run_model *model;  /* what was folded so far; replaced when a replay goes back */
    struct tape *tape;        /* ... and all that is kept of its past */
    bool live, owns_model;
    struct source *source;
    bool over;                /* nothing more will come */
    char trouble[256];        /* why, if that is no good end; "": all is well */
    /* replay */
    char *path;
    struct trace_record next; /* read, but its time has not come */
    bool has_next, playing;
    double speed;
    uint64_t base_ns, trace_ns; /* at clock base_ns the replay stood at trace_ns */
};

int feed_open_live(struct feed *feed, struct source *source, struct run_model *model, struct error *err);
int feed_open_replay(struct feed *feed, const char *path, double speed, struct error *err);
void feed_close(struct feed *feed);

/* Folds what is due, for at most some milliseconds. True: something was folded or the feed ended. */
bool feed_advance(struct feed *feed, uint64_t now_ns);

/* Nanoseconds until feed_advance() has work; 0: now; -1: when feed_fd() can be read, or never. */
int64_t feed_wait_ns(const struct feed *feed, uint64_t now_ns);
int feed_fd(const struct feed *feed); /* -1: none */

/* Replays. Each stops the clock, except play. */
void feed_play(struct feed *feed, bool playing, uint64_t now_ns);
void feed_speed(struct feed *feed, double factor, uint64_t now_ns);
void feed_next_step(struct feed *feed);
void feed_previous_step(struct feed *feed);
void feed_first(struct feed *feed);
void feed_last(struct feed *feed);

/* Folds until every rank has ended step number `step`, or the records end. */
void feed_until_step(struct feed *feed, uint32_t step);
/* ... until the run is out of memory. False: it never was. */
bool feed_until_shortage(struct feed *feed);

#endif
