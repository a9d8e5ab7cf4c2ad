/* The screen: a header (what the run is, where the cursor is), a view with a lab beside it, and a footer with keys. */
#ifndef TUI_SCREEN_SCREEN_H
#define TUI_SCREEN_SCREEN_H

#include "tui/view/view.h"

const struct view *view_of(enum view_id id);

/* The mode of the keys: LIVE, REPLAY, or ALWAYS (see key_find()) in a live run with its cursor in the past. */
enum key_mode view_key_mode(const struct scene *scene);
int view_named(const char *name); /* -1: no such view */
const char *view_names(void);     /* "overview memory ..." */

/* Rows of the header above a view on a screen of so many columns. */
int view_header_rows(const struct view_state *state, int columns);

/* Erases the surface and draws header, view and footer; on a surface under 80x24, the size that is needed. */
void view_draw(const struct run_model *model, const struct history *history, const struct view_state *state, struct surface *surface);

/* The view, and a lab beside it or in its place. */
void view_draw_body(struct canvas canvas, const struct scene *scene);

/* header.c: four rows, or the two that change. footer.c: the lowest rows; footer_rows(): how many rows the footer
 * needs; footer_key_at(): the key shown at column x (NULL: none). */
void header_draw(struct canvas canvas, const struct scene *scene);

/* The offer of the state is on the screen, and keys answer it. */
bool header_offers(const struct view_state *state);
void footer_draw(struct canvas canvas, const struct scene *scene);
int footer_rows(struct canvas screen, const struct view_state *state);
const struct key_row *footer_key_at(int columns, const struct scene *scene, int x);

#endif
