/* The parts of the timeline: its window of time, the content of each column of each lane, the layout on the screen,
 * and the drawing. Window, columns, marks and layout are pure functions and tested as such. */
#pragma once

#include "engine/observe/totals.h"
#include "tui/view/view.h"

/* ---- the window: which time is shown (timeline_window.c) ----------------------------------------------------------- */

enum { WINDOW_LEAST_NS = 2000 };

/* to_ns > from_ns. Each column is as much time as another. While one steps by operations, the time between two moments gets the same
 * number of columns, however long it is; WINDOW_MOMENTS of them fit on the screen, or some more. */
enum { WINDOW_MOMENTS = 35, WINDOW_MOMENTS_MAX = 2 * WINDOW_MOMENTS };
struct window {
    uint64_t from_ns, to_ns;
    bool by_moments;
    uint64_t at_ns;                             /* by_moments: the cursor; what comes behind it is not shown */
    uint64_t moment_ns[WINDOW_MOMENTS_MAX + 1]; /* rising, from from_ns to to_ns */
};

/* The window of the state: the user's own, the whole run, or the step under the cursor. */
struct window timeline_window(const struct scene *scene);
bool timeline_stands(const struct scene *scene, const struct history_step *step); /* one steps through its operations */
/* The axis of a step's moments on a rank, or on all (-1), up to the cursor. */
struct window timeline_moments(const struct scene *scene, const struct history_step *step, int rank);
/* The operation of the rank that began or ended last, as a selection; known false: none in this step. */
struct selection timeline_newest(const struct scene *scene, const struct history_step *step, int rank);
bool timeline_is_own(const struct scene *scene); /* the user zoomed, panned or chose something */
/* The step that is shown: the one in the middle of the user's own window; else the step under the cursor, or in a run
 * that moves on the last whole step. NULL: none yet. */
const struct history_step *timeline_step(const struct scene *scene);

uint64_t window_time(const struct window *window, int columns, int column);     /* where a column begins */
int window_column(const struct window *window, int columns, uint64_t time_ns); /* -1: before, columns: after the window */
int timeline_cursor(const struct scene *scene, const struct window *window, int columns); /* -1: not visible */
/* Scales the window by `factor` (< 1: zooms in); around_ns keeps its column. The length is kept within what can be
 * drawn. */
struct window window_zoomed(struct window window, double factor, uint64_t around_ns);
struct window window_panned(struct window window, double share);
struct window window_centred(struct window window, uint64_t time_ns);
/* Moves the window as little as possible to show [from_ns, to_ns), or at least its beginning. */
struct window window_showing(struct window window, uint64_t from_ns, uint64_t to_ns);
/* The window of a whole run. Its end is rounded up, so that the scale of a growing run does not change with every
 * step. */
struct window window_of_run(uint64_t first_ns, uint64_t last_ns);

/* ---- marks: the activities of a lane (timeline_marks.c) -------------------------------------------------------- */

/* Capital letters stand for work, the small ones of the same work for waiting. None is a letter of memory (engine/base/tier.h). */
enum mark {
    MARK_IDLE,
    MARK_UNKNOWN, /* idle: the lane did nothing, or did not exist; unknown: records were lost or not kept */
    MARK_FORWARD,
    MARK_BACKWARD,
    MARK_UPDATE,
    MARK_GATHER,
    MARK_PREFETCH,
    MARK_REDUCE,
    MARK_ALL_REDUCE,
    MARK_REFRESH,
    MARK_SECONDARY,
    MARK_QUANTIZE,
    MARK_DEQUANTIZE,
    MARK_AGREE,
    MARK_OTHER,
    MARK_OFFLOAD,
    MARK_FETCH,
    MARK_SWAP_IN,
    MARK_SWAP_OUT,
    MARK_WAIT, /* + enum stall */
    MARKS = MARK_WAIT + STALLS
};

/* Within an operation: work; waiting for the slowest rank; waiting because of a paced link or slow motion. */
enum texture { TEXTURE_WORK, TEXTURE_PEERS, TEXTURE_PACED, TEXTURES };

/* The look of a box: its letter (of a copy between tiers: an arrow) comes first, then its colour; without colours its
 * pattern, in ASCII its sign. */
struct mark_look {
    uint32_t letter, pattern;
    char sign;
    enum style style;
    const char *name, *brief, *help;
};
struct mark_look mark_look(enum mark mark);
uint32_t texture_sign(enum texture texture, bool ascii);
enum mark mark_of_busy(enum lane lane, enum busy busy);
enum mark mark_of_op(enum op_kind kind, enum phase phase, bool prefetch);

/* ---- columns: what each column of a lane shows (timeline_columns.c) ------------------------------------------------- */

enum { COLUMN_NONE = -1, COLUMN_SUMS = -2 }; /* COLUMN_SUMS: too many spans to read each; the history's sums were read */

/* The mark that took most of the column's time; idling counts as a mark. */
struct column {
    enum mark mark;
    enum texture texture;
    int64_t span;        /* with most of that time; COLUMN_NONE: idle, or a wait that has not ended; or COLUMN_SUMS */
    uint64_t busy_ns;    /* of all operations in this column */
};

void timeline_columns(struct column out[], int columns, const struct scene *scene, int rank, enum lane lane,
                      const struct window *window);

/* Why the lane waited before this span; also for a span that has not ended, whose record does not say so yet. */
struct stall_reason timeline_wait(const struct scene *scene, int rank, const struct span *span);
uint64_t span_end(const struct scene *scene, const struct span *span);
/* NULL: not kept; op -1: none. */
const struct span *span_of_op(const struct history *history, int rank, enum lane lane, uint32_t step, int op);
/* If the lane's newest span has ended and its step has not: the reason why its next operation waits, and since when. */
struct stall_reason timeline_pending(const struct scene *scene, int rank, enum lane lane, uint64_t *since_ns);

/* ---- layout (timeline_layout.c) ------------------------------------------------------------------------------------- */

/* Parts that are not shown have no rows. Titles belong to their parts. */
struct timeline_layout {
    struct rect steps, ticks, curve, lanes, details, legend;
    bool heat;                 /* one row for each rank; the chosen rank has its lanes */
    int first_rank, rank_count; /* the ranks that are shown */
    int lane_count, lane_rows, gap_rows;
    uint32_t lane_mask;        /* as in struct timeline_needs */
};

/* Content to show: ranks [first, first + count), of each rank the lanes whose bits are set, and all rows of the legend. */
struct timeline_needs { int first_rank, rank_count, chosen; uint32_t lanes; int legend_rows; };

void timeline_layout(struct timeline_layout *layout, int columns, int rows, const struct timeline_needs *needs);
/* Row of a rank's lane within layout->lanes; with heat rows, a rank that is not chosen has only one; -1: not shown. */
int timeline_row(const struct timeline_layout *layout, int chosen, int rank, enum lane lane);

enum { TIMELINE_GUTTER = 9 }; /* columns of names at the left */

/* ---- drawing: each part into its own rows; time begins after the gutter --------------------------------------------- */

void timeline_draw_steps(struct canvas canvas, const struct scene *scene, const struct window *window);
void timeline_draw_ticks(struct canvas canvas, const struct scene *scene, const struct window *window);
void timeline_draw_curve(struct canvas canvas, const struct scene *scene, enum tier tier, const struct window *window);
void timeline_draw_lane(struct canvas canvas, const struct scene *scene, const struct window *window, int rank, enum lane lane);
void timeline_draw_heat(struct canvas canvas, const struct scene *scene, const struct window *window, int rank, enum lane lane);
/* Returns the rows that it needs; the canvas may have fewer, or none. */
int timeline_draw_legend(struct canvas canvas, const struct scene *scene);
void timeline_draw_details(struct canvas canvas, const struct scene *scene);
/* "prefetch hid 83 % of gather time; 3 stalls before blocks, 1.2 ms", for the step that is shown; its overlap if it
 * has no gathers. At most `columns`. */
struct text timeline_verdict(int columns, const struct scene *scene);

/* ---- the selection and the keys (timeline_keys.c) -------------------------------------------------------------------- */

const struct span *timeline_selected(const struct scene *scene); /* NULL: none is, or it is no longer kept */
bool timeline_act(struct view_state *state, const struct scene *scene, const struct key_row *key);
/* Selects the operation of a lane that runs at time_ns, else the nearest one in the window. */
void timeline_choose(struct view_state *state, const struct scene *scene, int rank, enum lane lane, uint64_t time_ns);
