/* The live side of the writer: a Unix stream socket and the viewers connected to it. Everything happens on the writer's
 * thread, inside viewers_poll() and its sink; no call waits for a viewer. Each has its own queue of bytes not yet
 * sent. A viewer that reads too slowly is sent fewer records (thin.h), so its queue stays bounded; it is not cut off. One that has
 * asked for every record (STREAM_WANTS_ALL) has a queue without a bound, and viewers_lag() says when the run has to wait for it. */
#ifndef ENGINE_TRACE_VIEWERS_H
#define ENGINE_TRACE_VIEWERS_H

#include "engine/base/bytes.h"
#include "engine/trace/writer.h"

struct viewers;

/* Binds the socket of the options (if any) and seats the adopted driver (if any). */
int viewers_open(struct viewers **out, const struct trace_writer_options *options, struct error *err);

/* Waits until wake_fd is readable, something happens on a connection, or timeout_ms have passed; then accepts, reads
 * command lines and sends what is queued. True: wake_fd is readable. */
bool viewers_poll(struct viewers *viewers, int wake_fd, int timeout_ms);

/* Queues whole records for every viewer and sends what their sockets take; without records too, so that a viewer which has caught up
 * is sent what it missed. Its end gives viewers a second to read what is queued, and the driver a minute: without the end of the stream
 * it cannot say what became of the run. Then it closes everything, removes the socket's path, and frees. */
struct sink viewers_sink(struct viewers *viewers);

/* Much waits for a viewer that is to get every record. */
bool viewers_lag(const struct viewers *viewers);

/* Takes socket and connections away, unchanged; then only the end of its sink may follow. */
void viewers_hand_over(struct viewers *viewers, struct handover *handover);

#endif
