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
#include "engine/trace/thin.h"

struct viewer_terms {
    bool drives;
    bool gets_all;       /* asked for all records: none is left out, and the run waits for this viewer */
    bool whole;          /* gets every record; else it attached within a step and does not get that step's operations */
    uint32_t first_step; /* not whole: the first step that it gets from the start */
};

enum { VIEWERS_MAX = 32, LINE_BYTES_MAX = 1024 };

struct viewer {
    int fd;
    struct viewer_terms terms;
    struct bytes queue; /* bytes of the stream for this viewer */
    size_t sent;        /* bytes of the queue already sent. Only the rest is handed over, and it is not thinned */
    struct thin thin;
    char line[LINE_BYTES_MAX]; /* the beginning of a command line that it has sent */
    size_t line_bytes;         /* LINE_BYTES_MAX: too long, skipping to its end */
};

struct handover {
    int listen_fd; /* -1: none */
    struct viewer viewer[VIEWERS_MAX];
    int viewers;
};

/* Send and receive over a connected Unix stream socket. The sender's descriptors stay open. STATUS_RUN: the socket failed. */
int handover_send(int fd, const struct handover *handover, struct error *err);
int handover_receive(int fd, struct handover *handover, struct error *err);

/* Closes the descriptors that are still open, and frees the buffers. */
void handover_release(struct handover *handover);
