/* Views are pure functions from the state of the run and of the screen to cells. All show the same moment, the
 * cursor: the model is the run at that moment, and the history is its past (and, when the cursor is in the past, what
 * came after).
 *
 * The screen is a header (the run and the cursor), a view, and a footer with keys. The overview's panes are small
 * versions of the other views. */
#pragma once

#include "engine/lab/pane.h"
#include "engine/observe/history.h"
#include "engine/observe/questions.h"
#include "engine/plan/schedule.h"
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

/* A moment that was marked for a comparison, with all figures that are compared. */
struct marked {
    bool known;
    uint64_t time_ns;
    int rank;                      /* the rank whose memory `held` is */
    bool has_step, has_sent, has_knobs;
    struct run_step step;          /* the last whole step at that moment */
    double sent_bytes;             /* sent in that step, mean over ranks */
    struct config_zero knobs;      /* the knobs of that step's schedule */
    struct run_instant held, peak; /* held: at that moment; peak: at the fullest instant of that step, on the rank that was fullest */
};

/* The user's choices and the state of the screen; the state of the run is in the model. */
struct view_state {
    enum view_id view, focus; /* focus: pane of the overview */
    enum view_id before;      /* the view to which the help page returns */
    enum units units;
    bool large;               /* the whiteboard in its form for the back row */
    bool bars_now;            /* bars show this instant, not the fullest one of the last step */
    int rank;                 /* the rank that views of one rank show */
    int row[VIEWS];           /* for each view: the chosen row of its list, or the rows scrolled */

    /* time */
    bool live, readonly;      /* live: keys send commands */
    bool watches;             /* live: the run takes no commands from this viewer: another drives, or it only watches */
    bool behind;              /* the cursor is in the past; false: it is at the newest record */
    struct {
        uint32_t step, newest;
        double slowness;
    } last;                   /* live: the step that is played slowly (0: none), the newest whole one, and shown time / real time */
    uint64_t motion_ns;       /* data in flight is drawn where it is at this time; 0: at the model's time */
    bool by_ops;              /* the user steps by operations: the last move of the cursor was to a begin or an end of one */
    bool held;                /* live: the cursor stands at the begin of an operation; its end is shown next */
    uint64_t cursor_ns;       /* a view's act() may move it; the app follows */
    uint64_t newest_ns;       /* time of the newest record */
    enum run_state newest;    /* state of the run at newest_ns */
    char later[80]; /* live: the last setting sent within a step, which takes effect at the step's end; "": none */
    /* The timeline's window. Both 0: the whole step under the cursor; to_ns UINT64_MAX: the whole run as far as it is
     * known. */
    uint64_t from_ns, to_ns;
    uint64_t window_least_ns; /* two runs: least length of a step's window, so that both have one scale; 0: one run */
    struct selection selected;
    /* 'v': the span whose totals are shown. It reaches from the anchor, the operation selected when it was opened (anchor_to_ns 0: none
     * yet), to the selected operation. */
    struct { bool open; uint64_t from_ns, to_ns, anchor_from_ns, anchor_to_ns; } span;
    struct marked mark[2];    /* 'c': A and B */
    struct marker markers[MARKERS_MAX];
    int marker_count;
    bool playing;             /* replay: the cursor moves */
    double speed;             /* replay: trace seconds per second of the user; 1: as recorded; < 0: backwards */

    /* the lab that is played, or replayed; NULL: none */
    const struct lab_pane *lab;
    bool lab_focus;           /* the lab takes the keys; on a narrow screen its page is shown */
    bool lab_recorded;        /* the lab is a recorded lesson: n and N turn its pages, and it takes no answers */
    bool lab_hides;           /* hides verdict and explanation until the presenter shows them */
    bool lab_frozen;          /* the screen is frozen */
    int lab_scroll;

    /* text */
    char search[LINE_ROOM], filter[LINE_ROOM];
    struct { enum prompt kind; char label[LINE_ROOM], text[LINE_ROOM]; bool offered; } prompt; /* offered: not typed yet */
    const char *trace_file;   /* the file of the run's trace; NULL: none */
    const char *trouble;      /* why no more records arrive; NULL: no trouble */
    struct { int64_t frames, bytes; } cost; /* frames drawn on this terminal, and bytes sent for them */
    const char *offer;                      /* shown in the header of the overview until it is answered; NULL: none */
    char message[320];        /* the answer to the last key, in as many of the lowest rows as it needs; "": none */
    char command[400];        /* set by a view's act(): commands for the engine, "; " between them; "": none */
};

struct scene { const struct run_model *model; const struct history *history; const struct view_state *state; };

/* The cell of a click, on a canvas of this size. */
struct pointed { int columns, rows, x, y; };

struct view {
    const char *name, *title;
    enum action keys[VIEW_KEYS_MAX]; /* actions of the view's own keys, which the footer shows first */
    /* Draws the view over its canvas: the whole screen without header and footer. NULL: drawn as its pane. */
    void (*draw)(struct canvas canvas, const struct scene *scene);
    /* Draws the view as a pane of the overview, with its title row; NULL: no pane. */
    void (*pane)(struct canvas canvas, const struct scene *scene, bool focused);
    int (*pane_rows)(const struct scene *scene); /* rows the pane wants, title included; NULL: all that are left */
    /* Acts on a key of the view: moves in lists, zooms, opens prompts, changes `state` (to which scene->state points).
     * False: not a key of this view; the app then takes the key's usual action. NULL: the view has no keys. */
    bool (*act)(struct view_state *state, const struct scene *scene, const struct key_row *key);
    /* Acts on a click on its canvas. NULL: ignores clicks. */
    void (*point)(struct view_state *state, const struct scene *scene, const struct pointed *at);
};

#define VIEW(ID, name) extern const struct view view_##name;
#include "tui/view/views.def"
#undef VIEW

/* Marks the moment of this model and history as A or B (side 0, 1): moments.c. */
void moments_mark(struct view_state *state, int side, uint64_t time_ns, const struct run_model *model, const struct history *history);

/* What happens at the scene's moment, and why, in one or two sentences; "": no schedule is known. */
void whiteboard_sentence(char *out, size_t room, const struct scene *scene);

/* ---- moving in lists ---- */

/* Moves *row by the keys up, down, page, first and last, in a list of `items`. False: another key. */
bool list_act(int *row, int items, const struct key_row *key);
bool list_act_by(int *row, int items, int page, const struct key_row *key); /* pages of `page` rows; key with argument: half pages */

/* Changes state->rank by the keys for next and previous rank, for views of one rank. False: another key. */
bool rank_act(struct view_state *state, const struct scene *scene, const struct key_row *key);
/* The same; the keys that move in a list change the rank, too. */
bool ranks_act(struct view_state *state, const struct scene *scene, const struct key_row *key);

/* Draws the title of a view that needs a schedule, and that none has arrived yet. */
void draw_untold(struct canvas canvas, bool focused, const char *title);

/* row, limited to [0, items); 0 if there are no items. */
int list_kept(int row, int items);

/* The first visible item when the user scrolled by `scroll`, limited so that the `rows` visible rows stay filled. */
int scrolled(int scroll, int items, int rows);

/* The first of `rows` visible items, so that the chosen item is near the middle. */
int list_top(int chosen, int items, int rows);

/* ---- shown.c: which step a screen shows: the step under the cursor. While a run goes on or a recording plays, steps too short to follow
 * are replaced by one whole step, which stays for two seconds. ---- */

uint64_t shown_now(const struct scene *scene); /* the newest time of model and history */
bool shown_moves(const struct scene *scene);   /* a live run that goes on, or a recording that plays */
/* The step to show; NULL: none has begun. */
const struct history_step *shown_step(const struct scene *scene);
/* The newest whole step that had ended at time_ns; NULL: none is kept. */
const struct history_step *shown_whole_at(const struct history *history, uint64_t time_ns);

/* ---- the filter of '\': a line of words: "rank 2" or "rank 0-3", "lane compute" or "lane comm" (a prefix
 * of a lane's name, or its short name); the remaining words are a text that must occur. A view ignores parts that it
 * has no use for. ---- */

struct filter {
    int first_rank, last_rank; /* all ranks: 0 and INT_MAX */
    uint32_t lanes;            /* bit 1 << lane: the lane is shown */
    char text[80];             /* "": any */
};

struct filter filter_of(const char *line);
bool filter_shows_lane(const struct filter *filter, enum lane lane);
bool filter_shows_text(const struct filter *filter, const char *text); /* ignores case */
bool text_contains(const char *text, const char *part);                /* ignores case; false for an empty part */
