/* Draws one operation of a schedule in full: its kind, buffers and pieces, its dependencies and dependents, its last
 * measured times, and its present state. */
#ifndef TUI_VIEWS_SCHEDULE_DETAIL_H
#define TUI_VIEWS_SCHEDULE_DETAIL_H

#include "engine/observe/progress.h"
#include "tui/view/view.h"

void schedule_detail_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int op);

/* "done", "running", "wait #12"; of one rank. */
const char *state_text(char out[24], const struct progress *at, int op);

#endif
