/* The screen: a header (what the run is, where the cursor is), a view with a lab beside it, and a footer with keys. */
#pragma once

#include "engine/advise/analysis.h"
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

void draw_too_small(struct surface *surface);

/* help.c: the keys of a mode; returns the row below. */
int help_draw_keys(struct canvas canvas, int y, enum key_mode mode);

/* The view, and a lab beside it or in its place. */
void view_draw_body(struct canvas canvas, const struct scene *scene);

/* header.c: four rows, or the two that change. footer.c: the lowest rows; footer_rows(): how many rows the footer
 * needs; footer_key_at(): the key shown at column x (NULL: none). */
void header_draw(struct canvas canvas, const struct scene *scene);

/* The offer of the state is on the screen, and keys answer it. */
bool header_offers(const struct view_state *state);
void footer_draw(struct canvas canvas, const struct scene *scene);
void footer_draw_keys(struct canvas canvas, enum key_mode mode); /* those of a mode, without a scene */
int footer_rows(struct canvas screen, const struct view_state *state);
const struct key_row *footer_key_at(int columns, const struct scene *scene, int x);

/* ---- two.c: two runs on one screen: the same view of both, A above B, and below them
 * the figures that differ. ---- */

struct two {
    struct scene scene[2];            /* footer, view and sizes are those of scene 0 */
    const char *name[2];              /* a file, or the number of a run */
    const struct analysis *analysis;  /* [2]: of all that was read of both */
};

/* Erases the surface and draws both. On a surface under 80x24, and for the help page: as view_draw() of scene 0. */
void two_draw(const struct two *two, struct surface *surface);

/* ---- lab.c: draws a lab: a pane beside the view if there is room for both, else a page below a strip with a
 * picture. ---- */

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

/* ---- overview.c: the overview's layout, a pure function from sizes to rectangles. ---- */

struct overview_needs {
    int bars_rows;       /* title, bars and legend */
    int timeline_rows;   /* title and lanes; the timeline is as wide as the screen */
    int rows[VIEWS];     /* rows that a pane wants; 0: all that are left */
    bool idle[VIEWS];    /* the pane is empty: shown only when it has the focus */
    enum view_id focus;  /* a view with a pane */
};

/* A part that is not shown has columns == 0 and rows == 0. */
struct overview_layout {
    struct rect bars, pane[VIEWS]; /* within the screen without header and footer */
};

void overview_layout(struct overview_layout *layout, int columns, int rows, const struct overview_needs *needs);
