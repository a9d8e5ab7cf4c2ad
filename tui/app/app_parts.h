/* Inside of the app: app.c is the loop, actions.c what keys and the mouse do, act_time.c the keys that move in time, typing.c the
 * line at the bottom, playing.c a lab, lesson.c recorded lessons. */
#ifndef TUI_APP_APP_PARTS_H
#define TUI_APP_APP_PARTS_H

#include "tui/app/app.h"
#include "tui/app/feed.h"
#include "tui/app/settings.h"
#include "tui/screen/screen.h"
#include "tui/term/term.h"

/* A value that was asked of the run. */
struct asked { double was, value; uint64_t sent_ns; };

struct app {
    const struct app_options *options; /* of the run that is looked at */
    struct terminal *terminal;
    struct surface surface;
    struct feed feed;
    struct view_state state;
    struct settings settings; /* in force */
    struct settings saved;    /* in the file, and what keys changed since */
    bool saves;               /* changes go to the file */
    enum theme theme;
    struct asked slow_motion, link;
    enum run_state run_state; /* that the view was chosen for */
    const struct lab_play *played; /* the lab; NULL: none */
    int playing_step;         /* ... the step whose view has been opened */
    unsigned page_revision;   /* ... the page that has been drawn */
    struct lab_pane pane;   /* ... what its pane shows */
    char *noted;              /* ... what a recorded lesson holds of it last (lesson.c) ... */
    uint64_t lesson_ns;       /* ... time of the page of a lesson that was recorded last, or is shown */
    uint64_t playing_ns;      /* ... when the learner's time was counted last */
    bool changed, urgent, quit, asked; /* asked: whether to leave all the same */
    bool waits_answer;        /* a command was sent; so many notices have been looked at: */
    uint64_t notices;
    bool again;               /* quit means: another run follows on this screen */
    uint64_t taken_ns, drawn_ns, message_ns; /* of the last records and frame; until when the message stays (0: none) */
};

typedef void action_function(struct app *app, const struct key_row *row);

void app_say(struct app *app, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool app_send(struct app *app, const char *command); /* says what came of it */
void app_hear_answer(struct app *app); /* ... once the run has refused it; when records have come */

struct scene app_scene(struct app *app);
/* What views are told about time, from the feed; and the other way round, when a view has moved the cursor. */
void app_tell_time(struct app *app);

/* On a narrow screen a lab stands in front of the views: makes way for the one that was asked for. True: it did. */
bool app_show_view(struct app *app);

/* A key: the line that is typed goes first, then the view, then what the key does everywhere. */
bool app_view_acts(struct app *app, const struct key_row *row); /* false: it is not a key of the view's own */
void app_act(struct app *app, const struct key_row *row);

void act_time(struct app *app, const struct key_row *row);  /* act_time.c */
void act_pace(struct app *app, const struct key_row *row);
void act_record(struct app *app, const struct key_row *row);

void typing_open(struct app *app, enum prompt kind, const char *label, const char *text); /* typing.c */
void typing_key(struct app *app, uint32_t key);
void act_type(struct app *app, const struct key_row *row);
void act_find(struct app *app, const struct key_row *row);
void act_markers(struct app *app, const struct key_row *row);
void act_compare(struct app *app, const struct key_row *row);

void pointing_act(struct app *app); /* the mouse */

/* ---- playing.c: a lab in the app: its keys, what it wants done to the run, and what becomes of the learner's progress ---- */

void playing_open(struct app *app);
void playing_close(struct app *app);

/* After records have been taken and keys acted on: sends what the lab wants sent. */
void playing_tick(struct app *app, uint64_t now_ns);

/* The pane is scrolled to what was said last. */
void playing_scroll(struct app *app);

/* Whether a command has to wait for a prediction: what moves the run, or shows it another way, before one is given. */
bool playing_refuses(const struct app *app, const char *line);

/* True: the key was the lab's. */
bool playing_key(struct app *app, uint32_t key);
bool playing_take(struct app *app, const char *text); /* the prediction that was typed; false: it is none */
void playing_go(struct app *app, const char *text);   /* the number of a step that was typed */

/* ---- lesson.c: a lab's pane goes into the trace beside the run (records LESSON), and a replay shows both at the cursor, with no
 * engine. Every run of a lab is a file of its own; a lesson is a folder of them, in order. ---- */

/* Recording: the run of a lab that begins. STATUS_RUN: it cannot be written. */
int lesson_record(struct app *app, struct error *err);
void lesson_note(struct app *app); /* what the pane shows now, if it is something else than before */

/* Replaying. True: the recording is a lesson, and the cursor stands at its first page (or its last). */
bool lesson_open(struct app *app);
void lesson_show(struct app *app); /* the pane as of the cursor */
bool lesson_key(struct app *app, uint32_t key); /* true: it was a key of the lesson */

/* ---- look.c: from the options of a look to a theme ---- */

/* Without colour (asked for, NO_COLOR, or nothing to show it on) the theme is mono: patterns carry the meaning. */
bool look_is_mono(const struct app_look *look, bool can_colour);
int look_theme(enum theme *theme, const struct app_look *look, bool can_colour, struct error *err);

#endif
