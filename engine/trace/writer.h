/* The writer of a node: one thread that drains every lane's ring in time order, in chunks, to a file and to whoever is
 * connected to a Unix socket (mode 0600; the first viewer that may drives: its lines are commands; others watch). A viewer
 * that attaches in mid-run gets the run header, the last schedules and the memory of every category first. A viewer that
 * reads too slowly is sent fewer records (thin.h); the file has all of them. A full disk ends the file with one warning,
 * never the run. */
#ifndef ENGINE_TRACE_WRITER_H
#define ENGINE_TRACE_WRITER_H

#include "engine/base/error.h"
#include "engine/trace/handover.h"
#include "engine/trace/ring.h"
#include "engine/trace/sink.h"

struct trace_writer;

enum { WRITER_SINKS_MAX = 4 };

struct trace_writer_options {
    const char *file;    /* NULL: no file */
    uint64_t file_limit_bytes; /* recording stops before the file is longer; 0: no limit */
    bool tell_growth;    /* of the file, once, as a line of the log */
    const struct sink *sinks; /* beside file and viewers, at most WRITER_SINKS_MAX; the writer ends them, also if it cannot start */
    int sink_count;
    const char *socket;  /* NULL: no socket */
    struct handover *handed; /* goes on for another writer, with its file, socket and viewers, which are taken; NULL: begins */
    int adopted_fd;      /* an already connected stream socket that drives from the start (socketpair of the parent); -1: none */
    /* Called on the writer's thread with each command line of the driver (NUL-terminated, no newline). */
    void (*on_command)(void *user, const char *line);
    /* Both may be NULL, and are called on the writer's thread too: a viewer that connected drives; the
     * driver's connection has ended (the next viewer to connect will drive). */
    void (*on_driver)(void *user);
    void (*on_driver_gone)(void *user);
    void *user;
};

/* STATUS_USAGE: the file or the socket cannot be made, or there are too many sinks (the text says why). adopted_fd is taken in any
 * case. */
int trace_writer_start(struct trace_writer **out, const struct trace_writer_options *options, struct error *err);

/* Rings may be added at any time, from any thread; their memory stays the caller's and outlives the writer. */
void trace_writer_add_ring(struct trace_writer *writer, struct trace_ring *ring);

/* Any thread. Much waits for a viewer that has asked for every record: the run should wait for it. */
bool trace_writer_lags(const struct trace_writer *writer);

/* Processor time that its thread has taken so far. */
uint64_t trace_writer_processor_ns(const struct trace_writer *writer);

/* Once every producer has emitted its last record: drains what is left, writes the index, closes file and socket (removes
 * its path), joins the thread, frees. */
void trace_writer_stop(struct trace_writer *writer);

/* The same, but another writer will go on: the file has no index yet, socket and connections are in *handover (the caller
 * releases it). False: the file had ended, because the disk is full. */
bool trace_writer_hand_over(struct trace_writer *writer, struct handover *handover);

#endif
