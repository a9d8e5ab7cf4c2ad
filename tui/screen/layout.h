/* The overview's layout: numbers in, rectangles out. */
#ifndef TUI_SCREEN_LAYOUT_H
#define TUI_SCREEN_LAYOUT_H

#include "tui/view/view.h"

struct overview_needs {
    int bars_rows;       /* title, bars and legend */
    int timeline_rows;   /* title and lanes; the timeline is as wide as the screen */
    int rows[VIEWS];     /* that a pane wants; 0: as many as there are */
    bool idle[VIEWS];    /* it has nothing to say: only there when it has the focus */
    enum view_id focus;  /* a view with a pane */
};

/* A part that is not shown has columns == 0 and rows == 0. */
struct overview_layout {
    struct rect bars, pane[VIEWS]; /* within the screen less header and footer */
};

void overview_layout(struct overview_layout *layout, int columns, int rows, const struct overview_needs *needs);

#endif
