/* Passes a run's listening socket and the connections of its viewers from an engine that ends to the one that is
 * relaunched. These are file descriptors, which outlive processes: a viewer sees a pause, not the end of the stream.
 *
 *     the engine before                      the front end                     the engine after
 *     trace_writer_hand_over(writer, &all)
 *     handover_send(fd, &all)         --->   handover_receive(fd, &all)
 *     (ends)                                 handover_send(fd, &all)    --->   handover_receive(fd, &all)
 *                                            handover_release(&all)            trace_writer_start({.handed = &all ...}) */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/bytes.h"
#include "engine/base/error.h"

/* A viewer's connection, and the state that the engine kept for it. */
struct handed_viewer {
    int fd;
    bool drives, gets_all, whole; /* as in struct viewer */
    uint32_t first_step;
    struct bytes unsent; /* bytes of the stream queued for this viewer */
    struct bytes line;   /* the beginning of a command line that this viewer has sent */
};

enum { HANDOVER_VIEWERS = 32 };

struct handover {
    int listen_fd; /* -1: none */
    struct handed_viewer viewer[HANDOVER_VIEWERS];
    int viewers;
};

/* Send and receive over a connected Unix stream socket. STATUS_RUN: failed. The sender's descriptors stay open. */
int handover_send(int fd, const struct handover *handover, struct error *err);
int handover_receive(int fd, struct handover *handover, struct error *err);

/* Closes the descriptors that are still open, and frees the buffers. */
void handover_release(struct handover *handover);
