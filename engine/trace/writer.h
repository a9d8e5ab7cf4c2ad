/* The writer of a run: one thread that drains the rings of its machine, receives the records of other machines (relay.h), and writes
 * all in time order, in chunks, to a file and to viewers. Viewers connect to a Unix socket (mode 0600). The first viewer that asks to
 * drive may send commands; the others only watch. A viewer that attaches in mid-run first gets the run header, the last schedules and
 * the memory of every category. A viewer that reads too slowly is sent fewer records (thin.h); the file has all of them. A full disk
 * ends the file with one warning, never the run. */
#pragma once

#include "engine/base/error.h"
#include "engine/trace/handover.h"
#include "engine/trace/relay.h"
#include "engine/trace/ring.h"
#include "engine/trace/sink.h"

struct trace_writer;

enum { WRITER_SINKS_MAX = 4 };

struct trace_writer_options {
    const char *file;    /* NULL: no file */
    uint64_t file_limit_bytes; /* recording stops before the file is longer; 0: no limit */
    bool tell_growth;    /* write one LOG record that says how fast the file grows */
    const struct trace_port *port; /* receives the records of other machines (relay.h); NULL: there are none */
    const struct sink *sinks; /* beside file and viewers, at most WRITER_SINKS_MAX; the writer ends them, also if it cannot start */
    int sink_count;
    const char *socket;  /* NULL: no socket */
    struct handover *handed; /* continue another writer: take its file, socket and viewers; NULL: begin */
    int adopted_fd;      /* an already connected stream socket that drives from the start (socketpair of the parent); -1: none */
    /* Called on the writer's thread with each command line of the driver (NUL-terminated, no newline). */
    void (*on_command)(void *user, const char *line);
    /* Both may be NULL; called on the writer's thread too. on_driver: a viewer that connected drives. on_driver_gone:
     * the driver's connection has ended (the next viewer to connect will drive). */
    void (*on_driver)(void *user);
    void (*on_driver_gone)(void *user);
    void *user;
};

/* STATUS_USAGE: the file or the socket cannot be made, or there are too many sinks (the text says why). STATUS_RUN: no memory or no
 * thread. The writer owns adopted_fd from here on, also after an error. */
int trace_writer_start(struct trace_writer **out, const struct trace_writer_options *options, struct error *err);

/* Adds a ring, at any time and from any thread. The caller owns the ring's memory, which must outlive the writer. */
void trace_writer_add_ring(struct trace_writer *writer, struct trace_ring *ring);

/* From any thread: whether a viewer that asked for every record lags so far that the run should wait for it. */
bool trace_writer_lags(const struct trace_writer *writer);

/* CPU time of the writer's thread so far. */
uint64_t trace_writer_processor_ns(const struct trace_writer *writer);

/* Call it after every producer has emitted its last record: drains the rings, writes the index, closes file and socket
 * (removes its path), joins the thread, frees. */
void trace_writer_stop(struct trace_writer *writer);

/* The same, but another writer will continue: the file gets no index; socket and connections move to *handover (the
 * caller releases it). False: the file ended earlier, because the disk was full. */
bool trace_writer_hand_over(struct trace_writer *writer, struct handover *handover);
