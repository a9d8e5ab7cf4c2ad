/* Functions that the files of a rank share: its loop of orders (rank.c), its opening (rank_open.c), its side of the
 * trace (rank_trace.c). */
#ifndef ENGINE_TRAIN_RANK_PARTS_H
#define ENGINE_TRAIN_RANK_PARTS_H

#include "engine/train/rank.h"

/* Collective. After a failure rank_live() closes the parts that were opened. */
int rank_open(struct rank *rank, struct error *err);
/* Closes the checkpoint or file of weights to begin from, if the state has been made from it. */
void rank_close_source(struct rank *rank);

/* Opens the rings, and on rank 0 the director and the writer. Collective: afterwards rank 0's writer drains every
 * ring. */
int rank_open_trace(struct rank *rank, struct error *err);
/* Rank 0 writes the end of the trace, or hands writer and viewers over to the next engine. error: why the run failed,
 * or "". */
void rank_close_trace(struct rank *rank, enum outcome outcome, const char *error);

/* Collective. Rank 0 records the shortage, and the director enters RUN_OUT_OF_MEMORY. */
int rank_short_of_memory(struct rank *rank, const struct zero_shortage *shortage, struct error *err);

#endif
