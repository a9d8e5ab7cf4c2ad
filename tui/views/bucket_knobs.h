/* Below the list of buckets: what they come to together, and their knobs. */
#ifndef TUI_VIEWS_BUCKET_KNOBS_H
#define TUI_VIEWS_BUCKET_KNOBS_H

#include "engine/observe/progress.h"
#include "tui/view/view.h"

enum { KNOB_ROWS = 4 };

/* The schedule has at least one bucket. */
void bucket_knobs_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int rank);

#endif
