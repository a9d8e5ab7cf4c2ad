/* A trace file as a source. It is read with pread, never mapped: the file may be cut back by its writer (full disk) while
 * we read. Lengths are believed only after the CRC of their head, and a chunk is read only when the file has all of it, so
 * nothing is allocated beyond the file's size (times CHUNK_RATIO_MAX for a compressed chunk). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/trace/chunk.h"
#include "engine/trace/source_kind.h"

struct file_source {
    int fd;
    uint64_t offset;    /* where the next chunk starts */
    uint32_t from_step; /* after a seek: of that chunk only records from this step on are handed out; 0: all of it */
    struct bytes stored, unpacked, index; /* of the chunk that is read; of the index */
};

static uint64_t file_bytes(int fd)
{
    struct stat what;
    return fstat(fd, &what) == 0 && what.st_size > 0 ? (uint64_t)what.st_size : 0;
}

/* The head of the chunk at offset. SOURCE_END: the file has no whole chunk there (yet). */
static enum source_result head_at(const struct file_source *file, struct source_block *block, uint64_t offset,
                                  struct chunk_head *head)
{
    uint8_t bytes[CHUNK_HEAD_BYTES];
    size_t count = file_get(file->fd, bytes, sizeof bytes, offset);
    block->torn = count > 0;
    if (count < sizeof bytes) return SOURCE_END;
    if (chunk_head_read(head, bytes) != CHUNK_GOOD)
        return source_fail(block, "damaged at byte %" PRIu64 "; what stands before it is whole", offset);
    if (head->stored_bytes > file_bytes(file->fd) - offset - CHUNK_HEAD_BYTES) return SOURCE_END;
    block->torn = false;
    return SOURCE_RECORD;
}

static enum source_result load_at(struct file_source *file, struct source_block *block, uint64_t offset,
                                  const struct chunk_head *head)
{
    struct bytes *stored = head->flags == CHUNK_INDEX ? &file->index : &file->stored;
    uint64_t at = offset + CHUNK_HEAD_BYTES;
    if (!bytes_reserve(stored, head->stored_bytes))
        return source_fail(block, "no memory for a chunk of %u bytes", head->stored_bytes);
    if (file_get(file->fd, stored->at, head->stored_bytes, at) < head->stored_bytes) {
        block->torn = true; /* cut back between two calls */
        return SOURCE_END;
    }
    if (chunk_unpack(head, stored->at, &file->unpacked, &block->records) != CHUNK_GOOD)
        return source_fail(block, "damaged between bytes %" PRIu64 " and %" PRIu64 "; what stands before is whole", at,
                           at + head->stored_bytes);
    block->bytes = head->raw_bytes;
    return SOURCE_RECORD;
}

static enum source_result next_block(void *self, struct source_block *block)
{
    struct file_source *file = self;
    for (;;) {
        struct chunk_head head;
        enum source_result result = head_at(file, block, file->offset, &head);
        if (result != SOURCE_RECORD) return result;
        const bool wanted = !(head.flags & CHUNK_INDEX);
        if (wanted) result = load_at(file, block, file->offset, &head);
        if (result != SOURCE_RECORD) return result;
        if (file->from_step) block->from_step = file->from_step, file->from_step = 0;
        file->offset += CHUNK_HEAD_BYTES + head.stored_bytes;
        if (wanted) return SOURCE_RECORD;
    }
}

/* --- seeking -------------------------------------------------------------------------------------------------------- */

struct keyframe {
    uint64_t offset;
    uint32_t step; /* 0: the start of the file, no keyframe */
};

/* Is this chunk's step still at or before the wanted one? Notes the last keyframe seen. Steps of a run only go up. */
static bool look_at(uint64_t offset, uint32_t step, uint32_t flags, uint32_t wanted, struct keyframe *target)
{
    if ((flags & CHUNK_KEYFRAME) && step > wanted) return false;
    if (flags & CHUNK_KEYFRAME) *target = (struct keyframe){offset, step};
    return true;
}

/* Without an index: from head to head. */
static void scan_heads(const struct file_source *file, uint32_t wanted, struct keyframe *target)
{
    struct source_block unread = {0}; /* reading will come to the damage and say so */
    struct chunk_head head;
    uint64_t offset = STREAM_HEAD_BYTES;
    while (head_at(file, &unread, offset, &head) == SOURCE_RECORD &&
           look_at(offset, head.step, head.flags, wanted, target))
        offset += CHUNK_HEAD_BYTES + head.stored_bytes;
}

/* The index chunk, if the file ends with a sound one. */
static bool load_index(struct file_source *file, struct source_block *index)
{
    uint8_t last[INDEX_LAST_BYTES];
    uint64_t size = file_bytes(file->fd), offset;
    struct chunk_head head;
    if (size < STREAM_HEAD_BYTES + CHUNK_HEAD_BYTES + sizeof last) return false;
    if (file_get(file->fd, last, sizeof last, size - sizeof last) < sizeof last) return false;
    get_u64(last, &offset);
    return !memcmp(last + 8, INDEX_MAGIC, 8) && offset <= size - CHUNK_HEAD_BYTES &&
           head_at(file, index, offset, &head) == SOURCE_RECORD && head.flags == CHUNK_INDEX &&
           head.stored_bytes == size - offset - CHUNK_HEAD_BYTES &&
           load_at(file, index, offset, &head) == SOURCE_RECORD;
}

/* The next entry of an index, *at: 0 at first. False: there is none. */
static bool next_entry(const struct source_block *index, size_t *at, struct trace_state *entry)
{
    if (*at + INDEX_ENTRY_BYTES + INDEX_LAST_BYTES > index->bytes) return false;
    const uint8_t *from = get_u64(get_u64(index->records + *at, &entry->offset), &entry->time_ns);
    get_u32(get_u32(from, &entry->step), &entry->flags);
    return *at += INDEX_ENTRY_BYTES, true;
}

/* The last step at or before the wanted one that begins in the chunk of the keyframe. */
static uint32_t last_step(struct file_source *file, const struct keyframe *target, uint32_t wanted)
{
    struct source_block block = {0};
    struct chunk_head head;
    uint32_t step = target->step;
    if (!step || head_at(file, &block, target->offset, &head) != SOURCE_RECORD ||
        load_at(file, &block, target->offset, &head) != SOURCE_RECORD)
        return step; /* reading will come to the damage and say so */
    struct trace_record record;
    for (size_t at = 0, size; at < block.bytes && (size = trace_decode(block.records + at, block.bytes - at, &record));
         at += size)
        if (record.kind == TRACE_STEP_BEGIN && record.step_begin.step > step && record.step_begin.step <= wanted)
            step = record.step_begin.step;
    return step;
}

static int seek(void *self, uint32_t step, struct error *err)
{
    struct file_source *file = self;
    struct source_block index = {0};
    struct keyframe target = {.offset = STREAM_HEAD_BYTES};
    struct trace_state entry;
    size_t at = 0;
    const bool indexed = load_index(file, &index);
    while (indexed && next_entry(&index, &at, &entry))
        if (!look_at(entry.offset, entry.step, entry.flags, step, &target)) break;
    if (!indexed) scan_heads(file, step, &target);
    const uint32_t found = last_step(file, &target, step);
    if (found != step && step != SOURCE_LAST_STEP)
        return error_set(err, STATUS_INPUT, "the trace has no step %u", step);
    file->from_step = found;
    file->offset = target.offset;
    return STATUS_OK;
}

/* --- states ---------------------------------------------------------------------------------------------------------- */

static struct file_source *file_of(const struct source *source);

int source_states(struct source *source, struct trace_state **out)
{
    struct file_source *file = file_of(source);
    struct source_block index = {0};
    struct trace_state entry;
    int count = 0;
    *out = NULL;
    if (file && load_index(file, &index)) *out = malloc(index.bytes / INDEX_ENTRY_BYTES * sizeof **out + 1);
    for (size_t at = 0; *out && next_entry(&index, &at, &entry);)
        if (entry.flags & CHUNK_OF_STATES) (*out)[count++] = entry;
    return count;
}

const uint8_t *source_state(struct source *source, const struct trace_state *state, size_t *bytes)
{
    struct file_source *file = file_of(source);
    struct source_block block = {0};
    struct chunk_head head;
    if (state->offset >= file_bytes(file->fd) || head_at(file, &block, state->offset, &head) != SOURCE_RECORD ||
        head.flags >> 3 != state->flags >> 3 || load_at(file, &block, state->offset, &head) != SOURCE_RECORD)
        return NULL;
    *bytes = block.bytes;
    return block.records;
}

/* --- opening -------------------------------------------------------------------------------------------------------- */

static void close_file(void *self)
{
    struct file_source *file = self;
    close(file->fd);
    bytes_release(&file->stored);
    bytes_release(&file->index);
    bytes_release(&file->unpacked);
    free(file);
}

static const struct source_kind file_kind = {.next = next_block, .seek = seek, .close = close_file};

static struct file_source *file_of(const struct source *source)
{
    return source_self(source, &file_kind);
}

static int check_head(int fd, struct error *err)
{
    uint8_t head[STREAM_HEAD_BYTES] = {0};
    uint32_t flags;
    size_t count = file_get(fd, head, sizeof head, 0);
    if (!count) return error_set(err, STATUS_INPUT, "empty, not a zerolab trace");
    if (count < sizeof head && !memcmp(head, STREAM_MAGIC, count < 8 ? count : 8))
        return error_set(err, STATUS_INPUT, "cut off within its first %d bytes; nothing can be read",
                         STREAM_HEAD_BYTES);
    return stream_head_read(head, &flags, err);
}

int source_open_file(struct source **out, const char *path, struct error *err)
{
    *out = NULL;
    struct stat what;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not make us wait */
    if (fd < 0) return error_set(err, STATUS_INPUT, "cannot read %s: %s", path, strerror(errno));
    const bool known = fstat(fd, &what) == 0;
    int status = known && S_ISREG(what.st_mode) ? check_head(fd, err)
                 : known && S_ISDIR(what.st_mode)
                     ? error_set(err, STATUS_INPUT, "a folder; give a trace, a file that train --trace made")
                     : error_set(err, STATUS_INPUT, "not a file");
    if (status) {
        close(fd);
        error_prefix(err, "%s", path);
        return status;
    }
    struct file_source *file = calloc(1, sizeof *file);
    if (file) *file = (struct file_source){.fd = fd, .offset = STREAM_HEAD_BYTES};
    else close(fd);
    return source_open(out, &file_kind, file, err);
}
