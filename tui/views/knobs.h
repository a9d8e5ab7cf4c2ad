/* What the files of the view "knobs" share. */
#ifndef TUI_VIEWS_KNOBS_H
#define TUI_VIEWS_KNOBS_H

#include "engine/advise/knobs.h"
#include "tui/view/view.h"

/* The lower part: what the chosen key is for, whether it binds and why, and how it is changed. */
static inline int knob_detail_rows(int rows)
{
    return rows < 30 ? 6 : 9; /* of so many of the view */
}
void knob_draw_details(struct canvas canvas, const struct scene *scene, const struct knobs *knobs, const struct knob *knob);

/* Whether Enter changes it: a key of a run that still goes on and takes commands. One that is not live costs a new start. */
bool knob_can_change(const struct scene *scene, const struct knob *knob);

#endif
