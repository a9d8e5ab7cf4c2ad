/* State and functions that the files of the app share: app.c (the loop), actions.c (keys and mouse), act_time.c (keys
 * that move in time), compared.c (a second run), typing.c (the line at the bottom), playing.c (a lab), lesson.c (recorded lessons). */
#pragma once

#include "engine/advise/analysis.h"
#include "tui/app/app.h"
#include "tui/app/feed.h"
#include "tui/app/settings.h"
#include "tui/screen/screen.h"
#include "tui/term/term.h"

/* A value that was sent to the run, and the value before. */
struct asked { double was, value; uint64_t sent_ns; };

/* compared.c: run B, the second of two, and the totals of both. */
struct compared {
    const struct app_compare *options;
    struct feed feed;
    struct view_state state[2]; /* made for each frame: that of A, and a copy of it with the times of B */
    struct analysis analysis[2];
    uint64_t followed_ns;    /* the time of A's cursor for which B's was last moved; 0: none yet, or both show their newest records */
    int64_t ahead_ns;        /* add it to a time of A to get the corresponding time of B */
};

/* file: the trace of A; NULL: it is live. compared_close() after each success. */
int compared_open(struct compared *two, const struct app_compare *options, const char *file, struct error *err);
void compared_close(struct compared *two);
bool compared_advance(struct compared *two, uint64_t now_ns); /* as feed_advance() */
/* Moves B's cursor to where A's is, and draws both. */
void compared_draw(struct compared *two, struct feed *a, const struct view_state *state, struct surface *surface);

struct app {
    const struct app_options *options; /* of the current run */
    struct terminal *terminal;
    struct surface surface;
    struct feed feed;
    struct compared two; /* options->compare NULL: one run, and this is not used */
    struct view_state state;
    struct settings settings; /* in force */
    struct settings saved;    /* the file's settings with later changes by keys */
    bool saves;               /* changes are written to the file */
    enum theme theme;
    struct asked slow_motion, link;
    enum run_state run_state; /* the state for which the view was chosen */
    const struct lab_play *played; /* the lab; NULL: none */
    int playing_step;         /* lab: the step whose view has been opened */
    unsigned page_revision;   /* lab: the page that has been drawn */
    bool help_on_page;        /* lab: help was opened over the page; closing help shows the page again */
    struct lab_pane pane;   /* lab: content of the pane */
    char *noted;              /* lab: the page that was recorded last (lesson.c) */
    uint64_t lesson_ns;       /* lab: time of the page that was recorded last, or is shown */
    uint64_t playing_ns;      /* lab: when the learner's time was counted last */
    bool changed, urgent, quit, asked; /* changed: draw at the next frame; urgent: now; asked: to confirm leaving */
    bool waits_answer;        /* a command was sent; notices to come may hold its refusal */
    uint64_t notices;         /* how many notices have been searched for that refusal */
    bool again;               /* after quit, another run follows on this screen */
    uint64_t slow_ns;         /* when the run last was not at full speed */
    uint64_t taken_ns, drawn_ns, message_ns; /* times of the last records and frame; end of the message (0: none) */
};

typedef void action_function(struct app *app, const struct key_row *row);

void app_say(struct app *app, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool app_send(struct app *app, const char *command); /* shows the result as the message */
void app_hear_answer(struct app *app); /* called after records: shows a refusal of the command by the run */

struct scene app_scene(struct app *app);
/* Copies the feed's cursor, newest time and pace into the state of the views. */
void app_tell_time(struct app *app);
void feed_tell_time(const struct feed *feed, struct view_state *state);

/* On a narrow screen the page of a lab covers the view: shows the view instead. True: the page was open. */
bool app_show_view(struct app *app);

/* A key goes to the line that is being typed (typing_key()), else to the view, else to app_act(). */
bool app_view_acts(struct app *app, const struct key_row *row); /* false: the view does not use the key */
void app_act(struct app *app, const struct key_row *row);

/* app.c. Opens the terminal with the settings and the look of the options; app->terminal may be NULL with STATUS_OK, as with
 * terminal_open(). app_fit_surface() gives the surface the size and the colours of the terminal; false: no memory. */
int app_open_screen(struct app *app, struct error *err);
bool app_fit_surface(struct app *app);

/* charts.c: fills in chart `number`, from 0, for value `panel` of the sweep's third key (0 if there are fewer keys). The chart points into
 * the sweep, `title` and `values`, which has room for (CHART_SERIES_MAX + 1) x rows of the sweep. False: there is no such chart. */
struct chart;
bool charts_get(struct chart *chart, const struct sweep *sweep, int panel, int number, double *values, char title[256]);

void act_time(struct app *app, const struct key_row *row);  /* act_time.c */
void act_pace(struct app *app, const struct key_row *row);
void act_record(struct app *app, const struct key_row *row);

void typing_open(struct app *app, enum prompt kind, const char *label, const char *text); /* typing.c */
void typing_key(struct app *app, uint32_t key);
void act_type(struct app *app, const struct key_row *row);
void act_find(struct app *app, const struct key_row *row);
void act_markers(struct app *app, const struct key_row *row);
void act_moments(struct app *app, const struct key_row *row);

enum prompt_answer { PROMPT_GOES_ON, PROMPT_TAKEN, PROMPT_LEFT };
/* Applies a key to `text` of `room` bytes: a character is appended, Backspace removes the last one, Ctrl-U all. Enter
 * accepts the line, Esc cancels it. A suggested text (*offered, which the first key sets to false) is replaced by the
 * first character; any other key begins to edit it. A pure function. */
enum prompt_answer prompt_type(char *text, size_t room, uint32_t key, bool *offered);

/* A feed_match of '/'; user: struct search. Finds steps ("step 12"), operations by kind and unit ("all_gather block 3"),
 * and events, commands, states and lines of the log by any part of their text. */
struct search { const char *text; int rank; /* search the operations of this rank */ };
bool search_matches(const struct run_model *model, const struct trace_record *record, const void *user);

void pointing_act(struct app *app); /* the mouse */

/* ---- playing.c: a lab in the app: its keys, its commands to the run, and saving the learner's progress ---- */

void playing_open(struct app *app);
void playing_close(struct app *app);

/* Called after records and keys: sends the lab's commands to the run. */
void playing_tick(struct app *app, uint64_t now_ns);

/* Scrolls the pane to its newest text. */
void playing_scroll(struct app *app);

/* Whether a lab refuses a command because it waits for the learner's prediction: every command except `stop`. */
bool playing_refuses(const struct app *app, const char *line);

/* True: the lab used the key. */
bool playing_key(struct app *app, uint32_t key);
bool playing_take(struct app *app, const char *text); /* a typed prediction; false: the text is not one */
void playing_go(struct app *app, const char *text);   /* goes to the step whose number was typed */

/* ---- lesson.c: records a lab's pane in the trace of the run (records LESSON), so that a replay shows both at the cursor without an
 * engine. Each run of a lab is a file of its own; a lesson is a folder of these files, in order. ---- */

/* Recording: begins the file of a run that begins. STATUS_RUN: the file cannot be written. */
int lesson_record(struct app *app, struct error *err);
void lesson_note(struct app *app); /* records the pane's content if it has changed */

/* Replaying. True: the recording is a lesson, and the cursor is now at its first page (or its last). */
bool lesson_open(struct app *app);
void lesson_show(struct app *app); /* shows the pane as it was at the cursor */
bool lesson_key(struct app *app, uint32_t key); /* true: it was a key of the lesson */

/* Whether the theme is mono, in which patterns replace colours: by option, by NO_COLOR, or because the terminal has
 * no colours. */
bool look_is_mono(const struct app_look *look, bool can_colour);
