/* Below the picture of the shards, where there is room: a row for each rank. */
#ifndef TUI_VIEWS_SHARD_RANKS_H
#define TUI_VIEWS_SHARD_RANKS_H

#include "tui/views/view.h"

/* Of the ranks that run `plan`; as many as there is room for, around the chosen one. */
void shard_ranks_draw(struct canvas canvas, const struct scene *scene, const struct run_schedule *plan, int chosen);

#endif
