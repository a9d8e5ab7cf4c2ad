/* The whiteboard: what a lecturer draws to explain ZeRO. Ranks are columns. Each unit has a row, and in each column a *tile*
 * with its parameters, gradients and optimizer state, to scale: one byte a parameter is `scale` columns wide. A rank's shard
 * stands where it lies in the whole, so the columns laid over each other make the full row.
 *
 * Below the tiles: what moves between ranks and tiers now, gathered copies, gradient buckets, saved activations, memory bars;
 * then the operations of the step so far on an axis of moments (begins and ends in order), and a sentence about the newest
 * one. All of it is of the model's present moment. Internal to tui/whiteboard. */
#ifndef TUI_WHITEBOARD_BOARD_H
#define TUI_WHITEBOARD_BOARD_H

#include "engine/observe/cells.h"
#include "tui/view/view.h"

enum { BOARD_UNITS_MAX = 1024, BOARD_LABEL = 8, BOARD_ARRAYS = 3 };

struct board {
    const struct scene *scene;
    int rank;           /* the chosen one: of lanes, figures and the sentence */
    struct progress at; /* of that rank */
    int units;
    struct unit_keep keep[BOARD_UNITS_MAX];
    int width[BOARD_ARRAYS]; /* bytes a parameter of P, G and O where they are not sharded */
    bool sharded[BOARD_ARRAYS];
    enum tier tier[BOARD_ARRAYS]; /* where they are kept between steps */
    int first, ranks;             /* the ranks that are shown */
    int column, tile;             /* screen columns of a rank, and of its tiles */
    int newest;                   /* of rank's operations, the one that began or ended last; -1: none in this step */
    bool newest_ended;
    bool calm; /* live, and steps are too short to follow: what ranks hold between steps is shown */
};

extern const enum category board_categories[BOARD_ARRAYS]; /* of P, G and O */

/* False: no schedule is known yet. */
bool board_init(struct board *board, const struct scene *scene, int columns);
char board_unit_sign(const struct board *board,
                     int unit); /* the last digit of its name's number, or its first letter */

/* A shown rank: its first screen column, and what it holds and does. known: it runs the board's schedule, and no record of its step is
 * missing. */
struct board_rank {
    int rank, x;
    bool known;
    struct progress at;
    struct unit_cell cells[BOARD_UNITS_MAX];
};
void board_rank_init(struct board_rank *of, const struct board *board, int i);

/* tiles.c: columns of array `array` in a tile, from *from to before *end; the labels, and a rank's tiles, of units [top, top +
 * units), each `height` rows. */
void board_span(const struct board *board, int array, int *from, int *end);
void board_unit_labels(struct canvas canvas, int y, int units, int height, int top, const struct board *board);
void board_tiles(struct canvas canvas, int y, int units, int height, int top, const struct board_rank *of,
                 const struct board *board);

/* desk.c: a row each: packets between ranks; then, of a rank: transfers between tiers, gathered copies, buckets, saved activations. */
void board_link(struct canvas canvas, int y, const struct board *board);
bool board_has_tiers(const struct board *board);
void board_tiers(struct canvas canvas, int y, const struct board_rank *of, const struct board *board);
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

/* sentences.c: what happens now, and why, in one or two sentences. */
enum { SENTENCE_ROOM = 400 };
void board_sentence(char out[SENTENCE_ROOM], const struct board *board);

#endif
