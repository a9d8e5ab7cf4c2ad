/* A run's socket and the connections of its viewers, on their way from an engine that ends to the one that goes on for it.
 * They are only descriptors, and descriptors outlive processes: whoever watches sees a pause, not an end.
 *
 *     the engine before                      the front end                     the engine after
 *     trace_writer_hand_over(writer, &all)
 *     handover_send(fd, &all)         --->   handover_receive(fd, &all)
 *     (ends)                                 handover_send(fd, &all)    --->   handover_receive(fd, &all)
 *                                            handover_release(&all)            trace_writer_start({.handed = &all ...}) */
#ifndef ENGINE_TRACE_HANDOVER_H
#define ENGINE_TRACE_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/bytes.h"
#include "engine/base/error.h"

/* A connection: what its end in the engine knew of it. */
struct handed_viewer {
    int fd;
    bool drives, gets_all, whole; /* as in struct viewer */
    uint32_t first_step;
    struct bytes unsent; /* of the stream, for it */
    struct bytes line;   /* the beginning of a command, from it */
};

enum { HANDOVER_VIEWERS = 32 };

struct handover {
    int listen_fd; /* -1: none */
    struct handed_viewer viewer[HANDOVER_VIEWERS];
    int viewers;
};

/* Both over a connected Unix stream socket. STATUS_RUN. The sender's descriptors stay open and its own. */
int handover_send(int fd, const struct handover *handover, struct error *err);
int handover_receive(int fd, struct handover *handover, struct error *err);

/* Closes what is still open, and frees. */
void handover_release(struct handover *handover);

#endif
