/* Interface of a writer's outputs: the sinks of its options, the trace file, the viewers. The writer calls them one
 * after the other, on its own thread. */
#pragma once

#include "engine/base/bytes.h"
#include "engine/base/error.h"

struct sink {
    /* Takes whole encoded records in time order (trace_peek() and trace_decode() read them). The writer calls it about
     * fifty times a second, also without records. It may append records of its own: the sinks after it get them too. An
     * error ends the sink, not the run: the sinks after it get a LOG record that says why. */
    int (*put)(void *self, struct bytes *records, uint64_t now_ns, struct error *err);
    /* The last call; frees self. `goes_on`: another writer will continue. Errors as above; err may be NULL. */
    int (*end)(void *self, bool goes_on, struct error *err);
    void *self;
};

enum { TRACE_LIMIT_LEAST_BYTES = 1 << 20 }; /* the lowest --trace-limit */

/* Creates or appends to a trace file at `path`, of at most most_bytes (0: no limit). tell_growth: one LOG record says
 * how fast it grows. Errors as of trace_file_create() and trace_file_append(). */
struct file_sink_options { const char *path; bool append, tell_growth; uint64_t most_bytes; };
int file_sink_open(struct sink *out, const struct file_sink_options *options, struct error *err);

/* ---- viewers.c: the live side of the writer: a Unix stream socket and the viewers connected to it. Everything happens on the writer's
 * thread, inside viewers_poll() and the sink. Only end() waits for viewers. Each viewer has its own queue of bytes not
 * yet sent. A viewer that reads too slowly is sent fewer records (thin.h), so its queue stays bounded; it is not cut off. The queue of a
 * viewer that asked for every record (STREAM_WANTS_ALL) has no bound; viewers_lag() says when the run has to wait for this viewer. ---- */

struct viewers;
struct handover;             /* handover.h */
struct trace_writer_options; /* writer.h */

/* Takes the socket and viewers of options->handed (if any), or binds options->socket (if any); adds options->adopted_fd (if any). */
int viewers_open(struct viewers **out, const struct trace_writer_options *options, struct error *err);

/* Waits until wake_fd is readable, a connection is ready, or timeout_ms have passed; then accepts viewers, reads
 * command lines and sends queued bytes. True: wake_fd is readable. */
bool viewers_poll(struct viewers *viewers, int wake_fd, int timeout_ms);

/* The viewers as a sink. put() queues records for every viewer and sends what the sockets take. Call it without records too: then it
 * resumes classes of records that were left out (thin.h) for viewers that have caught up. end() gives viewers a second to read their
 * queues. The driver and viewers that asked for every record get a minute, because they report the outcome, which is in END. end()
 * also removes the socket's path, closes all connections and frees. */
struct sink viewers_sink(struct viewers *viewers);

/* Whether a viewer that gets every record lags so far that the run should wait for it. */
bool viewers_lag(const struct viewers *viewers);

/* Moves socket and connections, unchanged, to *handover. Afterwards only the sink's end() may be called. */
void viewers_hand_over(struct viewers *viewers, struct handover *handover);
