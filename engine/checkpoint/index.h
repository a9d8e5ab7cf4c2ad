/* The index of a checkpoint: the ranges of all shards, sorted by unit, array and first element. Elements are found by
 * binary search, and holes or overlaps are found before training begins. */
#ifndef ENGINE_CHECKPOINT_INDEX_H
#define ENGINE_CHECKPOINT_INDEX_H

#include "engine/checkpoint/format.h"

struct index_piece { struct shard_range range; int shard; };

struct index { struct index_piece *pieces; size_t count; }; /* all zeros: empty */

void index_release(struct index *index);

/* Adds the ranges of a shard's table. STATUS_INPUT: a range is outside the model or the shard; the text does not name the file. */
int index_add(struct index *index, const struct model *model, int shard, const struct shard_head *head, const uint8_t *table, struct error *err);

/* Call it after all shards are added: sorts the ranges and sets info->has. STATUS_INPUT: the weights or some of the
 * optimizer's states are missing, or an array does not have every element exactly once. */
int index_complete(struct index *index, struct checkpoint_info *info, struct error *err);

/* The piece that holds an element of a complete index. The next pieces hold the elements after it. */
const struct index_piece *index_find(const struct index *index, int unit, enum state_array array, int64_t first);

/* Describes the contents of a block of a shard for the user: its first range ("weights of block 3"), and "and more" if needed. */
enum { INDEX_NAME_BYTES = 80 };
void index_name_block(const struct index *index, const struct model *model, int shard, int64_t block, char text[INDEX_NAME_BYTES]);

#endif
