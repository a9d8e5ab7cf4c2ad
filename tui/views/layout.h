/* The overview's layout: numbers in, rectangles out. */
#ifndef TUI_VIEWS_LAYOUT_H
#define TUI_VIEWS_LAYOUT_H

#include "tui/views/view.h"

struct overview_needs {
    int bars_rows;    /* title, bars and legend */
    int traffic_rows, memory_rows;
    enum pane focus;
    bool enlarged;
};

/* A part that is not shown has columns == 0 and rows == 0. */
struct overview_layout {
    bool fits; /* false: below 80x24, nothing is shown */
    struct rect header, bars, footer, pane[PANES];
};

void overview_layout(struct overview_layout *layout, int columns, int rows, const struct overview_needs *needs);

#endif
