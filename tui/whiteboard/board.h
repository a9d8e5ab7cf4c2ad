/* The whiteboard: what a lecturer draws to explain ZeRO. Ranks are columns. Each unit has a row, and in each column a *tile*
 * with its parameters, gradients and optimizer state, to scale: one byte per parameter is `scale` screen columns wide.
 * Each rank's shard is drawn at its position in the unit, so the shards of all ranks together fill the row.
 *
 * Below the tiles: what moves between ranks and tiers now, gathered copies, gradient buckets, saved activations, memory bars;
 * then the operations of the step so far on an axis of moments (begins and ends in order), and a sentence about the newest
 * one. All of them show the model's present moment. Internal to tui/whiteboard. */
#pragma once

#include "engine/observe/cells.h"
#include "tui/view/view.h"

enum { BOARD_UNITS_MAX = 1024, BOARD_LABEL = 8, BOARD_ARRAYS = 3, BOARD_COLUMNS_MAX = 8, BOARD_ROWS_MAX = 128 };

/* Neighbours that are drawn as one: ranks in a column (without the chosen rank, which has a column of its own), or units in a row. */
struct board_group {
    int first, count;
};

struct board {
    const struct scene *scene;
    int rank;           /* the chosen one, which lanes, figures and the sentence are about */
    struct progress at; /* where that rank stands */
    int units;
    struct unit_keep keep[BOARD_UNITS_MAX];
    int width[BOARD_ARRAYS]; /* bytes a parameter of P, G and O where they are not sharded */
    bool sharded[BOARD_ARRAYS];
    unsigned tiers[BOARD_ARRAYS]; /* where they are kept between steps: bits of enum tier */
    unsigned char tier[BOARD_UNITS_MAX][BOARD_ARRAYS]; /* by unit: the tier of the array's largest buffer */
    bool divided[BOARD_ARRAYS]; /* a divider stands before the array in a tile, with the letter of its tier */
    int scale;                  /* screen columns for each byte per parameter */
    int ranks;                    /* how many columns are shown, each for a rank or a group of ranks */
    int shards;                   /* ranks of a shard group */
    bool boxed;                   /* nodes have boxes, with a row above them for their names */
    int above;                    /* rows above the tiles */
    struct board_group group[BOARD_COLUMNS_MAX];
    int column, tile;             /* widths in screen columns: of a rank's column, and of its tiles with dividers */
    int newest;                   /* operation of `rank` that began or ended last; -1: none in this step */
    bool newest_ended;
    bool worked_on[BOARD_UNITS_MAX]; /* units on which the newest operation works; board_array_of() gives the array */
    bool calm; /* live, and steps are too short to follow: the tiles show what ranks hold between steps */
};

extern const enum category board_categories[BOARD_ARRAYS]; /* of P, G and O */

/* False: no schedule is known yet. */
bool board_init(struct board *board, const struct scene *scene, int columns);
char board_unit_sign(const struct board *board,
                     int unit); /* the last digit of its name's number, or its first letter */

/* A shown rank: its first screen column, and what it holds and does. For a group it is the rank that holds most device memory. known: the
 * rank runs the board's schedule, and no record of its step is missing. */
struct board_rank {
    int rank, x;
    struct board_group group;
    int members;  /* of the group, without the chosen rank */
    bool unequal; /* members hold different numbers of bytes */
    bool known;
    struct progress at;
    struct unit_cell cells[BOARD_UNITS_MAX];
};

/* figures.c. board_held() sets the bytes that a rank holds of a category in all tiers; false: no record of the category has arrived.
 * board_figures() draws the chosen rank's bytes per parameter. board_head() draws the name of a column's rank or group, and the bytes
 * that it holds on the device (of a group: those of its rank with most). */
bool board_held(const struct run_rank *rank, enum category category, uint64_t *bytes);
void board_figures(struct canvas canvas, int y, const struct board *board);
void board_head(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);

/* tiles.c: draws a rank in the form for the back row of a lecture hall, in `rows` rows. Each array is a band as wide as the tile, its
 * height to scale; below the bands stands their sum, in bytes per parameter, in large figures. The first column also draws the labels. */
void board_bands(struct canvas canvas, int y, int rows, const struct board_rank *of, const struct board *board);

/* groups.c: chooses which ranks share a column and which units share a row. `fit`: how many columns fit beside each other.
 * Up to 8 ranks have a column each; if not all fit, a part of them is shown. With more ranks, the chosen rank has the first column, and
 * groups of all ranks (of whole nodes, if there are enough) have the others.
 * If not all units fit into `rows` rows, the unit in use and its neighbours have a row each, and the units before and
 * after them form groups. If rows are left, heights are to scale: the largest unit is the tallest. */
int board_columns_wanted(const struct board *board);
void board_group_ranks(struct board *board, int fit);
/* A rank's device memory as the board shows it: if calm, at the fullest instant of its last step; else now. */
const struct run_instant *board_instant(const struct board *board, int rank);
struct board_row {
    struct board_group units;
    int y, height; /* in screen rows; y 0: the first row of the tiles */
};
struct board_rows {
    int count, used; /* used: how many screen rows they take together */
    struct board_row row[BOARD_ROWS_MAX];
};
void board_group_units(struct board_rows *out, int rows, const struct board *board);

/* tiles.c. board_span() gives the columns [*from, *end) of an array within a tile. The others draw the labels of the rows, and the tiles of
 * one rank. */
void board_span(const struct board *board, int array, int *from, int *end);
void board_unit_labels(struct canvas canvas, int y, const struct board_rows *rows, const struct board *board);
void board_tiles(struct canvas canvas, int y, const struct board_rows *rows, const struct board_rank *of,
                 const struct board *board);

/* legend.c. board_draw_marks() draws each mark with its meaning, for the help page, and returns the row below. board_legend() draws, in
 * `rows` rows from y on, the marks that are on the board; the board's tiles end above row `end`. */
int board_draw_marks(struct canvas canvas, int y);
void board_legend(struct canvas canvas, int end, int y, int rows, const struct board *board);

/* Sets edge[] to the screen columns in which the vertical lines of the nodes' boxes stand, and returns their number. box[i]: index of the
 * first rank column to the right of edge i. */
enum { BOARD_EDGES_MAX = BOARD_COLUMNS_MAX + 1 };
int board_edges(const struct board *board, int edge[BOARD_EDGES_MAX], int box[BOARD_EDGES_MAX]);
struct progress board_progress(const struct run_model *model, int rank); /* where a rank stands */

/* desk.c. board_links(): how many rows the links between ranks take: 1, or 2 with several nodes (links within a node, links between nodes).
 * board_link() draws what moves on them, and returns the row below; the row of links within a node is the lower edge of the boxes.
 * The others draw, for one rank: in `rows` rows the transfers between tier `below` and the tier under it; in one row each the
 * gathered copies, the buckets, the saved activations. */
int board_links(const struct board *board);
int board_link(struct canvas canvas, int y, const struct board *board);
bool board_has_transfers(const struct board *board, enum tier below);
void board_transfers(struct canvas canvas, int y, int rows, enum tier below, const struct board_rank *of,
                     const struct board *board);
void board_copies(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);
void board_buckets(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);
void board_saved(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);

/* moments.c. board_lanes(): how many lanes the schedule uses. board_moments() draws the title, the numbers of operations, and a row for
 * each lane that fits into `rows`; it returns how many rows it used. sentence: the one below, which may have bytes of the plan. */
int board_lanes(const struct board *board);
int board_moments(struct canvas canvas, int y, int rows, const char *sentence, const struct board *board);
void board_find_newest(struct board *board); /* sets `newest` and `newest_ended` */
/* "F forward  G gather ...": the marks of all operations of the step. */
void board_marks(char *out, size_t room, const struct board *board);

/* sentences.c. board_array_of(): the array of a tile on which an operation works; -1: none. board_find_worked_on() sets `worked_on`.
 * board_sentence() says in one or two sentences what happens now, and why. */
int board_array_of(const struct op *op);
bool board_has_begun(const struct board *board, const struct progress *at); /* whether the newest operation has begun on the rank of `at` */
void board_find_worked_on(struct board *board);
enum { SENTENCE_ROOM = 512 };
void board_sentence(char out[SENTENCE_ROOM], const struct board *board);

/* observed.c: draws the ranks of another program's trace, which has no schedule. False: nothing was drawn, as the
 * trace is zerolab's own, or has no ranks yet. */
bool board_observed(struct canvas canvas, const struct scene *scene);
