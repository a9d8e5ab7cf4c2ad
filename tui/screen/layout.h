/* The overview's layout: a pure function from sizes to rectangles. */
#ifndef TUI_SCREEN_LAYOUT_H
#define TUI_SCREEN_LAYOUT_H

#include "tui/view/view.h"

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

#endif
