/* The parts of the timeline: its window of time, the content of each column of each lane, the layout on the screen,
 * and the drawing. Window, columns, marks and layout are pure functions and tested as such. */
#pragma once

#include "engine/observe/totals.h"
#include "tui/view/view.h"

/* ---- the window: which time is shown (timeline_window.c) ----------------------------------------------------------- */

enum { WINDOW_LEAST_NS = 2000 };

/* The interval that is shown; to_ns > from_ns. All columns cover the same time. by_moments: instead, each interval between two successive
 * moments (begins and ends of operations) has the same number of columns; WINDOW_MOMENTS or some more of them fit on the screen. */
enum { WINDOW_MOMENTS = 35, WINDOW_MOMENTS_MAX = 2 * WINDOW_MOMENTS };
struct window {
    uint64_t from_ns, to_ns;
    bool by_moments;
    uint64_t at_ns;                             /* by_moments: time of the cursor; later operations are not shown */
    uint64_t moment_ns[WINDOW_MOMENTS_MAX + 1]; /* rising, from from_ns to to_ns */
};

/* The window to show: the user's own, the whole run, or a step (shown_step()), by moments where timeline_stands(). */
struct window timeline_window(const struct scene *scene);
/* The axis shows moments: the user steps by operations, or the run has paused or is stuck within the step. */
bool timeline_stands(const struct scene *scene, const struct history_step *step);
/* The window by moments of a step up to the cursor: the moments of one rank, or of all (-1). */
struct window timeline_moments(const struct scene *scene, const struct history_step *step, int rank);
/* The rank's operation that began or ended last before the cursor, as a selection; known false: none in this step. */
struct selection timeline_newest(const struct scene *scene, const struct history_step *step, int rank);
bool timeline_is_own(const struct scene *scene); /* the user zoomed, panned or chose something */
/* The step that is shown: the one in the middle of the user's own window; without such a window, and for the whole run, shown_step().
 * NULL: none yet. */
const struct history_step *timeline_step(const struct scene *scene);

uint64_t window_time(const struct window *window, int columns, int column);     /* where a column begins */
int window_column(const struct window *window, int columns, uint64_t time_ns); /* -1: before, columns: after the window */
int timeline_cursor(const struct scene *scene, const struct window *window, int columns); /* -1: not visible */
/* Scales the window by `factor` (< 1: zooms in); around_ns keeps its column. The window is at least WINDOW_LEAST_NS long. */
struct window window_zoomed(struct window window, double factor, uint64_t around_ns);
struct window window_panned(struct window window, double share); /* share: of its length; < 0: to earlier times */
struct window window_centred(struct window window, uint64_t time_ns);
/* Moves the window as little as possible to show [from_ns, to_ns), or at least its beginning. */
struct window window_showing(struct window window, uint64_t from_ns, uint64_t to_ns);
/* The window of a whole run. Its end is rounded up, so that the scale of a growing run does not change with every
 * step. */
struct window window_of_run(uint64_t first_ns, uint64_t last_ns);

/* ---- marks: the activities of a lane (timeline_marks.c) -------------------------------------------------------- */

/* A mark's letter is a capital for work, and small for waiting for that work. None is the letter of a memory category
 * (engine/base/tier.h). */
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

/* What a column within an operation shows: work; waiting for the slowest rank; waiting because of a paced link or slow motion. */
enum texture { TEXTURE_WORK, TEXTURE_PEERS, TEXTURE_PACED, TEXTURES };

/* The look of a box: its first column has its letter (for a copy between tiers: an arrow). Its colour fills the rest; without colours its
 * pattern does, in ASCII its sign. */
struct mark_look {
    uint32_t letter, pattern;
    char sign;
    enum style style;
    const char *name, *brief, *help;
};
struct mark_look mark_look(enum mark mark);
uint32_t texture_sign(enum texture texture, bool ascii);
enum mark mark_of_busy(enum busy busy);
enum mark mark_of_op(enum op_kind kind, enum phase phase, bool prefetch);

/* ---- columns: what each column of a lane shows (timeline_columns.c) ------------------------------------------------- */

enum { COLUMN_NONE = -1, COLUMN_SUMS = -2 }; /* COLUMN_SUMS: too many spans to read each; the history's sums were read */

/* The mark that took most of the column's time; idling counts as a mark. */
struct column {
    enum mark mark;
    enum texture texture;
    int64_t span;        /* the span with most of that time; COLUMN_NONE: idle, or a wait that has not ended; or COLUMN_SUMS */
    uint64_t busy_ns;    /* of all operations in this column */
};

void timeline_columns(struct column out[], int columns, const struct scene *scene, int rank, enum lane lane,
                      const struct window *window);

/* Why the lane waited before this span. For a span that has not ended, whose record has no reason yet, its dependencies tell. */
struct stall_reason timeline_wait(const struct scene *scene, int rank, const struct span *span);
uint64_t span_end(const struct scene *scene, const struct span *span);
/* The span of operation `op` of a step. NULL: it is not kept, or op is -1. */
const struct span *span_of_op(const struct history *history, int rank, enum lane lane, uint32_t step, int op);
/* Why the lane's next operation of this step waits, and since when. STALL_NONE: one runs, none is left, or it waits for nothing. */
struct stall_reason timeline_pending(const struct scene *scene, int rank, enum lane lane, uint64_t *since_ns);

/* ---- layout (timeline_layout.c) ------------------------------------------------------------------------------------- */

/* A part that is not shown has no rows. The rows of a part include its title. */
struct timeline_layout {
    struct rect steps, ticks, curve, lanes, details, legend;
    bool heat;                 /* one row for each rank; the chosen rank has its lanes */
    int first_rank, rank_count; /* the ranks that are shown */
    int lane_count, lane_rows, gap_rows;
    uint32_t lane_mask;        /* as in struct timeline_needs */
};

/* What there is to show: ranks [first, first + count), the lanes whose bits are set, and the rows that the legend needs. */
struct timeline_needs { int first_rank, rank_count, chosen; uint32_t lanes; int legend_rows; };

void timeline_layout(struct timeline_layout *layout, int columns, int rows, const struct timeline_needs *needs);
/* Row of a rank's lane within layout->lanes; -1: not shown. With layout->heat, all lanes of a rank that is not chosen have the same row. */
int timeline_row(const struct timeline_layout *layout, int chosen, int rank, enum lane lane);

enum { TIMELINE_GUTTER = 9 }; /* columns of names at the left */

/* ---- drawing: each part into its own rows; time begins after the gutter --------------------------------------------- */

void timeline_draw_steps(struct canvas canvas, const struct scene *scene, const struct window *window);
void timeline_draw_ticks(struct canvas canvas, const struct scene *scene, const struct window *window);
void timeline_draw_curve(struct canvas canvas, const struct scene *scene, enum tier tier, const struct window *window);
void timeline_draw_lane(struct canvas canvas, const struct scene *scene, const struct window *window, int rank, enum lane lane);
void timeline_draw_heat(struct canvas canvas, const struct scene *scene, const struct window *window, int rank, enum lane lane);
/* Returns how many rows the legend needs; the canvas may have fewer, or none. */
int timeline_draw_legend(struct canvas canvas, const struct scene *scene);
void timeline_draw_details(struct canvas canvas, const struct scene *scene);
/* "prefetch hid 83 % of gather time; 3 waits for gathers, 1.2 ms", for the step that is shown. For a step without gathers, the overlap
 * of communication and compute. At most `columns` long. */
struct text timeline_verdict(int columns, const struct scene *scene);

/* ---- the selection and the keys (timeline_keys.c) -------------------------------------------------------------------- */

const struct span *timeline_selected(const struct scene *scene); /* NULL: none is, it is no longer kept, or the window does not show it */
bool timeline_act(struct view_state *state, const struct scene *scene, const struct key_row *key);
/* Selects the operation of a lane that runs at time_ns, else the nearest one in the window. */
void timeline_choose(struct view_state *state, const struct scene *scene, int rank, enum lane lane, uint64_t time_ns);
