/* A live run for the front end's own feed, without an engine: a thread writes chunks of records into a socket as fast as they are
 * read. */
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/trace/chunk.h"
#include "tests/support/synthetic.h"

struct feed_stream {
    int ends[2]; /* the reader's, the writer's */
    int ranks, steps;
    size_t chunk_bytes;
    uint64_t records; /* that were written; valid after feed_stream_join() */
    struct chunk chunk;
    struct bytes sealed;
    pthread_t thread;
};

static inline void feed_stream_put(struct feed_stream *stream, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t sent = send(stream->ends[1], (const char *)bytes + done, count - done, MSG_NOSIGNAL);
        if (sent <= 0) return;
        done += (size_t)sent;
    }
}

static inline void feed_stream_seal(struct feed_stream *stream)
{
    stream->sealed.count = 0;
    if (!chunk_seal(&stream->chunk, NULL, &stream->sealed)) abort();
    feed_stream_put(stream, stream->sealed.at, stream->sealed.count);
}

static inline void feed_stream_emit(void *user, const struct trace_record *record)
{
    struct feed_stream *stream = user;
    uint8_t bytes[64 << 10];
    if (trace_encoded_bytes(record) > sizeof bytes) abort();
    trace_encode(record, bytes);
    if (!chunk_append(&stream->chunk, bytes, trace_peek(bytes))) abort();
    stream->records++;
    if (stream->chunk.raw.count > stream->chunk_bytes) feed_stream_seal(stream);
}

static inline void *feed_stream_main(void *user)
{
    struct feed_stream *stream = user;
    struct synthetic run;
    uint8_t head[STREAM_HEAD_BYTES];
    stream_head_write(STREAM_DRIVES, head);
    feed_stream_put(stream, head, sizeof head);
    synthetic_start(&run, stream->ranks, 1, 20000000, feed_stream_emit, stream);
    for (int step = 1; step <= stream->steps; step++) synthetic_step(&run, (uint32_t)step);
    synthetic_close(&run, (uint32_t)stream->steps);
    feed_stream_seal(stream);
    shutdown(stream->ends[1], SHUT_WR);
    return NULL;
}

/* ends[0] is the caller's, and taken by source_adopt_fd(). False: no socket, or no thread. */
static inline bool feed_stream_start(struct feed_stream *stream, int ranks, int steps, size_t chunk_bytes)
{
    *stream = (struct feed_stream){.ranks = ranks, .steps = steps, .chunk_bytes = chunk_bytes};
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream->ends) == 0 &&
           pthread_create(&stream->thread, NULL, feed_stream_main, stream) == 0;
}

static inline void feed_stream_join(struct feed_stream *stream)
{
    pthread_join(stream->thread, NULL);
    close(stream->ends[1]);
    chunk_release(&stream->chunk);
    bytes_release(&stream->sealed);
}
