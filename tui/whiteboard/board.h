/* The whiteboard: what a lecturer draws to explain ZeRO. Ranks are columns. Each unit has a row, and in each column a *tile*
 * with its parameters, gradients and optimizer state, to scale: `scale` is the width in columns of one byte per parameter.
 * Each rank's shard is drawn at its position in the unit, so the shards of all ranks together fill the row.
 *
 * Below the tiles: what moves between ranks and tiers now, gathered copies, gradient buckets, saved activations, memory bars;
 * then the operations of the step so far on an axis of moments (begins and ends in order), and a sentence about the newest
 * one. All of it is of the model's present moment. Internal to tui/whiteboard. */
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
    int rank;           /* the chosen one: of lanes, figures and the sentence */
    struct progress at; /* of that rank */
    int units;
    struct unit_keep keep[BOARD_UNITS_MAX];
    int width[BOARD_ARRAYS]; /* bytes a parameter of P, G and O where they are not sharded */
    bool sharded[BOARD_ARRAYS];
    unsigned tiers[BOARD_ARRAYS]; /* where they are kept between steps: bits of enum tier */
    unsigned char tier[BOARD_UNITS_MAX][BOARD_ARRAYS]; /* the same by unit: where most bytes of it are */
    bool divided[BOARD_ARRAYS]; /* a divider stands before the array in a tile, with the letter of its tier */
    int scale;                  /* screen columns of a byte a parameter */
    int ranks;                    /* the columns: of a rank each, or of a group */
    int shards;                   /* ranks of a shard group */
    bool boxed;                   /* nodes have boxes, with a row above them for their names */
    int above;                    /* rows above the tiles */
    struct board_group group[BOARD_COLUMNS_MAX];
    int column, tile;             /* screen columns of a rank, and of its tiles with their dividers */
    int newest;                   /* of rank's operations, the one that began or ended last; -1: none in this step */
    bool newest_ended;
    bool worked_on[BOARD_UNITS_MAX]; /* units of the newest operation; of which array: board_array_of() */
    bool calm; /* live, and steps are too short to follow: what ranks hold between steps is shown */
};

extern const enum category board_categories[BOARD_ARRAYS]; /* of P, G and O */

/* False: no schedule is known yet. */
bool board_init(struct board *board, const struct scene *scene, int columns);
char board_unit_sign(const struct board *board,
                     int unit); /* the last digit of its name's number, or its first letter */

/* A shown rank: its first screen column, and what it holds and does. Of a group: the rank that holds most device memory. known: it runs
 * the board's schedule, and no record of its step is missing. */
struct board_rank {
    int rank, x;
    struct board_group group;
    int members;  /* of the group, without the chosen rank */
    bool unequal; /* members hold different numbers of bytes */
    bool known;
    struct progress at;
    struct unit_cell cells[BOARD_UNITS_MAX];
};

/* figures.c: bytes that a rank holds of a category in all tiers (false: no record of it has come); bytes a parameter of the chosen
 * rank; the rank or the group of a column, and its bytes on the device. */
bool board_held(const struct run_rank *rank, enum category category, uint64_t *bytes);
void board_figures(struct canvas canvas, int y, const struct board *board);
void board_head(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);

/* tiles.c: a rank in the form for the back row: a band for each array, as wide as the tile, its height to scale; below them the sum of bytes
 * a parameter in large figures. In `rows` rows, with the labels of all columns. */
void board_bands(struct canvas canvas, int y, int rows, const struct board_rank *of, const struct board *board);

/* groups.c: which ranks and which units stand in groups.
 * From 9 ranks on, the chosen rank has the first column, and groups of the others, by node where there are nodes, share the rest; up
 * to 8 ranks, as many as fit stand alone. `fit` columns fit beside each other.
 * Where not all units fit into `rows` rows, the unit in use and its neighbours have a row each, and the units before and
 * behind them are groups. Rows of a board with room are to scale: the largest unit is the tallest. */
int board_columns_wanted(const struct board *board);
void board_group_ranks(struct board *board, int fit);
const struct run_instant *board_instant(const struct board *board, int rank); /* of the device; the shown one */
struct board_row {
    struct board_group units;
    int y, height; /* y: from the first row on */
    bool small;    /* less than half a row */
};
struct board_rows {
    int count, used; /* used: screen rows of all */
    struct board_row row[BOARD_ROWS_MAX];
};
void board_group_units(struct board_rows *out, int rows, const struct board *board);

/* tiles.c: columns of array `array` in a tile, from *from to before *end; the labels, and a rank's tiles, of the rows. */
void board_span(const struct board *board, int array, int *from, int *end);
void board_unit_labels(struct canvas canvas, int y, const struct board_rows *rows, const struct board *board);
void board_tiles(struct canvas canvas, int y, const struct board_rows *rows, const struct board_rank *of,
                 const struct board *board);

/* legend.c: for the help page, each mark with its meaning (returns the row below); in `rows` rows, the marks on the board, whose tiles
 * end above row `end`. */
int board_draw_marks(struct canvas canvas, int y);
void board_legend(struct canvas canvas, int end, int y, int rows, const struct board *board);

/* Edges of the boxes of nodes: the columns of the screen before, between and behind the ranks of a node. Returns how many; box[i]: the
 * first column of ranks in the box behind edge i. */
enum { BOARD_EDGES_MAX = BOARD_COLUMNS_MAX + 1 };
int board_edges(const struct board *board, int edge[BOARD_EDGES_MAX], int box[BOARD_EDGES_MAX]);
struct progress board_progress(const struct run_model *model, int rank); /* where a rank stands */

/* desk.c: packets between ranks, in a row for each kind of link: one, or two where there are nodes (returns the row below), of which the
 * first is the lower edge of their boxes. Then, of a
 * rank: in `rows` rows the transfers between a tier and the next one; in a row each gathered copies, buckets, saved activations. */
int board_links(const struct board *board);
int board_link(struct canvas canvas, int y, const struct board *board);
bool board_has_transfers(const struct board *board, enum tier below);
void board_transfers(struct canvas canvas, int y, int rows, enum tier below, const struct board_rank *of,
                     const struct board *board);
void board_copies(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);
void board_buckets(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);
void board_saved(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);

/* moments.c: the title, the numbers of operations, then a row for each lane that fits. Returns the rows used. board_lanes(): how many lanes
 * the step uses. */
int board_lanes(const struct board *board);
int board_moments(struct canvas canvas, int y, int rows, const struct board *board);
void board_find_newest(struct board *board); /* sets `newest` and `newest_ended` */
/* "F forward  G gather ...": the marks of all operations of the step. */
void board_marks(char *out, size_t room, const struct board *board);

/* sentences.c: the array of a tile that an operation works on (-1: none), and the units (`worked_on`); what happens now, and why, in one or
 * two sentences. */
int board_array_of(const struct op *op);
bool board_has_begun(const struct board *board, const struct progress *at); /* the newest operation, on a rank */
void board_find_worked_on(struct board *board);
enum { SENTENCE_ROOM = 512 };
void board_sentence(char out[SENTENCE_ROOM], const struct board *board);

/* observed.c: the ranks of another program's trace, which has no schedule. False: it is not such a trace; nothing was drawn. */
bool board_observed(struct canvas canvas, const struct scene *scene);
