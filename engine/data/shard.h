/* Writes llm.c's token shards, version 1, and reads their heads:
 *
 *     256 int32   20240520, 1, number of tokens, zeros
 *     uint16 each the tokens
 *
 * all little-endian. corpus.h reads the tokens. The writer needs only the memory of a buffer, for any number of tokens. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

enum { SHARD_MAGIC = 20240520, SHARD_VERSION = 1, SHARD_HEAD_BYTES = 1024, SHARD_VOCABULARY_MAX = 65536 };
#define SHARD_TOKENS_MAX INT32_MAX

/* Whether the first bytes of a file are those of a shard of any version. */
bool shard_is(const uint8_t *bytes, size_t count);

/* Reads the number of tokens from a head of SHARD_HEAD_BYTES, or from all bytes of a shorter file. STATUS_INPUT: not a
 * shard, another version, or file_bytes does not agree with the head. */
int shard_read(const uint8_t *head, uint64_t file_bytes, uint64_t *count, struct error *err);

/* Writes one shard PATH, or shards of `most` tokens each, PATH/tokens-000000.bin, PATH/tokens-000001.bin ...
 * The name of a shard ends in ".partial" until the shard is complete. */
struct shard_writer;

/* most 0: one file. A missing folder is made. STATUS_USAGE: the path cannot be written. STATUS_RUN: no memory, or the disk failed. */
int shard_writer_open(struct shard_writer **out, const char *path, uint64_t most, struct error *err);
/* STATUS_USAGE: a token does not fit 16 bits, or there are more tokens than a shard may have. STATUS_RUN: the disk failed. */
int shard_writer_put(struct shard_writer *writer, const int32_t *tokens, size_t count, struct error *err);
/* Ends the last shard. */
int shard_writer_end(struct shard_writer *writer, struct error *err);
int shard_writer_shards(const struct shard_writer *writer); /* number of complete shards */
/* Frees the writer and removes an incomplete shard. */
void shard_writer_close(struct shard_writer *writer);
