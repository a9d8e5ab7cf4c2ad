#include "engine/trace/chunk.h"

#include <zlib.h>
#include <zstd.h>

uint32_t chunk_crc(const void *bytes, size_t count)
{
    return (uint32_t)crc32_z(0, bytes, count);
}

bool chunk_append(struct chunk *chunk, const void *record, struct trace_head head)
{
    if (head.bytes > CHUNK_BYTES_MAX - chunk->raw.count) return false;
    if (!bytes_append(&chunk->raw, record, head.bytes)) return false;
    struct chunk_head *at = &chunk->head;
    if (!at->records || head.time_ns < at->first_ns) at->first_ns = head.time_ns;
    if (!at->records || head.time_ns > at->last_ns) at->last_ns = head.time_ns;
    at->records++;
    return true;
}

#define HEAD_FIELDS(F)                                                                                                 \
    F(u32, flags)                                                                                                      \
    F(u32, stored_bytes) F(u32, raw_bytes) F(u32, step) F(u32, records) F(u64, first_ns) F(u64, last_ns) F(u32, crc)

void chunk_head_write(const struct chunk_head *head, void *bytes)
{
    uint8_t *at = put_u32(bytes, CHUNK_MAGIC);
#define PUT(type, name) at = put_##type(at, head->name);
    HEAD_FIELDS(PUT)
    put_u32(at, chunk_crc(bytes, CHUNK_HEAD_BYTES - 4));
}

enum chunk_verdict chunk_head_read(struct chunk_head *head, const void *bytes)
{
    uint32_t magic, own_crc;
    const uint8_t *at = get_u32(bytes, &magic);
#define GET(type, name) at = get_##type(at, &head->name);
    HEAD_FIELDS(GET)
    get_u32(at, &own_crc);
    bool plain = !(head->flags & CHUNK_ZSTD);
    if (magic != CHUNK_MAGIC || own_crc != chunk_crc(bytes, CHUNK_HEAD_BYTES - 4)) return CHUNK_DAMAGED;
    if (head->stored_bytes > CHUNK_BYTES_MAX || head->raw_bytes > CHUNK_BYTES_MAX) return CHUNK_DAMAGED;
    if (plain ? head->raw_bytes != head->stored_bytes : head->raw_bytes / CHUNK_RATIO_MAX > head->stored_bytes)
        return CHUNK_DAMAGED;
    return CHUNK_GOOD;
}

/* Appends the raw bytes to out, compressed if that saves an eighth or more. False: nothing was appended. On chunks
 * of records level 2 is a little faster than level 1, and smaller; levels below 0 save little time and cost much room. */
static bool append_compressed(struct chunk *chunk, ZSTD_CCtx *zstd, struct bytes *out)
{
    enum { LEVEL = 2, WORTHWHILE = 256 };
    size_t raw = chunk->raw.count;
    if (raw < WORTHWHILE || !bytes_reserve(out, ZSTD_compressBound(raw))) return false;
    size_t stored = ZSTD_compressCCtx(zstd, out->at + out->count, out->room - out->count, chunk->raw.at, raw, LEVEL);
    if (ZSTD_isError(stored) || stored > raw - raw / 8 || raw / CHUNK_RATIO_MAX > stored) return false;
    out->count += stored;
    chunk->head.flags |= CHUNK_ZSTD;
    return true;
}

bool chunk_seal(struct chunk *chunk, void *zstd, struct bytes *out)
{
    size_t start = out->count;
    if (!bytes_reserve(out, CHUNK_HEAD_BYTES)) return false;
    out->count += CHUNK_HEAD_BYTES;
    if (!(zstd && append_compressed(chunk, zstd, out)) && !bytes_append(out, chunk->raw.at, chunk->raw.count)) {
        out->count = start;
        return false;
    }
    uint8_t *head = out->at + start, *stored = head + CHUNK_HEAD_BYTES;
    chunk->head.stored_bytes = (uint32_t)(out->at + out->count - stored);
    chunk->head.raw_bytes = (uint32_t)chunk->raw.count;
    chunk->head.crc = chunk_crc(stored, chunk->head.stored_bytes);
    chunk_head_write(&chunk->head, head);
    chunk->head = (struct chunk_head){.step = chunk->head.step};
    chunk->raw.count = 0;
    return true;
}

void chunk_release(struct chunk *chunk)
{
    bytes_release(&chunk->raw);
    *chunk = (struct chunk){0};
}

enum chunk_verdict chunk_unpack(const struct chunk_head *head, const void *stored, struct bytes *room,
                                const uint8_t **records)
{
    if (head->crc != chunk_crc(stored, head->stored_bytes)) return CHUNK_DAMAGED;
    *records = stored;
    if (!(head->flags & CHUNK_ZSTD)) return CHUNK_GOOD;
    room->count = 0;
    if (!bytes_reserve(room, head->raw_bytes)) return CHUNK_DAMAGED;
    size_t raw = ZSTD_decompress(room->at, head->raw_bytes, stored, head->stored_bytes);
    if (ZSTD_isError(raw) || raw != head->raw_bytes) return CHUNK_DAMAGED;
    room->count = raw;
    *records = room->at;
    return CHUNK_GOOD;
}

void stream_head_write(uint32_t flags, void *bytes)
{
    memcpy(bytes, STREAM_MAGIC, 8);
    put_u32(put_u32((uint8_t *)bytes + 8, STREAM_VERSION), flags);
}

int stream_head_read(const void *bytes, uint32_t *flags, struct error *err)
{
    uint32_t version;
    get_u32(get_u32((const uint8_t *)bytes + 8, &version), flags);
    if (memcmp(bytes, STREAM_MAGIC, 8)) return error_set(err, STATUS_INPUT, "not a zerolab trace");
    if (version != STREAM_VERSION)
        return error_set(err, STATUS_INPUT,
                         "a trace of version %u, this program reads version %d; use the zerolab that wrote it", version,
                         STREAM_VERSION);
    return 0;
}
