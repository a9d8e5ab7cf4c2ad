/* Where records come from: a trace file (finished, cut, or still growing), the socket of a live run, or what was kept of
 * one in memory (record_buffer.h). All have the same interface; source_kind.h says what a further kind has to give. Typical use:
 *
 *     struct source *source; struct trace_record record;
 *     if (source_open_file(&source, path, &err)) ...
 *     while (source_next(source, &record) == SOURCE_RECORD) run_run_model_fold(model, &record);
 *     source_close(source);
 */
#ifndef ENGINE_TRACE_SOURCE_H
#define ENGINE_TRACE_SOURCE_H

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/trace/record.h"

struct source;

enum source_result {
    SOURCE_RECORD, /* *record is valid until the next call */
    SOURCE_WAIT,   /* live: nothing more now; poll source_fd() */
    SOURCE_END,    /* file: end reached (source_torn() says if it was cut); socket: closed by the engine */
    SOURCE_BAD,    /* not usable from here on; source_error() says why */
};

/* A file is read chunk by chunk, each checked before a record of it is handed out. SOURCE_END at the end of a file that is
 * still growing is not final: call source_next() again later. */
int source_open_file(struct source **out, const char *path, struct error *err); /* STATUS_INPUT: missing, foreign, empty */
/* Sockets. STATUS_INPUT: no run listens there; STATUS_RUN: no socket, or no memory. The first may send commands unless another
 * viewer already may; the second only watches. */
int source_open_socket(struct source **out, const char *path, struct error *err);
int source_watch_socket(struct source **out, const char *path, struct error *err);
int source_adopt_fd(struct source **out, int connected_fd, struct error *err); /* takes the descriptor, also on error */

/* When a connection breaks before the run's END, source_next() connects again: to the path that the socket was opened with, or,
 * for an adopted descriptor, to `path` (copied). Records that were delivered are not repeated; a LOG and a GAP record mark the
 * break. source_fd() stays the same number. */
void source_reattach_at(struct source *source, const char *path);

enum source_result source_next(struct source *source, struct trace_record *record);

/* The record that source_next() gave last, encoded; valid until the next call. */
const void *source_encoded(const struct source *source);

/* File, memory: continues at `step`, or at the last step before it, or else at the start: first with the earlier records
 * that hold until replaced (RUN, SCHEDULE, BUDGET ...), then with all records from the step's start on. The consumer starts
 * with an empty state. STATUS_USAGE: a socket. */
int source_seek_step(struct source *source, uint32_t step, struct error *err);

/* File, memory: continues at the first STEP_BEGIN of exactly this step, with nothing before it: for a consumer that
 * already holds the state of that moment. STATUS_INPUT: the step is not there, or not any more. */
int source_resume_step(struct source *source, uint32_t step, struct error *err);

bool source_torn(const struct source *source);          /* file: it ended inside a chunk; what came before is whole */
const char *source_error(const struct source *source);  /* after SOURCE_BAD: one line; else "" */
bool source_drives(const struct source *source);        /* live: lines sent are commands (known after the first record) */
int source_fd(const struct source *source);             /* for poll(); -1: a file */

/* Live: sends a command line (at most 1023 bytes, without a newline). To one that only watches, the run answers with a LOG
 * record that says so. STATUS_USAGE: a replay, or not one line of at most 1023 bytes; STATUS_RUN: the connection is gone. */
int source_send(struct source *source, const char *command_line, struct error *err);

/* Live: asks the run to leave out nothing for this reader, and to wait for it if need be (viewers.h), as a report needs.
 * STATUS_USAGE: a replay; STATUS_RUN: the connection is gone. */
int source_want_all(struct source *source, struct error *err);
void source_close(struct source *source);

#endif
