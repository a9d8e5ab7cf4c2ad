/* The buffer of newest records. Chunks are numbered from 0 on; only the last one grows, the others never change. A
 * reader copies the records that it returns, so that they stay valid when the buffer drops their chunk. */
#include "engine/trace/record_buffer.h"

#include <string.h>

#include "engine/trace/format.h"
#include "engine/trace/latest_records.h"
#include "engine/trace/source_kind.h"

enum { CHUNK_FULL_BYTES = 256 << 10, DROPPED_SHARE = 16 };

struct kept_chunk {
    struct bytes records;
    uint32_t step, flags; /* as in a file (format.h) */
};

/* Overhead of a chunk: its entry, and the allocator's bytes. */
enum { CHUNK_OWN_BYTES = sizeof(struct kept_chunk) + 2 * sizeof(void *) };

struct record_buffer {
    struct kept_chunk *chunks; /* oldest first */
    int count, room;
    uint64_t first; /* number of chunks[0] */
    size_t bytes, bytes_max;
    struct latest_records *standing; /* of the chunks that were dropped */
};

struct record_buffer *record_buffer_new(size_t bytes)
{
    struct record_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->bytes_max = bytes ? bytes : RECORD_BUFFER_BYTES;
    buffer->standing = latest_records_new();
    if (buffer->standing) return buffer;
    free(buffer);
    return NULL;
}

void record_buffer_free(struct record_buffer *buffer)
{
    if (!buffer) return;
    for (int i = 0; i < buffer->count; i++) bytes_release(&buffer->chunks[i].records);
    latest_records_free(buffer->standing);
    free(buffer->chunks);
    free(buffer);
}

size_t record_buffer_bytes(const struct record_buffer *buffer)
{
    return buffer->bytes;
}

bool record_buffer_is_cut(const struct record_buffer *buffer)
{
    return buffer->first > 0;
}

uint32_t record_buffer_first_step(const struct record_buffer *buffer)
{
    for (int i = 0; i < buffer->count; i++)
        if (buffer->chunks[i].flags & CHUNK_KEYFRAME) return buffer->chunks[i].step;
    return 0;
}

static void each_standing(const struct kept_chunk *chunk, latest_records_visit *visit, void *user)
{
    for (size_t at = 0; chunk->flags & CHUNK_STANDING && at < chunk->records.count;) {
        struct trace_head head = trace_peek(chunk->records.at + at);
        if (trace_kind_traits(head.kind) & TRACE_STANDING) visit(user, chunk->records.at + at);
        at += head.bytes;
    }
}

static void keep_record(void *user, const void *record)
{
    latest_records_put(user, record);
}

/* Drops the oldest steps, each with all of its chunks, until at most `bytes` are left; keeps the growing chunk. It
 * drops many at once, because the rest is moved down. */
static void drop_oldest(struct record_buffer *buffer, size_t bytes)
{
    int dropped = 0;
    while (dropped + 1 < buffer->count &&
           (buffer->bytes > bytes || !(buffer->chunks[dropped].flags & CHUNK_KEYFRAME))) {
        each_standing(&buffer->chunks[dropped], keep_record, buffer->standing);
        buffer->bytes -= buffer->chunks[dropped].records.count + CHUNK_OWN_BYTES;
        bytes_release(&buffer->chunks[dropped].records);
        dropped++;
    }
    buffer->count -= dropped;
    buffer->first += (uint64_t)dropped;
    memmove(buffer->chunks, buffer->chunks + dropped, (size_t)buffer->count * sizeof *buffer->chunks);
}

/* Closes a chunk that grows no more: frees its unused room. */
static void close_chunk(struct kept_chunk *chunk)
{
    uint8_t *at = chunk->records.count ? realloc(chunk->records.at, chunk->records.count) : NULL;
    if (!at) return;
    chunk->records.at = at;
    chunk->records.room = chunk->records.count;
}

static struct kept_chunk *begin_chunk(struct record_buffer *buffer, uint32_t step, uint32_t flags)
{
    if (buffer->count) close_chunk(&buffer->chunks[buffer->count - 1]);
    struct kept_chunk *chunk = array_add(buffer->chunks, buffer->count, buffer->room);
    if (!chunk) return NULL;
    *chunk = (struct kept_chunk){.step = step, .flags = flags};
    buffer->bytes += CHUNK_OWN_BYTES;
    if (buffer->count > 1) bytes_reserve(&chunk->records, chunk[-1].records.count); /* steps are much alike */
    return chunk;
}

/* The chunk that a record belongs to: as in a file, the first STEP_BEGIN of a step begins one. */
static struct kept_chunk *chunk_for(struct record_buffer *buffer, const void *bytes, struct trace_head head)
{
    struct kept_chunk *last = buffer->count ? &buffer->chunks[buffer->count - 1] : NULL;
    uint32_t step = last ? last->step : 0;
    struct trace_record record;
    if (head.kind == TRACE_STEP_BEGIN && trace_decode(bytes, head.bytes, &record) && record.step_begin.step != step)
        return begin_chunk(buffer, record.step_begin.step, CHUNK_KEYFRAME);
    if (!last || last->records.count + head.bytes > CHUNK_FULL_BYTES) return begin_chunk(buffer, step, 0);
    return last;
}

bool record_buffer_put(struct record_buffer *buffer, const void *record)
{
    struct trace_head head = trace_peek(record);
    if (buffer->bytes + head.bytes > buffer->bytes_max)
        drop_oldest(buffer, buffer->bytes_max - buffer->bytes_max / DROPPED_SHARE);
    struct kept_chunk *chunk = chunk_for(buffer, record, head);
    if (!chunk || !bytes_append(&chunk->records, record, head.bytes)) return false;
    if (trace_kind_traits(head.kind) & TRACE_STANDING) chunk->flags |= CHUNK_STANDING;
    buffer->bytes += head.bytes;
    return true;
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

static void append_record(void *user, const void *record)
{
    bytes_append(user, record, trace_peek(record).bytes);
}

/* The records from before chunk `number` that still hold: first those of dropped chunks, then those of skipped ones. */
static void collect_standing(struct bytes *out, const struct record_buffer *buffer, uint64_t until)
{
    latest_records_each(buffer->standing, 0, append_record, out);
    for (int i = 0; i < buffer->count && buffer->first + (uint64_t)i < until; i++)
        each_standing(&buffer->chunks[i], append_record, out);
}

struct buffer_source {
    const struct record_buffer *buffer;
    uint64_t chunk; /* number of the next one */
    size_t taken;   /* bytes of it that were handed out: it may still grow */
    bool standing_due;
    struct bytes copy; /* of what was handed out last */
};

static enum source_result hand_out(const struct buffer_source *reading, struct source_block *block)
{
    block->records = reading->copy.at;
    block->bytes = reading->copy.count;
    return SOURCE_RECORD;
}

static enum source_result next_block(void *self, struct source_block *block)
{
    struct buffer_source *reading = self;
    const struct record_buffer *buffer = reading->buffer;
    reading->copy.count = 0;
    if (reading->standing_due) {
        reading->standing_due = false;
        collect_standing(&reading->copy, buffer, reading->chunk);
        if (reading->copy.count) return hand_out(reading, block);
    }
    if (reading->chunk < buffer->first) return source_fail(block, "this part of the past is not kept any more");
    for (; reading->chunk - buffer->first < (uint64_t)buffer->count; reading->chunk++, reading->taken = 0) {
        const struct bytes *records = &buffer->chunks[reading->chunk - buffer->first].records;
        if (reading->taken < records->count) {
            if (!bytes_append(&reading->copy, records->at + reading->taken, records->count - reading->taken))
                return source_fail(block, "no memory to look back");
            reading->taken = records->count;
            return hand_out(reading, block);
        }
        if (reading->chunk - buffer->first + 1 == (uint64_t)buffer->count) break; /* this one still grows */
    }
    return SOURCE_END;
}

static int seek(void *self, uint32_t step, struct error *err)
{
    struct buffer_source *reading = self;
    const struct record_buffer *buffer = reading->buffer;
    uint64_t target = buffer->first;
    uint32_t found = 0;
    for (int i = 0; i < buffer->count; i++) {
        if (!(buffer->chunks[i].flags & CHUNK_KEYFRAME)) continue;
        if (buffer->chunks[i].step > step) break;
        target = buffer->first + (uint64_t)i;
        found = buffer->chunks[i].step;
    }
    if (found != step && step != SOURCE_LAST_STEP) return error_set(err, STATUS_INPUT, "step %u is not kept", step);
    reading->chunk = target;
    reading->taken = 0;
    reading->standing_due = false;
    return STATUS_OK;
}

static void close_buffer(void *self)
{
    struct buffer_source *reading = self;
    bytes_release(&reading->copy);
    free(reading);
}

static const struct source_kind buffer_kind = {.next = next_block, .seek = seek, .close = close_buffer};

int source_open_buffer(struct source **out, const struct record_buffer *buffer, struct error *err)
{
    struct buffer_source *reading = calloc(1, sizeof *reading);
    if (reading) *reading = (struct buffer_source){.buffer = buffer, .chunk = buffer->first, .standing_due = true};
    return source_open(out, &buffer_kind, reading, err);
}
