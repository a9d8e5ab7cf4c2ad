#include "engine/trace/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/trace/chunk.h"

/* A chunk is closed at this size or age, or by a step that begins beyond KEYFRAME_BYTES: small enough to lose in a crash, large enough
 * to compress well. */
enum { CHUNK_FULL_BYTES = 256 << 10, KEYFRAME_BYTES = 64 << 10, CHUNK_OLD_NS = 250 * 1000 * 1000 };

struct trace_file {
    int fd; /* -1: an error ended it */
    char path[256];
    uint64_t written; /* whole chunks */
    struct chunk chunk;
    uint32_t step;     /* the last one begun */
    uint64_t begun_ns; /* when the chunk got its first record */
    struct bytes sealed, index, encoded;
    ZSTD_CCtx *zstd; /* NULL: not compressed */
};

static int stop_writing(struct trace_file *file, int problem, struct error *err)
{
    /* Cuts the file back to its last whole chunk. If that fails, a reader reports a torn file. */
    if (ftruncate(file->fd, (off_t)file->written) != 0) errno = 0;
    close(file->fd);
    file->fd = -1;
    if (!file->written) return error_set(err, STATUS_RUN, "cannot write trace %s: %s", file->path, strerror(problem));
    return error_set(err, STATUS_RUN, "cannot write trace %s any further: %s; it ends here, the run goes on",
                     file->path, strerror(problem));
}

static int write_all(struct trace_file *file, const void *bytes, size_t count, struct error *err)
{
    if (!file_put(file->fd, bytes, count)) return stop_writing(file, errno, err);
    file->written += count;
    return 0;
}

bool trace_file_is_anothers(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static struct trace_file *open_file(const char *path, int flags, struct error *err)
{
    struct trace_file *file = calloc(1, sizeof *file);
    if (!file) return error_set(err, STATUS_RUN, "no memory for a trace file"), NULL;
    file->fd = file_open_named(path, flags);
    if (file->fd < 0 || trace_file_is_anothers(file->fd)) {
        error_set(err, STATUS_USAGE, "cannot write trace %s: %s", path,
                  file->fd < 0 ? file_why(errno) : "another run is writing it");
        if (file->fd >= 0) close(file->fd);
        return free(file), NULL;
    }
    size_t length = strlen(path), shown = length < sizeof file->path ? length : sizeof file->path - 1;
    memcpy(file->path, path + length - shown, shown);
    file->zstd = ZSTD_createCCtx();
    return file;
}

int trace_file_create(struct trace_file **out, const char *path, struct error *err)
{
    *out = NULL;
    struct error why;
    struct trace_file *file = open_file(path, O_WRONLY | O_CREAT, &why);
    if (!file) return *err = why, why.status;
    uint8_t head[STREAM_HEAD_BYTES];
    stream_head_write(0, head);
    int status = STATUS_OK;
    if (ftruncate(file->fd, 0) != 0 && errno != EINVAL) status = stop_writing(file, errno, err); /* EINVAL: no file, a pipe */
    if (!status) status = write_all(file, head, sizeof head, err);
    if (status) trace_file_close(file, NULL);
    else *out = file;
    return status;
}

static bool add_entry(struct bytes *index, uint64_t offset, const struct chunk_head *head)
{
    uint8_t entry[INDEX_ENTRY_BYTES], *at = put_u64(entry, offset);
    at = put_u64(at, head->first_ns);
    at = put_u32(at, head->step);
    put_u32(at, head->flags);
    return bytes_append(index, entry, sizeof entry);
}

/* Rebuilds the index from the chunks in the file; `written` becomes the end of the last whole one. The previous writer
 * computed the CRCs of its chunks, so reading the heads is enough. */
static bool walk_chunks(struct trace_file *file, uint64_t file_bytes)
{
    uint8_t bytes[CHUNK_HEAD_BYTES];
    struct chunk_head head;
    file->written = STREAM_HEAD_BYTES;
    while (pread(file->fd, bytes, sizeof bytes, (off_t)file->written) == sizeof bytes &&
           chunk_head_read(&head, bytes) == CHUNK_GOOD && !(head.flags & CHUNK_INDEX) &&
           file->written + CHUNK_HEAD_BYTES + head.stored_bytes <= file_bytes) {
        if (!add_entry(&file->index, file->written, &head)) return false;
        file->written += CHUNK_HEAD_BYTES + head.stored_bytes;
        file->chunk.head.step = file->step = head.step;
    }
    return true;
}

static int go_to_end(struct trace_file *file, struct error *err)
{
    uint8_t head[STREAM_HEAD_BYTES];
    uint32_t flags;
    off_t end = lseek(file->fd, 0, SEEK_END);
    if (end < STREAM_HEAD_BYTES || pread(file->fd, head, sizeof head, 0) != sizeof head)
        return error_set(err, STATUS_RUN, "it is empty");
    int status = stream_head_read(head, &flags, err);
    if (!status && !walk_chunks(file, (uint64_t)end)) status = error_set(err, STATUS_RUN, "no memory");
    if (!status && (ftruncate(file->fd, (off_t)file->written) || lseek(file->fd, 0, SEEK_END) < 0))
        status = error_set(err, STATUS_RUN, "%s", strerror(errno));
    return status;
}

int trace_file_append(struct trace_file **out, const char *path, struct error *err)
{
    int status;
    *out = open_file(path, O_RDWR, err);
    if (!*out) return STATUS_RUN;
    if (!(status = go_to_end(*out, err))) return STATUS_OK;
    error_prefix(err, "cannot go on with the trace %s", path);
    close((*out)->fd);
    (*out)->fd = -1;
    trace_file_close(*out, NULL);
    *out = NULL;
    return status;
}

static int flush(struct trace_file *file, struct error *err)
{
    if (file->fd < 0 || !file->chunk.head.records) return 0;
    file->sealed.count = 0;
    if (!add_entry(&file->index, file->written, &file->chunk.head) ||
        !chunk_seal(&file->chunk, file->zstd, &file->sealed))
        return stop_writing(file, ENOMEM, err);
    file->chunk.head.step = file->step;
    return write_all(file, file->sealed.at, file->sealed.count, err);
}

/* The first STEP_BEGIN of a step starts a chunk, so that a seek can start reading there. Short steps share one: a chunk of their
 * records compresses better and faster than one for each. */
static int begin_keyframe(struct trace_file *file, const void *bytes, uint32_t size, struct error *err)
{
    struct trace_record record;
    if (!trace_decode(bytes, size, &record) || record.step_begin.step == file->step) return 0;
    file->step = record.step_begin.step;
    if (file->chunk.head.flags & CHUNK_KEYFRAME && file->chunk.raw.count < KEYFRAME_BYTES) return 0;
    int status = flush(file, err);
    file->chunk.head.step = file->step;
    file->chunk.head.flags |= CHUNK_KEYFRAME;
    return status;
}

int trace_file_put_encoded(struct trace_file *file, const void *record, struct error *err)
{
    if (file->fd < 0) return 0;
    struct trace_head head = trace_peek(record);
    int status = 0;
    if (head.kind == TRACE_STEP_BEGIN) status = begin_keyframe(file, record, head.bytes, err);
    if (!status && file->chunk.raw.count + head.bytes > CHUNK_FULL_BYTES) status = flush(file, err);
    if (status) return status;
    if (!file->chunk.head.records) file->begun_ns = clock_ns();
    if (trace_kind_traits(head.kind) & TRACE_STANDING) file->chunk.head.flags |= CHUNK_STANDING;
    if (!chunk_append(&file->chunk, record, head))
        return stop_writing(file, head.bytes > CHUNK_BYTES_MAX ? EFBIG : ENOMEM, err);
    return 0;
}

int trace_file_put(struct trace_file *file, const struct trace_record *record, struct error *err)
{
    if (file->fd < 0) return 0;
    file->encoded.count = 0;
    if (!trace_append(&file->encoded, record)) return stop_writing(file, ENOMEM, err);
    return trace_file_put_encoded(file, file->encoded.at, err);
}

/* An upper bound: compression can only make the open chunk smaller. */
uint64_t trace_file_bytes(const struct trace_file *file)
{
    const uint64_t waiting = file->chunk.head.records ? CHUNK_HEAD_BYTES + file->chunk.raw.count + INDEX_ENTRY_BYTES : 0;
    return file->written + waiting + CHUNK_HEAD_BYTES + file->index.count + INDEX_LAST_BYTES;
}

uint64_t trace_file_whole_bytes(const struct trace_file *file)
{
    return file->written;
}

/* begun_ns may be later than now_ns: the writer reads the clock before it puts its records. */
int trace_file_tick(struct trace_file *file, uint64_t now_ns, struct error *err)
{
    if (!file->chunk.head.records || now_ns < file->begun_ns + CHUNK_OLD_NS) return 0;
    return flush(file, err);
}

/* Appends the index chunk, which will lie at `offset`, to *out. */
static bool seal_index(struct bytes *entries, uint64_t offset, struct bytes *out)
{
    uint8_t last[INDEX_LAST_BYTES];
    memcpy(put_u64(last, offset), INDEX_MAGIC, 8);
    struct chunk index = {.head.flags = CHUNK_INDEX, .raw = *entries};
    bool done = bytes_append(&index.raw, last, sizeof last) && index.raw.count <= CHUNK_BYTES_MAX &&
                chunk_seal(&index, NULL, out);
    *entries = index.raw;
    return done;
}

static int finish(struct trace_file *file, bool with_index, struct error *err)
{
    if (!file) return 0;
    int status = flush(file, err);
    file->sealed.count = 0;
    if (file->fd >= 0 && !status && with_index && seal_index(&file->index, file->written, &file->sealed))
        status = write_all(file, file->sealed.at, file->sealed.count, err); /* readers work without it */
    if (file->fd >= 0 && close(file->fd) != 0 && !status)
        status = error_set(err, STATUS_RUN, "cannot finish trace %s: %s", file->path, strerror(errno));
    chunk_release(&file->chunk);
    bytes_release(&file->sealed);
    bytes_release(&file->index);
    bytes_release(&file->encoded);
    ZSTD_freeCCtx(file->zstd);
    free(file);
    return status;
}

int trace_file_close(struct trace_file *file, struct error *err)
{
    return finish(file, true, err);
}

int trace_file_leave(struct trace_file *file, struct error *err)
{
    return finish(file, false, err);
}

/* ---- states ---- */

bool trace_states_put(struct trace_states *states, const struct chunk_head *head, struct bytes *raw)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    struct chunk chunk = {.head = *head, .raw = *raw};
    bool done = zstd && raw->count <= CHUNK_BYTES_MAX && add_entry(&states->entries, states->sealed.count, head) &&
                chunk_seal(&chunk, zstd, &states->sealed);
    *raw = chunk.raw;
    ZSTD_freeCCtx(zstd);
    return done;
}

void trace_states_release(struct trace_states *states)
{
    bytes_release(&states->sealed);
    bytes_release(&states->entries);
}

/* The chunks, whose entries count from their own start, with a new index behind them, at file->index and file->sealed. */
static bool join_states(struct trace_file *file, const struct trace_states *states, uint64_t end)
{
    const size_t before = file->index.count;
    if (!bytes_append(&file->index, states->entries.at, states->entries.count) ||
        !bytes_append(&file->sealed, states->sealed.at, states->sealed.count))
        return false;
    for (size_t at = before; at < file->index.count; at += INDEX_ENTRY_BYTES) {
        uint64_t offset;
        get_u64(file->index.at + at, &offset);
        put_u64(file->index.at + at, end + offset);
    }
    return seal_index(&file->index, end + file->sealed.count, &file->sealed);
}

int trace_file_add_states(const char *path, const struct trace_states *states, uint64_t most_bytes, struct error *err)
{
    struct error why;
    struct trace_file *file = open_file(path, O_RDWR, &why);
    if (!file) return *err = why, STATUS_RUN;
    const off_t end = lseek(file->fd, 0, SEEK_END);
    int status = STATUS_OK;
    if (end < 0 || !walk_chunks(file, (uint64_t)end) || file->written + CHUNK_HEAD_BYTES > (uint64_t)end ||
        !join_states(file, states, (uint64_t)end))
        status = error_set(err, STATUS_RUN, "cannot add states to the trace %s: it has no index", path);
    file->written = (uint64_t)end; /* to which a failed write cuts back */
    const bool fits = !most_bytes || file->written + file->sealed.count <= most_bytes;
    if (!status && fits) status = write_all(file, file->sealed.at, file->sealed.count, err);
    const int closed = trace_file_leave(file, status ? NULL : err);
    return status ? status : closed;
}
