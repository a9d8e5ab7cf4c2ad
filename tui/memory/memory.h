/* The parts of the memory view. */
#ifndef TUI_MEMORY_MEMORY_H
#define TUI_MEMORY_MEMORY_H

#include "tui/view/tier_bar.h"

/* memory_table.c: one tier of one rank by category: now, peak, planned, at the tier's peak, reserved. A single table
 * has a row for the pool's free bytes. Of several tables in a column only the first has a head, and none has rows for
 * unused categories. */
enum table_form { TABLE_ALONE, TABLE_FIRST, TABLE_NEXT };
int memory_table_rows(const struct run_model *model, enum tier tier, enum table_form form); /* title and head included */
void memory_table_draw(struct canvas canvas, const struct scene *scene, int rank, enum tier tier, enum table_form form);
/* The device table as a pane, for the fullest rank; -1: no memory is known yet. */
void memory_table_draw_pane(struct canvas canvas, const struct scene *scene, int rank, bool focused);

#endif
