/* Inside of a rank's life: what it does in the middle (rank.c), how it begins (rank_open.c), its end of the trace
 * (rank_trace.c). */
#ifndef ENGINE_TRAIN_RANK_PARTS_H
#define ENGINE_TRAIN_RANK_PARTS_H

#include "engine/train/rank.h"

/* Collective. On failure what was opened stays, for rank_live() to close. */
int rank_open(struct rank *rank, struct error *err);
/* What it was resumed from, once the state has been made from it. */
void rank_close_source(struct rank *rank);

/* Rings; at rank 0 the director and the writer too. Collective: after it every ring is being drained. */
int rank_open_trace(struct rank *rank, struct error *err);
/* Rank 0 writes the end, or leaves writer and viewers to the next engine. error: of a run that failed, else "". */
void rank_close_trace(struct rank *rank, enum outcome outcome, const char *error);

/* Rank 0 tells of it, and the director pauses. */
int rank_short_of_memory(struct rank *rank, const struct zero_shortage *shortage, struct error *err);

#endif
