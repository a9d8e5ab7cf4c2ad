/* The format of a shard on disk. Numbers are little-endian; head, values and table begin at multiples of 4096 bytes, for O_DIRECT.
 *
 *     head      offset  bytes
 *               0       8      "zlshard\n"
 *               8       4      version
 *               12      4      bytes of a block
 *               16      4      number of this shard
 *               20      4      of how many
 *               24      8      bytes of values
 *               32      8      offset of the table in the file
 *               40      4      ranges
 *               44      4      blocks
 *               48      4      CRC-32C of the table, with its padding
 *               4092    4      CRC-32C of the 4092 bytes before
 *     values    4096    ...    fp32, range after range; zeros up to the next multiple of 4096
 *     table     ...     32     of each range: unit (4), array (4), first element (8), elements (8), offset in the values (8)
 *                       4      of each block: CRC-32C; the last block ends with the padding
 *                              zeros up to the next multiple of 4096, where the file ends
 *
 * The head is written last. The manifest has the head's checksum, the head the table's, the table those of the blocks.
 * So the manifest covers every byte, and a shard of another save is detected. */
#pragma once

#include <stdint.h>

#include "engine/checkpoint/checkpoint.h"

#define SHARD_MAGIC "zlshard\n"

enum {
    CHECKPOINT_VERSION = 1, /* of manifest and shards */
    PAGE = 4096,
    SHARD_HEAD_BYTES = PAGE,
    BLOCK_BYTES = 256 << 10,
    RANGE_BYTES = 32,
    BUFFER_BYTES = STATE_BUFFERS_BYTES / 2, /* of each of the two buffers of a reader or writer */
    BUFFER_BLOCKS = BUFFER_BYTES / BLOCK_BYTES,
    SHARDS_MAX = 4096,
};

struct shard_head {
    uint32_t shard, shards, ranges, blocks, table_crc;
    uint64_t value_bytes, table_offset;
    uint32_t crc; /* the head's own checksum */
};

struct shard_range { uint32_t unit, array; int64_t first, elems; uint64_t offset; };

void shard_head_write(struct shard_head *head, uint8_t page[SHARD_HEAD_BYTES]); /* sets crc */

/* Reads a head and checks it, also against the file's size. Returns what is wrong with it, or NULL. */
const char *shard_head_read(struct shard_head *head, const uint8_t page[SHARD_HEAD_BYTES], uint64_t file_bytes);

uint64_t shard_table_bytes(const struct shard_head *head); /* with padding */
void shard_range_write(const struct shard_range *range, uint8_t at[RANGE_BYTES]);
void shard_range_read(struct shard_range *range, const uint8_t at[RANGE_BYTES]);

static inline uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* ---- manifest.json, beside the shards. Its last line is the checksum of the text before that line ---- */

struct manifest_shard { uint64_t bytes; uint32_t crc; /* of the shard's head */ };

/* Returns the manifest's text; the caller frees. NULL: no memory. */
char *manifest_print(const struct checkpoint_info *info, const struct manifest_shard *shards);

/* Sets all of info but folder, model and has. The caller frees config_json and *shards, also after an error.
 * STATUS_INPUT: the text does not name the file. */
int manifest_parse(struct checkpoint_info *info, struct manifest_shard **shards, const char *text, struct error *err);
