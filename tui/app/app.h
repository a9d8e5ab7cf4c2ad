/* The front end as the command line sees it: watch a run (live or recorded) in the terminal, or print one frame.
 *
 *     if (!app_terminal_fits(&err)) ... train without a screen, and say err.text
 *     app_run(&(struct app_options){.source = source, .owner = true, .trace_file = path}, &err)   live
 *     app_run(&(struct app_options){.replay_file = path}, &err)                                   recorded
 */
#pragma once

#include <stdbool.h>

#include "engine/advise/sweep.h"
#include "engine/base/error.h"
#include "engine/lab/play.h"
#include "engine/observe/questions.h"
#include "engine/trace/source.h"

enum app_units { APP_UNITS_UNSAID, APP_UNITS_GB, APP_UNITS_GIB, APP_UNITS_BYTES };

struct app_look {
    bool ascii;           /* no block characters; implied by a locale that is not UTF-8 */
    bool no_color;        /* implied by NO_COLOR */
    bool no_mouse;
    const char *theme;    /* NULL: from the settings, or the default; see theme_names() */
    enum app_units units;
};

/* An offer, shown in the header of the overview until it is answered; said: the user's answer. */
struct app_offer { const char *text; enum { OFFER_OPEN, OFFER_LATER, OFFER_TAKEN, OFFER_NEVER } said; };

/* A lab that is played beside the views. */
struct app_lab {
    struct lab_play play;
    bool presents;                                  /* for a lecture: keys show and hide answers, jump, freeze */
    const char *lesson;                             /* the folder to record the lesson into; NULL: not recorded */
    int lesson_parts;                               /* runs in it so far: 001.zlt, 002.zlt ... */
    void (*save)(const struct lab_play *, void *user); /* called when the progress changes; NULL: it is not saved */
    void *user;
};

/* Output of a whole run on the terminal: frames drawn and bytes written. */
struct app_cost { int64_t frames, bytes; };

/* A further task of the screen's loop, which must not block: the relauncher (engine/train/relauncher.h). */
struct app_tended {
    int (*fd)(void *user);   /* the descriptor to poll after `tend` returned -1; -1: none */
    int (*tend)(void *user); /* does all that is possible now; returns in how many ms to call again, or -1 */
    void *user;
};

/* A second run, B, beside A, the run of the other options. The user moves the cursor of A, and that of B follows. */
struct app_compare {
    const char *name[2];      /* of A and B: a file, or the number of a run */
    const char *file;         /* B: a trace; NULL: source */
    struct source *source;    /* B: live, borrowed */
    struct source *totals[2]; /* of A and B: a second connection to a live run, read for its totals; NULL: they come from the trace */
    bool by_time;             /* both cursors are equally long after the run's begin; false: in the same step, as long after its begin */
};

struct app; /* a screen, and what its user has chosen; it can stay while one run ends and the next begins */

struct app_options {
    struct app_look look;
    struct source *source;      /* live: borrowed; NULL: replay */
    const char *replay_file;    /* replay: opened by the app */
    const char *trace_file;     /* live: the engine's trace file, replayed after the run's end; NULL: none */
    struct run_model *model;    /* live: folds records into this one (borrowed, for a report); NULL: its own */
    bool owner;                 /* live: quitting sends "stop" */
    bool readonly;              /* sends no commands */
    struct app_tended tended;   /* tend NULL: no further task */
    struct app_cost *cost;      /* out; NULL: not wanted */
    struct app_lab *lab;        /* NULL: none; on return its play says whether the run is to be started anew */
    struct app_offer *offer;    /* Enter accepts it and leaves; N: never again; Esc: later; NULL: none */
    int part, parts;            /* replay: number of this part of a lesson, from 0, and how many parts there are; parts 0: no lesson */
    int *turned;                /* ... out: 1 or -1 when the user wants the next or previous part */
    bool from_end;              /* ... begins at the part's last page */
    struct app_compare *compare; /* NULL: one run */
    struct app **stage;         /* in and out: the screen, kept open between runs; NULL: it closes after this run */
};

/* False, with the reason: standard input or output is not a terminal, or TERM is dumb or unknown. */
bool app_terminal_fits(struct error *err);

/* Runs until the user leaves. Returns 0, or a status with err set when the terminal or the file cannot be used. The
 * terminal is restored on every way out. A failed or out-of-memory run is no error here: ask the model. */
int app_run(const struct app_options *options, struct error *err);
void app_close(struct app *stage); /* closes a screen that was kept open; may be NULL */

enum app_frame_as { APP_AS_TEXT, APP_AS_ANSI, APP_AS_SVG, APP_AS_HTML, APP_AS_CAST };

struct app_frame_options {
    struct app_look look;
    const char *file;       /* a trace */
    int columns, rows;
    const char *view;       /* "overview", "help", "oom"; NULL: overview */
    const char *at;         /* "step:12" (its end), "step:12.3" (operation 3; or .begin, .end), "time:1.5" (s), "oom", "end"; NULL: end */
    const char *steps;      /* "3:5" or "3": all moments of these steps, as HTML, asciicast or animated SVG; NULL: one screen, but
                             * the last whole step if `at` is NULL, too, and the format is HTML or asciicast */
    enum app_frame_as as;
    const struct app_compare *compare; /* two traces; `at` is a moment of A; NULL: one */
};

/* Prints a sweep (engine/advise/sweep.h). TEXT: the table, then each chart in columns x rows characters. SVG: all charts in one picture.
 * HTML: a page with charts and table. CSV: the table. what: name of the configuration or model, for titles. STATUS_RUN: no memory. */
enum app_charts_as { CHARTS_TEXT, CHARTS_SVG, CHARTS_HTML, CHARTS_CSV };
struct app_charts { enum app_charts_as as; const struct sweep *sweep; const char *what; int columns, rows; bool ascii; };
int app_charts(FILE *out, const struct app_charts *ask, struct error *err);

/* Plans a sweep, whose keys are set, and shows a chart and knobs on the terminal until the user leaves. When the user turns a knob, the
 * whole sweep is planned again. STATUS_USAGE: no usable terminal, or nothing can be planned as configured. */
struct app_live_charts {
    struct sweep *sweep;
    const struct sweep_loader *loader;
    const char *what, *profile; /* profile: the hardware profile for which times are simulated; NULL: none */
    struct hardware *hardware;  /* the loader's; turning the knob "hardware" loads another profile into it */
    struct app_look look;
};
int app_live_charts(const struct app_live_charts *ask, struct error *err);

/* Draws screens of a recorded run as text; the caller frees *out. STATUS_USAGE: unknown view, place, steps or theme. */
int app_frame(const struct app_frame_options *options, char **out, struct error *err);

/* Whether a step of a lab fits a screen of 80x24: the question on one page, verdict and explanation on another. */
bool app_lab_fits(const struct lab_play *play);
