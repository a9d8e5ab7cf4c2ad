/* The parts of the views memory and tiers: tables by category; one rank's device, host and NVMe side by side with arrows
 * between them, the flows as a table, and the tiers of all ranks. */
#pragma once

#include "engine/observe/flows.h"
#include "tui/view/tier_bar.h"

/* memory_table.c: one tier of one rank by category: now, peak, planned, at the tier's peak, reserved. A single table
 * has a row for the pool's free bytes. Of several tables in a column only the first has a head, and none has rows for
 * unused categories. */
enum table_form { TABLE_ALONE, TABLE_FIRST, TABLE_NEXT };
int memory_table_rows(const struct run_model *model, enum tier tier, enum table_form form); /* title and head included */
void memory_table_draw(struct canvas canvas, const struct scene *scene, int rank, enum tier tier, enum table_form form);
/* The device table as a pane, for the fullest rank. */
void memory_table_draw_pane(struct canvas canvas, const struct scene *scene, bool focused);

int tiers_used(const struct memory_scale scales[TIERS]); /* how many tiers any rank uses */

/* The lane of this flow, if an operation runs on it now and can be followed: in slow motion, or when bars show now. NULL: no. */
const struct run_lane *tiers_moving(const struct scene *scene, int rank, enum flow flow);

/* What flows in one direction; for rank -1 the mean over ranks. Computing the figures reads all ranks, so do it once for a
 * screen. */
struct tiers_flow { bool used; struct flow_figures figures; };

/* tiers_picture.c: needs TIERS_PICTURE_ROWS rows; further rows list what each tier holds, by category. */
enum { TIERS_PICTURE_ROWS = 9 };
int tiers_picture_rows(const struct scene *scene, int rank); /* with all categories */
void tiers_draw_picture(struct canvas canvas, const struct scene *scene, int rank, const struct memory_scale scales[TIERS],
                        const struct tiers_flow flows[FLOWS]);

/* tiers_flows.c: draws a title, a head, and a row for each direction. rank -1: the mean over ranks. */
enum { TIERS_FLOWS_ROWS = 2 + FLOWS };
bool tiers_any_flow(const struct run_model *model);
void tiers_draw_flows(struct canvas canvas, const struct scene *scene, int rank, const struct tiers_flow flows[FLOWS], bool focused);
/* One direction in a few words, within `columns`: "device►host 407.4 KiB 13.43 GiB/s  62 %". */
void tiers_draw_brief(struct canvas canvas, int x, int y, int columns, const struct scene *scene, enum flow flow);

/* bars.c: draws the number of a rank and then, in the same row, its bars of the tiers whose bits are set. */
void bars_draw_rank(struct canvas canvas, int y, int rank, enum style style, const struct scene *scene,
                    const struct memory_scale scales[TIERS], uint32_t tiers);
/* A row for each rank with a bar for each tier; if not all ranks fit, the ranks around the chosen one. */
void tiers_draw_ranks(struct canvas canvas, const struct scene *scene, const struct memory_scale scales[TIERS], int chosen);

/* Draws a bar for each rank, with bars of host and NVMe beside it if they are used; if not all ranks fit, the fullest rank and heat rows.
 * Then the legend, and a row for each link between tiers. bars_rows(): how many rows it wants, at most `rows` (but at least one for
 * ranks); bars_flow_rows(): how many of these are for the links. */
void bars_draw(struct canvas canvas, const struct scene *scene);
int bars_rows(const struct run_model *model, int columns, int rows);
int bars_flow_rows(const struct run_model *model);
/* Draws the legend of categories in one row, and that of the plan's mark if `planned`; staging and secondary only if they are used. */
void bars_draw_legend(struct canvas canvas, int y, const struct scene *scene, bool planned);
