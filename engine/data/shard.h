/* Token shards as llm.c reads and writes them, version 1:
 *
 *     256 int32   20240520, 1, number of tokens, zeros
 *     uint16 each the tokens
 *
 * all little-endian. A corpus reads them; this is their head, and a writer that needs a buffer's memory however many tokens
 * there are. */
#ifndef ENGINE_DATA_SHARD_H
#define ENGINE_DATA_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

enum { SHARD_MAGIC = 20240520, SHARD_VERSION = 1, SHARD_HEAD_BYTES = 1024, SHARD_VOCABULARY_MAX = 65536 };
#define SHARD_TOKENS_MAX INT32_MAX

/* Whether the first bytes of a file are those of a shard, of whatever version. */
bool shard_is(const uint8_t *bytes, size_t count);

/* How many tokens a file has behind its head, of which all SHARD_HEAD_BYTES are given, or the whole of a shorter file.
 * STATUS_INPUT: not a shard, of another version, or longer or shorter than it says. */
int shard_read(const uint8_t *head, uint64_t file_bytes, uint64_t *count, struct error *err);

/* Shards one after another: "PATH", or in the folder PATH tokens-000000.bin, tokens-000001.bin ... of `most` tokens each.
 * A shard has the name it is known by when it is whole; until then ".partial" stands behind it. */
struct shard_writer;

/* most 0: one file. The folder is made if it is not there. */
int shard_writer_open(struct shard_writer **out, const char *path, uint64_t most, struct error *err);
/* STATUS_USAGE: a token that 16 bits cannot hold, or more tokens than one shard may have. */
int shard_writer_put(struct shard_writer *writer, const int32_t *tokens, size_t count, struct error *err);
/* Ends the last shard. */
int shard_writer_end(struct shard_writer *writer, struct error *err);
int shard_writer_shards(const struct shard_writer *writer); /* that were ended */
/* Frees; a shard that was not ended is removed. */
void shard_writer_close(struct shard_writer *writer);

#endif
