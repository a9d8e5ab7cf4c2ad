/* A lab in the app: its keys, what it wants done to the run, and what becomes of the learner's progress. */
#ifndef TUI_APP_PLAYING_H
#define TUI_APP_PLAYING_H

#include "tui/app/app_parts.h"

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

#endif
