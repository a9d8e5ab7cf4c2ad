/* The live side of the writer: a Unix stream socket and the viewers connected to it. Everything happens on the writer's
 * thread, inside viewers_poll() and viewers_send(); no call waits for a viewer. Each has its own queue of bytes not yet
 * sent. A viewer that reads too slowly is sent fewer records (thin.h), so its queue stays bounded; it is not cut off. One that has
 * asked for every record (STREAM_WANTS_ALL) has a queue without a bound, and viewers_lag() says when the run has to wait for it. */
#ifndef ENGINE_TRACE_VIEWERS_H
#define ENGINE_TRACE_VIEWERS_H

#include "engine/base/bytes.h"
#include "engine/trace/latest_records.h"
#include "engine/trace/writer.h"

struct viewers;

/* Binds the socket of the options (if any) and seats the adopted driver (if any). */
int viewers_open(struct viewers **out, const struct trace_writer_options *options, const struct latest_records *latest, struct error *err);

/* Waits until wake_fd is readable, something happens on a connection, or timeout_ms have passed; then accepts, reads
 * command lines and sends what is queued. True: wake_fd is readable. */
bool viewers_poll(struct viewers *viewers, int wake_fd, int timeout_ms);

/* Queues whole records for every viewer and sends what their sockets take. To be called after each pass, also without
 * records: a viewer that has caught up is then sent what it missed. */
void viewers_send(struct viewers *viewers, const struct bytes *records);

/* Much waits for a viewer that is to get every record. */
bool viewers_lag(const struct viewers *viewers);

/* Takes socket and connections away, unchanged; then only viewers_close() may follow. */
void viewers_hand_over(struct viewers *viewers, struct handover *handover);

/* Gives viewers at most linger_ms to read what is queued, and the driver at most a minute: without the end of the stream it
 * cannot say what became of the run. Then closes everything and removes the socket's path. */
void viewers_close(struct viewers *viewers, int linger_ms);

#endif
