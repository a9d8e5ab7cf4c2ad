/* Draws a lab: a pane beside the view if there is room for both, else a page below a strip with a picture. */
#ifndef TUI_SCREEN_LAB_H
#define TUI_SCREEN_LAB_H

#include "tui/view/view.h"

/* The rectangles of pane and view below the header; a pure function. A pane that is not shown has no columns. Above a page
 * the view is a strip: whiteboard or timeline in small, in other views the memory bars. */
struct lab_layout { struct rect pane, view; };
bool lab_is_page(const struct view_state *state, int columns); /* of the view there is a strip at most */
bool lab_strip_is_view(const struct view_state *state);        /* false: the strip has memory bars */
struct lab_layout lab_layout(const struct view_state *state, int columns, int rows);

void lab_draw(struct canvas canvas, const struct scene *scene);

/* lab_rows(): rows of the lab's text; lab_room(): rows that a canvas of this size has for the text. */
int lab_rows(const struct view_state *state, int columns);
int lab_room(int rows);
/* Whether question and verdict each fit one page on the smallest screen (80x24). Hints may scroll. */
bool lab_fits_smallest(const struct lab_pane *pane);
/* The scroll position that shows the newest text: verdict and explanation, or the newest hint. */
int lab_scroll_to_newest(const struct view_state *state, int columns, int rows);

#endif
