/* The live side of the writer: a Unix stream socket and the viewers connected to it. Everything happens on the writer's
 * thread, inside viewers_poll() and its sink; no call waits for a viewer. Each has its own queue of bytes not yet
 * sent. A viewer that reads too slowly is sent fewer records (thin.h), so its queue stays bounded; it is not cut off. One that has
 * asked for every record (STREAM_WANTS_ALL) has a queue without a bound, and viewers_lag() says when the run has to wait for it. */
#pragma once

#include "engine/trace/writer.h"

struct viewers;

/* Binds the socket of the options (if any) and adds the adopted driver (if any). */
int viewers_open(struct viewers **out, const struct trace_writer_options *options, struct error *err);

/* Waits until wake_fd is readable, a connection is ready, or timeout_ms have passed; then accepts viewers, reads
 * command lines and sends queued bytes. True: wake_fd is readable. */
bool viewers_poll(struct viewers *viewers, int wake_fd, int timeout_ms);

/* The viewers as a sink. put() queues records for every viewer and sends what the sockets take; also without records,
 * for a viewer that has caught up. end() gives viewers a second to read their queues, and the driver a minute: without
 * END it cannot report the outcome. Then end() closes all, removes the socket's path, and frees. */
struct sink viewers_sink(struct viewers *viewers);

/* Whether a viewer that gets every record lags so far that the run should wait for it. */
bool viewers_lag(const struct viewers *viewers);

/* Moves socket and connections, unchanged, to *handover. Afterwards only the sink's end() may be called. */
void viewers_hand_over(struct viewers *viewers, struct handover *handover);
