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

/* True: the key was the lab's. */
bool playing_key(struct app *app, uint32_t key);
void playing_take(struct app *app, const char *text); /* the prediction that was typed */
void playing_go(struct app *app, const char *text);   /* the number of a step that was typed */

#endif
