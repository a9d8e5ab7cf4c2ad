/* The socket of a live run as a source, and the sending of commands. The descriptor is non-blocking. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/chunk.h"
#include "engine/trace/listen.h"
#include "engine/trace/source_kind.h"

enum { RECEIVE_BYTES = 64 << 10 };

struct socket_source {
    int fd;
    struct bytes received; /* and not yet taken */
    struct bytes stored, unpacked;
    bool greeted, only_watches, wants_all;
    char path[108]; /* to attach again; "": it cannot */
};

/* SOURCE_RECORD: something has come; SOURCE_WAIT: nothing now; SOURCE_END: closed by the other side. */
static enum source_result receive(struct socket_source *socket, struct source_block *block)
{
    struct bytes *received = &socket->received;
    if (!bytes_reserve(received, RECEIVE_BYTES)) return source_fail(block, "no memory to follow the run");
    ssize_t count = recv(socket->fd, received->at + received->count, RECEIVE_BYTES, MSG_DONTWAIT);
    if (count > 0) {
        received->count += (size_t)count;
        return SOURCE_RECORD;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return SOURCE_WAIT;
    block->torn = received->count > 0;
    return SOURCE_END; /* a reset is an end too: the engine is gone */
}

static enum source_result take_greeting(struct socket_source *socket, struct source_block *block)
{
    struct error err;
    uint32_t flags;
    if (stream_head_read(socket->received.at, &flags, &err)) return source_fail(block, "%s", err.text);
    block->drives = flags & STREAM_DRIVES;
    socket->greeted = true;
    bytes_drop(&socket->received, STREAM_HEAD_BYTES);
    return SOURCE_RECORD;
}

/* Moves the first received chunk to socket->stored. SOURCE_WAIT: it is not whole yet. */
static enum source_result take_chunk(struct socket_source *socket, struct source_block *block)
{
    struct bytes *received = &socket->received;
    struct chunk_head head;
    if (received->count < CHUNK_HEAD_BYTES) return SOURCE_WAIT;
    if (chunk_head_read(&head, received->at) != CHUNK_GOOD)
        return source_fail(block, "the run sent something that is not a trace");
    if (received->count - CHUNK_HEAD_BYTES < head.stored_bytes) return SOURCE_WAIT;
    socket->stored.count = 0;
    if (!bytes_append(&socket->stored, received->at + CHUNK_HEAD_BYTES, head.stored_bytes))
        return source_fail(block, "no memory to follow the run");
    bytes_drop(received, CHUNK_HEAD_BYTES + head.stored_bytes);
    if (chunk_unpack(&head, socket->stored.at, &socket->unpacked, &block->records) != CHUNK_GOOD)
        return source_fail(block, "the run sent a damaged chunk");
    block->bytes = head.raw_bytes;
    return SOURCE_RECORD;
}

static int send_line(void *self, const char *line, size_t count, struct error *err)
{
    const struct socket_source *socket = self;
    for (size_t done = 0; done < count;) {
        ssize_t sent = send(socket->fd, line + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return error_set(err, STATUS_RUN, "the run does not take commands any more: %s", strerror(errno));
        done += (size_t)sent;
    }
    return STATUS_OK;
}

static int want_all(struct socket_source *socket, struct error *err)
{
    static const char line[] = STREAM_WANTS_ALL "\n";
    socket->wants_all = true;
    return send_line(socket, line, sizeof line - 1, err);
}

/* The chunk of LOG and GAP records that the reader gets where the connection broke. */
static enum source_result tell_break(struct socket_source *socket, struct source_block *block)
{
    static const char text[] = "the connection to the run broke and is back; what happened meanwhile is unknown";
    const struct trace_record gap = trace_gap(TRACE_RANK_ALL, 0, block->after_ns, clock_ns());
    const struct trace_record log = trace_log(1, text, gap.time_ns);
    socket->unpacked.count = 0;
    if (!trace_append(&socket->unpacked, &gap) || !trace_append(&socket->unpacked, &log))
        return source_fail(block, "no memory to follow the run");
    block->records = socket->unpacked.at;
    block->bytes = socket->unpacked.count;
    return SOURCE_RECORD;
}

/* False: no run listens there any more, or the run takes no more viewers (it did not send the stream's head). */
static bool reattach(struct socket_source *socket, struct source_block *block)
{
    int fd;
    if (block->ended || !socket->greeted || !*socket->path || connect_to(&fd, socket->path, socket->only_watches, NULL))
        return false;
    const bool same_number = dup3(fd, socket->fd, O_CLOEXEC) >= 0;
    close(fd);
    socket->received.count = 0;
    socket->greeted = block->torn = false;
    block->after_ns = block->newest_ns;
    return same_number && (!socket->wants_all || want_all(socket, NULL) == STATUS_OK);
}

static enum source_result next_block(void *self, struct source_block *block)
{
    struct socket_source *socket = self;
    for (;;) {
        enum source_result result = SOURCE_WAIT;
        if (socket->greeted) result = take_chunk(socket, block);
        else if (socket->received.count >= STREAM_HEAD_BYTES) result = take_greeting(socket, block);
        if (result == SOURCE_RECORD && block->bytes) return result;
        if (result == SOURCE_WAIT) result = receive(socket, block);
        if (result == SOURCE_END && reattach(socket, block)) return tell_break(socket, block);
        if (result != SOURCE_RECORD) return result;
    }
}

static int fd_of(const void *self)
{
    return ((const struct socket_source *)self)->fd;
}

static void close_socket(void *self)
{
    struct socket_source *socket = self;
    close(socket->fd);
    bytes_release(&socket->received);
    bytes_release(&socket->stored);
    bytes_release(&socket->unpacked);
    free(socket);
}

static const struct source_kind socket_kind = {
    .next = next_block, .fd = fd_of, .send = send_line, .close = close_socket};

static int adopt(struct source **out, int fd, bool only_watches, struct error *err)
{
    struct socket_source *socket = calloc(1, sizeof *socket);
    if (socket) *socket = (struct socket_source){.fd = fd, .only_watches = only_watches};
    else close(fd);
    return source_open(out, &socket_kind, socket, err);
}

int source_adopt_fd(struct source **out, int connected_fd, struct error *err)
{
    return adopt(out, connected_fd, false, err);
}

int source_open_socket(struct source **out, const char *path, bool only_watches, struct error *err)
{
    int fd, status = connect_to(&fd, path, only_watches, err);
    *out = NULL;
    if (!status) status = adopt(out, fd, only_watches, err);
    if (!status) source_reattach_at(*out, path);
    return status;
}

void source_reattach_at(struct source *source, const char *path)
{
    struct socket_source *socket = source_self(source, &socket_kind);
    if (socket && strlen(path) < sizeof socket->path) snprintf(socket->path, sizeof socket->path, "%s", path);
}

int source_want_all(struct source *source, struct error *err)
{
    struct socket_source *socket = source_self(source, &socket_kind);
    return socket ? want_all(socket, err) : error_set(err, STATUS_USAGE, "a replay has every record");
}
