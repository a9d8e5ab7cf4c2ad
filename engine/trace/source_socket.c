/* The socket of a live run as a source, and the sending of commands. The descriptor never makes us wait. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/listen.h"
#include "engine/trace/source_parts.h"

enum { RECEIVE_BYTES = 64 << 10, COMMAND_BYTES_MAX = 1023 };

/* SOURCE_RECORD: something has come; SOURCE_WAIT: nothing now; SOURCE_END: closed by the other side. */
static enum source_result receive(struct source *source)
{
    struct bytes *received = &source->received;
    if (!bytes_reserve(received, RECEIVE_BYTES)) return source_fail(source, "no memory to follow the run");
    ssize_t count = recv(source->fd, received->at + received->count, RECEIVE_BYTES, MSG_DONTWAIT);
    if (count > 0) {
        received->count += (size_t)count;
        return SOURCE_RECORD;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return SOURCE_WAIT;
    source->torn = received->count > 0;
    return SOURCE_END; /* a reset is an end too: the engine is gone */
}

static enum source_result take_greeting(struct source *source)
{
    struct error err;
    uint32_t flags;
    if (stream_head_read(source->received.at, &flags, &err)) return source_fail(source, "%s", err.text);
    source->drives = flags & STREAM_DRIVES;
    source->greeted = true;
    bytes_drop(&source->received, STREAM_HEAD_BYTES);
    return SOURCE_RECORD;
}

/* Moves the chunk at the head of what was received to source->stored. SOURCE_WAIT: it is not whole yet. */
static enum source_result take_chunk(struct source *source)
{
    struct bytes *received = &source->received;
    struct chunk_head head;
    if (received->count < CHUNK_HEAD_BYTES) return SOURCE_WAIT;
    if (chunk_head_read(&head, received->at) != CHUNK_GOOD)
        return source_fail(source, "the run sent something that is not a trace");
    if (received->count - CHUNK_HEAD_BYTES < head.stored_bytes) return SOURCE_WAIT;
    source->stored.count = 0;
    if (!bytes_append(&source->stored, received->at + CHUNK_HEAD_BYTES, head.stored_bytes))
        return source_fail(source, "no memory to follow the run");
    bytes_drop(received, CHUNK_HEAD_BYTES + head.stored_bytes);
    if (chunk_unpack(&head, source->stored.at, &source->unpacked, &source->records) != CHUNK_GOOD)
        return source_fail(source, "the run sent a damaged chunk");
    source->record_bytes = head.raw_bytes;
    return SOURCE_RECORD;
}

static bool append(struct bytes *bytes, const struct trace_record *record)
{
    if (!bytes_reserve(bytes, trace_encoded_bytes(record))) return false;
    bytes->count += trace_encode(record, bytes->at + bytes->count);
    return true;
}

/* The chunk that the reader gets where the connection broke. */
static enum source_result tell_break(struct source *source)
{
    static const char text[] = "the connection to the run broke and is back; what happened meanwhile is unknown";
    const struct trace_record gap = {.kind = TRACE_GAP,
                                     .rank = TRACE_RANK_ALL,
                                     .time_ns = clock_ns(),
                                     .gap = {.records = 0, .since_ns = source->had_until_ns}};
    const struct trace_record log = {.kind = TRACE_LOG,
                                     .rank = TRACE_RANK_ALL,
                                     .time_ns = gap.time_ns,
                                     .log = {.level = 1, .text = {text, sizeof text - 1}}};
    source->unpacked.count = 0;
    if (!append(&source->unpacked, &gap) || !append(&source->unpacked, &log))
        return source_fail(source, "no memory to follow the run");
    source->records = source->unpacked.at;
    source->record_bytes = source->unpacked.count;
    return SOURCE_RECORD;
}

/* False: nobody listens there any more, or the run takes no more viewers (it has not even greeted). */
static bool reattach(struct source *source)
{
    int fd;
    if (source->ended || !source->greeted || !*source->path || connect_to(&fd, source->path, source->only_watches, NULL)) return false;
    const bool same_number = dup3(fd, source->fd, O_CLOEXEC) >= 0;
    close(fd);
    source->received.count = 0;
    source->greeted = source->torn = false;
    source->had_until_ns = source->newest_ns;
    return same_number && (!source->wants_all || source_want_all(source, NULL) == STATUS_OK);
}

static enum source_result next_chunk(struct source *source)
{
    for (;;) {
        enum source_result result = SOURCE_WAIT;
        if (source->greeted) result = take_chunk(source);
        else if (source->received.count >= STREAM_HEAD_BYTES) result = take_greeting(source);
        if (result == SOURCE_RECORD && source->record_bytes) return result;
        if (result == SOURCE_WAIT) result = receive(source);
        if (result == SOURCE_END && reattach(source)) return tell_break(source);
        if (result != SOURCE_RECORD) return result;
    }
}

static const struct source_origin socket_origin = {.next_chunk = next_chunk, .live = true};

int source_adopt_fd(struct source **out, int connected_fd, struct error *err)
{
    return source_new(out, &socket_origin, connected_fd, err);
}

static int open_socket(struct source **out, const char *path, bool only_watches, struct error *err)
{
    int fd, status = connect_to(&fd, path, only_watches, err);
    *out = NULL;
    if (!status) status = source_adopt_fd(out, fd, err);
    if (status) return status;
    (*out)->only_watches = only_watches;
    source_reattach_at(*out, path);
    return STATUS_OK;
}

void source_reattach_at(struct source *source, const char *path)
{
    if (strlen(path) < sizeof source->path) snprintf(source->path, sizeof source->path, "%s", path);
}

int source_open_socket(struct source **out, const char *path, struct error *err)
{
    return open_socket(out, path, false, err);
}

int source_watch_socket(struct source **out, const char *path, struct error *err)
{
    return open_socket(out, path, true, err);
}

int source_send(struct source *source, const char *command_line, struct error *err)
{
    char line[COMMAND_BYTES_MAX + 1];
    size_t length = strlen(command_line);
    if (!source->origin->live) return error_set(err, STATUS_USAGE, "a replay takes no commands");
    if (length > COMMAND_BYTES_MAX || strchr(command_line, '\n'))
        return error_set(err, STATUS_USAGE, "a command is one line of at most %d bytes", COMMAND_BYTES_MAX);
    memcpy(line, command_line, length);
    line[length] = '\n';
    for (size_t done = 0; done <= length;) {
        ssize_t sent = send(source->fd, line + done, length + 1 - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return error_set(err, STATUS_RUN, "the run does not take commands any more: %s", strerror(errno));
        done += (size_t)sent;
    }
    return 0;
}

int source_want_all(struct source *source, struct error *err)
{
    source->wants_all = true;
    return source_send(source, STREAM_WANTS_ALL, err);
}
