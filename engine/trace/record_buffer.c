/* Chunks are numbered from 0 on and never change once the next one is begun; the last one grows. A reader copies what it
 * hands out, so that dropping a chunk never pulls the ground from under it. */
#include "engine/trace/record_buffer.h"

#include <string.h>

#include "engine/trace/format.h"
#include "engine/trace/latest_records.h"
#include "engine/trace/source_kind.h"

enum { CHUNK_FULL_BYTES = 256 << 10, DROPPED_SHARE = 16 };

struct past_chunk {
    struct bytes records;
    uint32_t step, flags; /* as in a file (format.h) */
};

/* Beside its records: its entry, and what the allocator adds. */
enum { CHUNK_OWN_BYTES = sizeof(struct past_chunk) + 2 * sizeof(void *) };

struct record_buffer {
    struct past_chunk *chunks; /* oldest first */
    size_t count, room;
    uint64_t first; /* number of chunks[0] */
    size_t bytes, bytes_max;
    struct latest_records *standing; /* of the chunks that were dropped */
};

struct record_buffer *record_buffer_new(size_t bytes)
{
    struct record_buffer *past = calloc(1, sizeof *past);
    if (!past) return NULL;
    past->bytes_max = bytes ? bytes : RECORD_BUFFER_BYTES;
    past->standing = latest_records_new();
    if (past->standing) return past;
    free(past);
    return NULL;
}

void record_buffer_free(struct record_buffer *past)
{
    if (!past) return;
    for (size_t i = 0; i < past->count; i++) bytes_release(&past->chunks[i].records);
    latest_records_free(past->standing);
    free(past->chunks);
    free(past);
}

size_t record_buffer_bytes(const struct record_buffer *past)
{
    return past->bytes;
}

bool record_buffer_is_cut(const struct record_buffer *past)
{
    return past->first > 0;
}

uint32_t record_buffer_first_step(const struct record_buffer *past)
{
    for (size_t i = 0; i < past->count; i++)
        if (past->chunks[i].flags & CHUNK_KEYFRAME) return past->chunks[i].step;
    return 0;
}

static void keep_standing(struct record_buffer *past, const struct past_chunk *chunk)
{
    if (!(chunk->flags & CHUNK_STANDING)) return;
    for (size_t at = 0; at < chunk->records.count;) {
        struct trace_head head = trace_peek(chunk->records.at + at);
        if (latest_records_is_standing(head.kind)) latest_records_put(past->standing, chunk->records.at + at);
        at += head.bytes;
    }
}

/* The oldest steps, each with all chunks that belong to it, until at most `bytes` are left. The chunk that grows stays. Many go
 * at once, because what is left is moved down. */
static void drop_oldest(struct record_buffer *past, size_t bytes)
{
    size_t dropped = 0;
    while (dropped + 1 < past->count &&
           (past->bytes > bytes || !(past->chunks[dropped].flags & CHUNK_KEYFRAME))) {
        keep_standing(past, &past->chunks[dropped]);
        past->bytes -= past->chunks[dropped].records.count + CHUNK_OWN_BYTES;
        bytes_release(&past->chunks[dropped].records);
        dropped++;
    }
    past->count -= dropped;
    past->first += dropped;
    memmove(past->chunks, past->chunks + dropped, past->count * sizeof *past->chunks);
}

/* It grows no more: gives back the room that it did not need. */
static void close_chunk(struct past_chunk *chunk)
{
    uint8_t *at = chunk->records.count ? realloc(chunk->records.at, chunk->records.count) : NULL;
    if (!at) return;
    chunk->records.at = at;
    chunk->records.room = chunk->records.count;
}

static struct past_chunk *begin_chunk(struct record_buffer *past, uint32_t step, uint32_t flags)
{
    if (past->count) close_chunk(&past->chunks[past->count - 1]);
    if (past->count == past->room) {
        size_t room = past->room ? 2 * past->room : 64;
        struct past_chunk *larger = realloc(past->chunks, room * sizeof *larger);
        if (!larger) return NULL;
        past->chunks = larger;
        past->room = room;
    }
    struct past_chunk *chunk = &past->chunks[past->count];
    *chunk = (struct past_chunk){.step = step, .flags = flags};
    past->bytes += CHUNK_OWN_BYTES;
    if (past->count) bytes_reserve(&chunk->records, chunk[-1].records.count); /* a step is much like the one before */
    return &past->chunks[past->count++];
}

/* The chunk that a record belongs to: as in a file, the first STEP_BEGIN of a step begins one. */
static struct past_chunk *chunk_for(struct record_buffer *past, const void *bytes, struct trace_head head)
{
    struct past_chunk *last = past->count ? &past->chunks[past->count - 1] : NULL;
    uint32_t step = last ? last->step : 0;
    struct trace_record record;
    if (head.kind == TRACE_STEP_BEGIN && trace_decode(bytes, head.bytes, &record) && record.step_begin.step != step)
        return begin_chunk(past, record.step_begin.step, CHUNK_KEYFRAME);
    if (!last || last->records.count + head.bytes > CHUNK_FULL_BYTES) return begin_chunk(past, step, 0);
    return last;
}

bool record_buffer_put(struct record_buffer *past, const void *record)
{
    struct trace_head head = trace_peek(record);
    if (past->bytes + head.bytes > past->bytes_max)
        drop_oldest(past, past->bytes_max - past->bytes_max / DROPPED_SHARE);
    struct past_chunk *chunk = chunk_for(past, record, head);
    if (!chunk || !bytes_append(&chunk->records, record, head.bytes)) return false;
    if (latest_records_is_standing(head.kind)) chunk->flags |= CHUNK_STANDING;
    past->bytes += head.bytes;
    return true;
}

static int put(void *self, struct bytes *records, uint64_t now_ns, struct error *err)
{
    (void)now_ns;
    for (size_t at = 0; at < records->count; at += trace_peek(records->at + at).bytes)
        if (!record_buffer_put(self, records->at + at)) return error_set(err, STATUS_RUN, "no memory to keep records");
    return STATUS_OK;
}

static int leave(void *self, bool goes_on, struct error *err)
{
    (void)self, (void)goes_on, (void)err;
    return STATUS_OK;
}

struct sink record_buffer_sink(struct record_buffer *past)
{
    return (struct sink){put, leave, past};
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

static void append_record(void *user, const void *record)
{
    bytes_append(user, record, trace_peek(record).bytes);
}

/* What holds from before the chunk with this number: of those that were dropped, then of those that are passed over. */
static void collect_standing(struct bytes *out, const struct record_buffer *past, uint64_t until)
{
    latest_records_each(past->standing, append_record, out);
    for (size_t i = 0; i < past->count && past->first + i < until; i++) {
        const struct bytes *records = &past->chunks[i].records;
        for (size_t at = 0; past->chunks[i].flags & CHUNK_STANDING && at < records->count;) {
            struct trace_head head = trace_peek(records->at + at);
            if (latest_records_is_standing(head.kind)) bytes_append(out, records->at + at, head.bytes);
            at += head.bytes;
        }
    }
}

struct buffer_source {
    const struct record_buffer *past;
    uint64_t chunk; /* number of the next one */
    size_t taken;   /* bytes of it that were handed out: it may still grow */
    bool standing_due;
    struct bytes copy; /* of what was handed out last */
};

static enum source_result hand_out(const struct buffer_source *buffer, struct source_block *block)
{
    block->records = buffer->copy.at;
    block->bytes = buffer->copy.count;
    return SOURCE_RECORD;
}

static enum source_result next_block(void *self, struct source_block *block)
{
    struct buffer_source *buffer = self;
    const struct record_buffer *past = buffer->past;
    buffer->copy.count = 0;
    if (buffer->standing_due) {
        buffer->standing_due = false;
        collect_standing(&buffer->copy, past, buffer->chunk);
        if (buffer->copy.count) return hand_out(buffer, block);
    }
    if (buffer->chunk < past->first) return source_fail(block, "this part of the past is not kept any more");
    for (; buffer->chunk - past->first < past->count; buffer->chunk++, buffer->taken = 0) {
        const struct bytes *records = &past->chunks[buffer->chunk - past->first].records;
        if (buffer->taken < records->count) {
            if (!bytes_append(&buffer->copy, records->at + buffer->taken, records->count - buffer->taken))
                return source_fail(block, "no memory to look back");
            buffer->taken = records->count;
            return hand_out(buffer, block);
        }
        if (buffer->chunk - past->first + 1 == past->count) break; /* this one still grows */
    }
    return SOURCE_END;
}

static int seek(void *self, uint32_t step, bool standing, struct error *err)
{
    struct buffer_source *buffer = self;
    const struct record_buffer *past = buffer->past;
    uint64_t target = past->first;
    uint32_t found = 0;
    for (size_t i = 0; i < past->count; i++) {
        if (!(past->chunks[i].flags & CHUNK_KEYFRAME)) continue;
        if (past->chunks[i].step > step) break;
        target = past->first + i;
        found = past->chunks[i].step;
    }
    if (!standing && found != step) return error_set(err, STATUS_INPUT, "step %u is not kept", step);
    buffer->chunk = target;
    buffer->taken = 0;
    buffer->standing_due = standing;
    return STATUS_OK;
}

static void close_buffer(void *self)
{
    struct buffer_source *buffer = self;
    bytes_release(&buffer->copy);
    free(buffer);
}

static const struct source_kind buffer_kind = {.next = next_block, .seek = seek, .close = close_buffer};

int source_open_buffer(struct source **out, const struct record_buffer *past, struct error *err)
{
    struct buffer_source *buffer = calloc(1, sizeof *buffer);
    if (buffer) *buffer = (struct buffer_source){.past = past, .chunk = past->first, .standing_due = true};
    return source_open(out, &buffer_kind, buffer, err);
}
