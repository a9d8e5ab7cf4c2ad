/* The parts of the memory view. */
#ifndef TUI_VIEWS_MEMORY_PARTS_H
#define TUI_VIEWS_MEMORY_PARTS_H

#include "tui/views/parts.h"

/* memory_table.c: one tier of one rank by category: now, peak, planned, at the tier's peak, reserved. */
int memory_table_rows(const struct run_model *model, enum tier tier); /* title and head included */
void memory_table_draw(struct canvas canvas, const struct scene *scene, int rank, enum tier tier, bool focused, const char *which);

/* memory_ranks.c: a bar for each rank, as many as there is room for, around the chosen one; of more a heat row of all. */
int memory_ranks_rows(int ranks, int columns, int room); /* title included; at most `room` */
void memory_ranks_draw(struct canvas canvas, const struct scene *scene, int chosen);

#endif
