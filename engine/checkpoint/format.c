#include "engine/checkpoint/format.h"

#include <string.h>

#include "engine/base/wire.h"
#include "engine/checkpoint/crc32c.h"

uint64_t shard_table_bytes(const struct shard_head *head)
{
    return whole_pages((uint64_t)head->ranges * RANGE_BYTES + (uint64_t)head->blocks * 4);
}

#define HEAD_FIELDS(F) \
    F(u32, shard) F(u32, shards) F(u64, value_bytes) F(u64, table_offset) F(u32, ranges) F(u32, blocks) F(u32, table_crc)
#define RANGE_FIELDS(F) F(u32, unit) F(u32, array) F(i64, first) F(i64, elems) F(u64, offset)
#define PUT(type, name) at = put_##type(at, from->name);
#define GET(type, name) at = get_##type(at, &to->name);

void shard_head_write(struct shard_head *head, uint8_t page[SHARD_HEAD_BYTES])
{
    memset(page, 0, SHARD_HEAD_BYTES);
    memcpy(page, SHARD_MAGIC, 8);
    uint8_t *at = put_u32(page + 8, CHECKPOINT_VERSION);
    const struct shard_head *from = head;
    at = put_u32(at, BLOCK_BYTES);
    HEAD_FIELDS(PUT)
    head->crc = crc32c(0, page, SHARD_HEAD_BYTES - 4);
    put_u32(page + SHARD_HEAD_BYTES - 4, head->crc);
}

const char *shard_head_read(struct shard_head *head, const uint8_t page[SHARD_HEAD_BYTES], uint64_t file_bytes)
{
    struct shard_head *to = head;
    uint32_t version, block_bytes;
    if (memcmp(page, SHARD_MAGIC, 8) != 0) return "it is no shard of a checkpoint";
    const uint8_t *at = get_u32(page + 8, &version);
    at = get_u32(at, &block_bytes);
    HEAD_FIELDS(GET)
    get_u32(page + SHARD_HEAD_BYTES - 4, &head->crc);
    if (head->crc != crc32c(0, page, SHARD_HEAD_BYTES - 4)) return "its head is damaged (bytes 0 to 4095)";
    if (version != CHECKPOINT_VERSION || block_bytes != BLOCK_BYTES)
        return "it is of a later version of the format; use a newer zerolab";
    if (head->value_bytes > file_bytes || head->table_offset != SHARD_HEAD_BYTES + whole_pages(head->value_bytes) ||
        head->blocks != (head->value_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES ||
        head->table_offset + shard_table_bytes(head) != file_bytes)
        return "its length is not what its head says";
    return NULL;
}

void shard_range_write(const struct shard_range *from, uint8_t at[RANGE_BYTES])
{
    RANGE_FIELDS(PUT)
}

void shard_range_read(struct shard_range *to, const uint8_t at[RANGE_BYTES])
{
    RANGE_FIELDS(GET)
}
