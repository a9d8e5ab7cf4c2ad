/* What the files of the view "collectives" share. */
#ifndef TUI_VIEWS_COLLECTIVES_H
#define TUI_VIEWS_COLLECTIVES_H

#include "tui/view/view.h"

/* The plan of the step whose bytes are shown: after a switch, until the next step has ended, not that which trains. */
const struct run_schedule *collectives_plan(const struct run_model *model);

/* How fast they were, how much compute hid, and who waited: of the last step, the last second and the run. */
void collectives_draw_times(struct canvas canvas, const struct scene *scene);

/* What makes the difference to the paper's volume; returns the rows taken. */
int collectives_draw_theory(struct canvas canvas, const struct scene *scene);

#endif
