/* Recorded lessons: a lab's pane goes into the trace beside the run (records LESSON), and a replay shows both at the cursor,
 * with no engine. Every run of a lab is a file of its own; a lesson is a folder of them, in order. */
#ifndef TUI_APP_LESSON_H
#define TUI_APP_LESSON_H

#include "tui/app/app_parts.h"

/* Recording: the run of a lab that begins. STATUS_RUN: it cannot be written. */
int lesson_record(struct app *app, struct error *err);
void lesson_note(struct app *app); /* what the pane shows now, if it is something else than before */

/* Replaying. True: the recording is a lesson, and the cursor stands at its first page (or its last). */
bool lesson_open(struct app *app);
void lesson_show(struct app *app); /* the pane as of the cursor */
bool lesson_key(struct app *app, uint32_t key); /* true: it was a key of the lesson */

#endif
