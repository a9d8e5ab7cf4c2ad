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
    struct { int64_t number; /* of the stretch of values, BUFFER_BYTES long, that it holds; -1: none */ bool checked; } buffer[2];
    int64_t damaged; /* after an error: the block with a wrong checksum; -1: another error */
};

void reader_lend(struct reader *reader, void *buffers); /* STATE_BUFFERS_BYTES; NULL takes them back */

/* Reads bytes [offset, offset + bytes) of a shard's values; out NULL: only checks them. STATUS_INPUT: they cannot be read, or a block
 * is damaged. The caller adds to the message what the block holds. STATUS_RUN: no buffers were lent. */
int reader_get(struct reader *reader, const struct shard_table *shard, uint64_t offset, size_t bytes, void *out, struct error *err);
