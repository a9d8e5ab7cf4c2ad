#include "engine/checkpoint/format.h"

#include <string.h>

#include "engine/base/wire.h"
#include "engine/checkpoint/crc32c.h"

static uint32_t blocks_of(uint64_t value_bytes)
{
    return (uint32_t)((value_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
}

uint64_t shard_table_bytes(const struct shard_head *head)
{
    return whole_pages((uint64_t)head->ranges * RANGE_BYTES + (uint64_t)head->blocks * 4);
}

void shard_head_write(struct shard_head *head, uint8_t page[SHARD_HEAD_BYTES])
{
    memset(page, 0, SHARD_HEAD_BYTES);
    memcpy(page, SHARD_MAGIC, 8);
    uint8_t *at = put_u32(page + 8, CHECKPOINT_VERSION);
    at = put_u32(at, BLOCK_BYTES);
    at = put_u32(at, head->shard);
    at = put_u32(at, head->shards);
    at = put_u64(at, head->value_bytes);
    at = put_u64(at, head->table_offset);
    at = put_u32(at, head->ranges);
    at = put_u32(at, head->blocks);
    put_u32(at, head->table_crc);
    head->crc = crc32c(0, page, SHARD_HEAD_BYTES - 4);
    put_u32(page + SHARD_HEAD_BYTES - 4, head->crc);
}

const char *shard_head_read(struct shard_head *head, const uint8_t page[SHARD_HEAD_BYTES], uint64_t file_bytes)
{
    uint32_t version, block_bytes;
    if (memcmp(page, SHARD_MAGIC, 8) != 0) return "it is no shard of a checkpoint";
    const uint8_t *at = get_u32(page + 8, &version);
    at = get_u32(at, &block_bytes);
    at = get_u32(at, &head->shard);
    at = get_u32(at, &head->shards);
    at = get_u64(at, &head->value_bytes);
    at = get_u64(at, &head->table_offset);
    at = get_u32(at, &head->ranges);
    at = get_u32(at, &head->blocks);
    get_u32(at, &head->table_crc);
    get_u32(page + SHARD_HEAD_BYTES - 4, &head->crc);
    if (head->crc != crc32c(0, page, SHARD_HEAD_BYTES - 4)) return "its head is damaged (bytes 0 to 4095)";
    if (version != CHECKPOINT_VERSION || block_bytes != BLOCK_BYTES)
        return "it is of a later version of the format; use a newer zerolab";
    if (head->value_bytes > file_bytes || head->table_offset != SHARD_HEAD_BYTES + whole_pages(head->value_bytes) ||
        head->blocks != blocks_of(head->value_bytes) || head->table_offset + shard_table_bytes(head) != file_bytes)
        return "its length is not what its head says";
    return NULL;
}

void shard_range_write(const struct shard_range *range, uint8_t out[RANGE_BYTES])
{
    uint8_t *at = put_u32(out, range->unit);
    at = put_u32(at, range->array);
    at = put_i64(at, range->first);
    at = put_i64(at, range->elems);
    put_u64(at, range->offset);
}

void shard_range_read(struct shard_range *range, const uint8_t in[RANGE_BYTES])
{
    const uint8_t *at = get_u32(in, &range->unit);
    at = get_u32(at, &range->array);
    at = get_i64(at, &range->first);
    at = get_i64(at, &range->elems);
    get_u64(at, &range->offset);
}
