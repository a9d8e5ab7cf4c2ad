/* Chunks: the unit of writing, checking and seeking (layout in format.h). A struct chunk collects encoded records;
 * chunk_seal() turns it into bytes for a file or a socket. A reader calls chunk_head_read(), then chunk_unpack(). */
#pragma once

#include "engine/base/bytes.h"
#include "engine/base/error.h"
#include "engine/trace/format.h"
#include "engine/trace/record.h"

struct chunk_head {
    uint32_t flags, stored_bytes, raw_bytes, step, records;
    uint64_t first_ns, last_ns;
    uint32_t crc;
};

/* A chunk that is being filled. An all-zero struct is an empty chunk. */
struct chunk {
    struct chunk_head head; /* flags, step, records and times are kept; the rest is set by sealing */
    struct bytes raw;
};

/* Appends one encoded record. False: no memory, or the chunk is full (CHUNK_BYTES_MAX); nothing was changed. */
bool chunk_append(struct chunk *chunk, const void *record, struct trace_head head);

/* Appends the finished chunk to *out and empties `chunk`, except for head.step. zstd: a ZSTD_CCtx; NULL: no compression. False: no
 * memory; nothing was changed. */
bool chunk_seal(struct chunk *chunk, void *zstd, struct bytes *out);
void chunk_release(struct chunk *chunk);

uint32_t chunk_crc(const void *bytes, size_t count);

enum chunk_verdict { CHUNK_GOOD, CHUNK_DAMAGED };

/* Reads and checks CHUNK_HEAD_BYTES. */
enum chunk_verdict chunk_head_read(struct chunk_head *head, const void *bytes);
void chunk_head_write(const struct chunk_head *head, void *bytes);

/* Checks the stored bytes. *records then points into `stored`, or into *room if they were compressed. */
enum chunk_verdict chunk_unpack(const struct chunk_head *head, const void *stored, struct bytes *room, const uint8_t **records);

/* The stream's head. Reading returns 0, or an error status if this version cannot read the stream. */
void stream_head_write(uint32_t flags, void *bytes);
int stream_head_read(const void *bytes, uint32_t *flags, struct error *err);
