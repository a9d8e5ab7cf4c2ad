/* The blocks of one shard after the other, through two buffers: what is asked for in ascending order is on its way before it is
 * asked for. Every block is checked when it comes in. */
#ifndef ENGINE_CHECKPOINT_READER_H
#define ENGINE_CHECKPOINT_READER_H

#include "engine/checkpoint/async_file.h"
#include "engine/checkpoint/format.h"

struct shard_table {
    struct shard_head head;
    uint32_t *crcs; /* of each block */
    char path[CHECKPOINT_FOLDER_BYTES + 64];
};

struct reader {
    struct async_file file;
    const struct shard_table *shard; /* that is open; NULL: none */
    unsigned char *buffers; /* lent */
    struct { int64_t number; /* which stretch of BUFFER_BYTES it holds; -1: none */ bool checked; } buffer[2];
    int64_t damaged; /* the block whose checksum was wrong, after an error; -1: it was another error */
};

void reader_init(struct reader *reader);
void reader_lend(struct reader *reader, void *buffers); /* STATE_BUFFERS_BYTES; NULL: they are taken back */
void reader_release(struct reader *reader);

/* Bytes [offset, offset + bytes) of a shard's values. STATUS_INPUT: they cannot be read, or are damaged, and which block (it is for
 * the caller to say what that holds). */
int reader_get(struct reader *reader, const struct shard_table *shard, uint64_t offset, size_t bytes, void *out, struct error *err);

/* Brings in and checks the stretch of BUFFER_BYTES with this number. */
int reader_check(struct reader *reader, const struct shard_table *shard, int64_t number, struct error *err);

#endif
