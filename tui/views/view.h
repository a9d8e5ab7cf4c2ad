/* Views: pure functions from the state of the run and of the screen to cells. */
#ifndef TUI_VIEWS_VIEW_H
#define TUI_VIEWS_VIEW_H

#include "engine/analyze/model.h"
#include "tui/draw/format.h"
#include "tui/draw/surface.h"

enum { VIEW_COLUMNS_MIN = 80, VIEW_ROWS_MIN = 24 };

enum pane { PANE_MEMORY, PANE_TRAFFIC, PANE_EVENTS, PANE_STEPS, PANE_TEXT, PANE_LOSS, PANES };

/* What the user chose and what the screen itself knows; the run is in the model. */
struct view_state {
    enum units units;
    bool bars_now;          /* bars show this instant, not the fullest one of the last step */
    enum pane focus;
    bool enlarged;
    int scroll;             /* rows scrolled in the focused pane or the help page */
    bool live, readonly;    /* live: keys send commands */
    const char *trace_file; /* where a live run is recorded; NULL: nowhere */
    const char *trouble;    /* why no more records come; NULL: all is well */
    char message[160];      /* answer to the last key; "": none */
    bool playing;           /* replay: time goes on */
    double speed;
};

struct view {
    const char *name, *title;
    void (*draw)(const struct run_model *model, const struct view_state *state, struct surface *surface);
};

extern const struct view view_overview, view_help, view_shortage;

/* "overview", "help", "oom"; NULL: no such view. */
const struct view *view_named(const char *name);
const char *view_names(void);

/* Erases the surface and draws the view, or on a surface under 80x24 what size is needed. */
void view_draw(const struct view *view, const struct run_model *model, const struct view_state *state, struct surface *surface);

#endif
