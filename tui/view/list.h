/* Lists that one moves in. */
#ifndef TUI_VIEW_LIST_H
#define TUI_VIEW_LIST_H

#include "tui/input/keys.h"
#include "tui/view/view.h"

/* Up, down, pages, first and last, on a list of `items`. False: not such a key. */
bool list_act(int *row, int items, const struct key_row *key);
bool list_act_by(int *row, int items, int page, const struct key_row *key); /* ... by pages of so many rows */

/* The next or previous rank, for views of one rank. False: not such a key. */
bool rank_act(struct view_state *state, const struct scene *scene, const struct key_row *key);

/* A number of the state kept within what there is: [0, items), or 0. */
int list_kept(int row, int items);

/* The first of `rows` that are shown when the user scrolled by `scroll`, kept within what there is. */
int scrolled(int scroll, int items, int rows);

/* The first of the `rows` that are shown, so that the chosen one stands near their middle. */
int list_top(int chosen, int items, int rows);

#endif
