/* Where every element of a checkpoint is: all ranges of all shards, sorted by unit, array and first element. So asking for
 * elements is a binary search, and a hole or an overlap is found before anything is trained on it. */
#ifndef ENGINE_CHECKPOINT_INDEX_H
#define ENGINE_CHECKPOINT_INDEX_H

#include "engine/checkpoint/format.h"

struct index_piece { struct shard_range range; int shard; };

struct index { struct index_piece *pieces; size_t count; }; /* all zeros: empty */

void index_release(struct index *index);

/* The ranges of a shard, from its table. STATUS_INPUT: one is not of this model, or not in this shard; without the file's name. */
int index_add(struct index *index, const struct model *model, int shard, const struct shard_head *head, const uint8_t *table, struct error *err);

/* Once all are there: sorts them, sets info->has, and checks that the weights are there, of what the optimizer keeps all or
 * nothing, of each every element once. STATUS_INPUT. */
int index_complete(struct index *index, struct checkpoint_info *info, struct error *err);

/* The piece that an element is in, of a complete index; those that follow go on from there. */
const struct index_piece *index_find(const struct index *index, int unit, enum state_array array, int64_t first);

/* What lies in a block of a shard, as the user knows it: "weights of block 3", the first of it, "and more". */
enum { INDEX_NAME_BYTES = 80 };
void index_name_block(const struct index *index, const struct model *model, int shard, int64_t block, char text[INDEX_NAME_BYTES]);

#endif
