/* Reads the blocks of shards, one shard at a time, through two buffers: ascending reads are prefetched. Checks every
 * block when it is read. */
#pragma once

#include "engine/checkpoint/async_file.h"
#include "engine/checkpoint/format.h"

struct shard_table {
    struct shard_head head;
    uint32_t *crcs; /* of each block */
    char path[CHECKPOINT_FOLDER_BYTES + 64];
};

struct reader {
    struct async_file file; /* fd -1 at the start; the owner releases it */
    const struct shard_table *shard; /* the open shard; NULL: none */
    unsigned char *buffers; /* lent */
    struct { int64_t number; /* of the stretch of BUFFER_BYTES in it; -1: none */ bool checked; } buffer[2];
    int64_t damaged; /* after an error: the block with a wrong checksum; -1: another error */
};

void reader_lend(struct reader *reader, void *buffers); /* STATE_BUFFERS_BYTES; NULL takes them back */

/* Reads bytes [offset, offset + bytes) of a shard's values. STATUS_INPUT: they cannot be read, or a block is damaged;
 * the caller adds to the message what the block holds. */
int reader_get(struct reader *reader, const struct shard_table *shard, uint64_t offset, size_t bytes, void *out, struct error *err);

/* Reads and checks the stretch of BUFFER_BYTES with this number. */
int reader_check(struct reader *reader, const struct shard_table *shard, int64_t number, struct error *err);

/* ---- index.c: the index of a checkpoint: the ranges of all shards, sorted by unit, array and first element.
 * Elements are found by binary search, and holes or overlaps are found before training begins. ---- */

struct index_piece { struct shard_range range; int shard; };

struct index { struct index_piece *pieces; size_t count; }; /* all zeros: empty; free() frees the pieces */

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
