/* Views: pure functions from the state of the run and of the screen to cells. All show the same moment, the cursor: the
 * model is the run as it was then, and the history is its past (and, when one looks back, what came after).
 *
 * The screen is a header (what the run is, where the cursor is), a view, and a footer with keys. The overview's panes are
 * the other views in small. */
#ifndef TUI_VIEW_VIEW_H
#define TUI_VIEW_VIEW_H

#include "engine/lab/pane.h"
#include "engine/observe/history.h"
#include "engine/observe/questions.h"
#include "tui/draw/format.h"
#include "tui/draw/surface.h"
#include "tui/input/keys.h"

enum { VIEW_COLUMNS_MIN = 80, VIEW_ROWS_MIN = 24 };

enum view_id {
#define VIEW(ID, name) VIEW_##ID,
#include "tui/view/views.def"
#undef VIEW
    VIEWS
};

enum { MARKERS_MAX = 32, LINE_ROOM = 80, VIEW_KEYS_MAX = 8 };

struct marker { uint64_t time_ns; char name[24]; };

/* An event that the user picked on the timeline (and other views follow). */
struct selection { bool known; int rank; enum lane lane; uint32_t step, op; };

/* A line that the user is typing: search, filter, the value of a knob, the name of a marker, a command, a lab's prediction. */
enum prompt { PROMPT_NONE, PROMPT_SEARCH, PROMPT_FILTER, PROMPT_VALUE, PROMPT_MARKER, PROMPT_COMMAND, PROMPT_PREDICTION, PROMPT_STEP };

/* A moment that was marked to be compared with another, with all that is compared. */
struct marked {
    bool known;
    uint64_t time_ns;
    int rank;                      /* whose `held` it is */
    bool has_step, has_sent, has_knobs;
    struct run_step step;          /* the last whole one by then */
    double sent_bytes;             /* ... by a mean rank */
    struct config_zero knobs;      /* ... of its schedule */
    struct run_instant held, peak; /* then; of the fullest rank, at the fullest instant of that step */
};

/* What the user chose and what the screen itself knows; the run is in the model. */
struct view_state {
    enum view_id view, focus; /* focus: pane of the overview */
    enum view_id before;      /* the view that the help page was opened from, and closes to */
    enum units units;
    bool bars_now;            /* bars show this instant, not the fullest one of the last step */
    int rank;                 /* the rank that views of one rank show */
    int row[VIEWS];           /* each view's own: the chosen row of a list, or rows scrolled */

    /* time */
    bool live, readonly;      /* live: keys send commands */
    bool watches;             /* ... which the run does not take from us: another viewer drives, or we came to watch */
    bool behind;              /* the cursor stands in the past; false: it is at the newest record */
    uint64_t cursor_ns;       /* a view's act() may move it; the app follows */
    uint64_t newest_ns;       /* of the newest record */
    /* The timeline's window; both 0: the step under the cursor, whole; to UINT64_MAX: the whole run, as far as it is known. */
    uint64_t from_ns, to_ns;
    struct selection selected;
    /* 'v': totals of this window, which reaches from what it was opened on (its anchor; to 0: nothing yet) to what is chosen */
    struct { bool open; uint64_t from_ns, to_ns, anchor_from_ns, anchor_to_ns; } span;
    struct marked mark[2];    /* 'c': A and B */
    struct marker markers[MARKERS_MAX];
    int marker_count;
    bool playing;             /* replay: time goes on */
    double speed;             /* ... so fast; < 0: backwards */

    /* a lab that is played, or was; NULL: none */
    const struct lab_pane *lab;
    bool lab_focus;           /* keys are the lab's; on a narrow screen also: its page is shown */
    bool lab_recorded;        /* it is a lesson of a recording: n and N turn its pages, and it takes no answers */
    bool lab_hides;           /* verdict and explanation, until they are asked for */
    bool lab_frozen;          /* the screen stands still */
    int lab_scroll;

    /* text */
    char search[LINE_ROOM], filter[LINE_ROOM];
    struct { enum prompt kind; char label[LINE_ROOM], text[LINE_ROOM]; bool offered; } prompt; /* offered: nobody typed the text yet */
    const char *trace_file;   /* where the run is recorded; NULL: nowhere */
    const char *trouble;      /* why no more records come; NULL: all is well */
    struct { int64_t frames, bytes; } cost; /* of this screen */
    const char *offer;        /* in the header, until a key is pressed; NULL: none */
    char message[320];        /* answer to the last key, in as many of the lowest rows as it needs; "": none */
    char command[160];        /* set by a view's act(): to be sent to the engine; "": nothing */
};

struct scene { const struct run_model *model; const struct history *history; const struct view_state *state; };

/* Where one pointed: a cell of a canvas of this size. */
struct pointed { int columns, rows, x, y; };

struct view {
    const char *name, *title;
    enum action keys[VIEW_KEYS_MAX]; /* what its own keys do, for the footer, which shows them first */
    /* The view over its canvas: the whole screen without header and footer. NULL: as its pane. */
    void (*draw)(struct canvas canvas, const struct scene *scene);
    /* In small, as a pane of the overview, whose title row it draws too; NULL: not there. */
    void (*pane)(struct canvas canvas, const struct scene *scene, bool focused);
    int (*pane_rows)(const struct scene *scene); /* rows the pane wants, title included; NULL: as many as there are */
    /* A key that is the view's own: moves in lists, zooms, opens prompts, changes `state` (which scene->state points to).
     * False: not its key; the app does what the key does everywhere. NULL: all of them. */
    bool (*act)(struct view_state *state, const struct scene *scene, const struct key_row *key);
    /* A click on its canvas. NULL: nothing to point at. */
    void (*point)(struct view_state *state, const struct scene *scene, const struct pointed *at);
};

#define VIEW(ID, name) extern const struct view view_##name;
#include "tui/view/views.def"
#undef VIEW

/* Marks A or B (side 0, 1) where this model and history stand: compare.c. */
void compare_mark(struct view_state *state, int side, uint64_t time_ns, const struct run_model *model, const struct history *history);

/* ---- lists that one moves in ---- */

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
