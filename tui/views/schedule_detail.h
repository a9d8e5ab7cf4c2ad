/* One operation of a schedule in full: what it does, its buffers and pieces, what it waits for and who waits for it, how it
 * went when it was measured last, and where it stands now. */
#ifndef TUI_VIEWS_SCHEDULE_DETAIL_H
#define TUI_VIEWS_SCHEDULE_DETAIL_H

#include "engine/observe/progress.h"
#include "tui/view/view.h"

void schedule_detail_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int op);

/* "done", "running", "wait #12"; of one rank. */
const char *state_text(char out[24], const struct progress *at, int op);

#endif
