/* Which step a screen shows: that under the cursor; while a run goes on, a whole one that stays for two seconds. */
#ifndef TUI_VIEW_SHOWN_H
#define TUI_VIEW_SHOWN_H

#include "tui/view/view.h"

uint64_t shown_now(const struct scene *scene); /* the newest time of model and history */
bool shown_moves(const struct scene *scene);   /* a live run that goes on, or a recording that plays */
/* The step to show; NULL: none has begun. */
const struct history_step *shown_step(const struct scene *scene);
/* The newest whole step that had ended at time_ns; NULL: none is kept. */
const struct history_step *shown_whole_at(const struct history *history, uint64_t time_ns);

#endif
