/* The pane of a lab: beside the view where there is room for both, else a page that takes its place. */
#ifndef TUI_SCREEN_LAB_H
#define TUI_SCREEN_LAB_H

#include "tui/view/view.h"

/* Where things stand under the header: numbers in, rectangles out. pane has no columns where it is not shown. */
struct lab_layout { struct rect pane, view; };
bool lab_is_page(const struct view_state *state, int columns); /* it is shown in the place of the view */
struct lab_layout lab_layout(const struct view_state *state, int columns, int rows);

void lab_draw(struct canvas canvas, const struct scene *scene);

/* Rows of the lab's text, and those that a canvas of this size leaves for it. */
int lab_rows(const struct view_state *state, int columns);
int lab_room(int rows);
/* At the smallest size of a screen: whether question and verdict have room on a page each. Hints may scroll. */
bool lab_fits_smallest(const struct lab_pane *pane);
/* The scroll at which what was said last can be read: verdict and explanation, or the newest hint. */
int lab_scroll_to_newest(const struct view_state *state, int columns, int rows);

#endif
