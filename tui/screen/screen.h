/* The screen: a header (what the run is, where the cursor is), a view with a lab beside it, and a footer with keys. */
#ifndef TUI_SCREEN_SCREEN_H
#define TUI_SCREEN_SCREEN_H

#include "tui/view/view.h"

const struct view *view_of(enum view_id id);

/* What keys mean now: LIVE; REPLAY; or both (ALWAYS, see key_find()): a live run that one looks back in. */
enum key_mode view_key_mode(const struct scene *scene);
int view_named(const char *name); /* -1: no such view */
const char *view_names(void);     /* "overview memory ..." */

/* Rows of the header above a view on a screen of so many columns. */
int view_header_rows(const struct view_state *state, int columns);

/* Erases the surface and draws header, view and footer; on a surface under 80x24 what size is needed. */
void view_draw(const struct run_model *model, const struct history *history, const struct view_state *state, struct surface *surface);

/* header.c: four rows, or the two that change. footer.c: the lowest rows; what they need, and the key shown at column x (NULL: none). */
void header_draw(struct canvas canvas, const struct scene *scene);
void footer_draw(struct canvas canvas, const struct scene *scene);
int footer_rows(struct canvas screen, const struct view_state *state);
const struct key_row *footer_key_at(int columns, const struct scene *scene, int x);

#endif
