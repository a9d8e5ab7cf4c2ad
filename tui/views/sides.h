/* Drawing that several files of this folder share. First a table of two sides: a row has a name, both values and their
 * difference (n/a if one is not known). */
#pragma once

#include "engine/advise/why.h"
#include "engine/observe/progress.h"
#include "tui/view/view.h"

struct side_row {
    const char *name;
    enum { KIND_BYTES, KIND_TIME, KIND_COUNT, KIND_REAL } kind;
    bool known[2];
    double value[2];
};

/* Columns of a name; fewer on a narrow screen, so that two tables fit side by side. */
enum { NAME_COLUMNS = 11 };
int name_columns(const struct canvas *canvas);

/* "+1.234 MB", "-5.006 MB", "same"; kind: of a side_row. */
struct text sides_difference(enum units units, int kind, double change);

int sides_columns(const struct canvas *canvas, enum units units); /* of the table */
void sides_draw(struct canvas canvas, int y, enum units units, const struct side_row *row, enum style style);
/* heads: the heads of the columns name, first side, second side, difference. */
void sides_draw_head(struct canvas canvas, int y, enum units units, const char *const heads[4]);

/* ---- schedule_detail.c: draws one operation of a schedule in full: its kind, buffers and pieces, its dependencies
 * and dependents, its last measured times, and its present state. ---- */

void schedule_detail_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int op);

/* "done", "running", "wait #12"; of one rank. */
struct text state_text(const struct progress *at, int op);

/* ---- why_details.c ---- */

/* Draw the lower part: the terms of the chosen category (a wait has none) and what its knobs would change; or what a switch changed. */
void why_draw_tenant(struct canvas canvas, const struct scene *scene, const struct why *why, const char *name,
                     const struct why_tenant *tenant);
void why_draw_switch(struct canvas canvas, const struct scene *scene, const struct why_switch *change);
