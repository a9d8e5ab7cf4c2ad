/* Draws the totals of all buckets and their knobs, below the list of buckets. */
#ifndef TUI_VIEWS_BUCKET_KNOBS_H
#define TUI_VIEWS_BUCKET_KNOBS_H

#include "engine/observe/progress.h"
#include "tui/view/view.h"

enum { KNOB_ROWS = 4 };

/* The schedule has at least one bucket. */
void bucket_knobs_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int rank);

#endif
