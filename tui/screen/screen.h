/* The screen: a header (what the run is, where the cursor is), a view with a lab beside it, and a footer with keys. */
#pragma once

#include "engine/advise/analysis.h"
#include "tui/view/view.h"

const struct view *view_of(enum view_id id);

/* The mode of the keys: LIVE; REPLAY, also after the end of a live run; or ALWAYS (see key_find()), if the user moved a live run's cursor
 * into the past. */
enum key_mode view_key_mode(const struct scene *scene);
int view_named(const char *name); /* -1: no such view */
const char *view_names(void);     /* "overview memory ..." */

/* How many rows the header above a view has, on a screen of `columns` columns. */
int view_header_rows(const struct view_state *state, int columns);

/* Erases the surface and draws header, view and footer; on a surface under 80x24, draw_too_small(). */
void view_draw(const struct run_model *model, const struct history *history, const struct view_state *state, struct surface *surface);

void draw_too_small(struct surface *surface); /* says which size is needed */

/* help.c: draws the keys of a mode; returns the row below. */
int help_draw_keys(struct canvas canvas, int y, enum key_mode mode);

/* Draws the view, and a lab beside it or in its place. */
void view_draw_body(struct canvas canvas, const struct scene *scene);

/* header.c: draws four rows, or in a canvas of two only learning and state. footer.c: draws the lowest rows. footer_rows(): how many rows
 * the footer needs; footer_key_at(): the key shown at column x (NULL: none). */
void header_draw(struct canvas canvas, const struct scene *scene);

/* True: the header shows the offer of the state, and keys answer it. */
bool header_offers(const struct view_state *state);
void footer_draw(struct canvas canvas, const struct scene *scene);
void footer_draw_keys(struct canvas canvas, enum key_mode mode); /* the keys of a mode, without a scene */
int footer_rows(struct canvas screen, const struct view_state *state);
const struct key_row *footer_key_at(int columns, const struct scene *scene, int x);

/* ---- two.c: two runs on one screen: the same view of both, A above B, and below them
 * the figures that differ. ---- */

struct two {
    struct scene scene[2];            /* of A and B; footer, view and sizes follow scene 0 */
    const char *name[2];              /* a file, or the number of a run */
    const struct analysis *analysis;  /* [2]: of all records read so far of A and B */
};

/* Erases the surface and draws both runs. On a surface under 80x24, and for the help page, it draws scene 0 as view_draw() does. */
void two_draw(const struct two *two, struct surface *surface);

/* ---- lab.c: draws a lab: a pane beside the view if there is room for both, else a page below a strip with a
 * picture. ---- */

/* The rectangles of pane and view below the header; a pure function. A pane that is not shown has no columns. On a narrow screen the pane
 * is a page, and the view above it a strip: whiteboard or timeline in small; for other views the memory bars. */
struct lab_layout { struct rect pane, view; };
bool lab_is_page(const struct view_state *state, int columns); /* the pane is a page; of the view at most a strip is shown */
bool lab_strip_is_view(const struct view_state *state);        /* false: the strip has memory bars */
struct lab_layout lab_layout(const struct view_state *state, int columns, int rows);

void lab_draw(struct canvas canvas, const struct scene *scene);

/* lab_rows(): how many rows the lab's text takes; lab_room(): how many rows a canvas of `rows` rows has for the text. */
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
