/* What ranks on several hosts must have in common: a folder for checkpoints, the same text, the same checkpoint. All are
 * collective, give every rank the same result, name a host that differs, and do nothing where the ranks are of one machine. */
#ifndef ENGINE_TRAIN_SHARED_H
#define ENGINE_TRAIN_SHARED_H

#include "engine/train/rank.h"

/* STATUS_USAGE: a host does not see files that rank 0 writes in checkpoint folder `dir` (or where it would be made), so the
 * shards of that host would be lost. */
int shared_check_folder(struct rank *rank, const char *dir, struct error *err);

/* STATUS_INPUT: a host's text, or checkpoint to begin from, is not rank 0's. Called when all ranks have opened them. */
int shared_check_input(struct rank *rank, struct error *err);

/* STATUS_USAGE: the ranks of a host do not fit into its memory. */
int shared_check_room(struct rank *rank, struct error *err);

#endif
