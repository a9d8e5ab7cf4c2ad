/* Reads records from a trace file (finished, cut, or still growing), the socket of a live run, or a record buffer in
 * memory (record_buffer.h). source_kind.h says what a new kind implements. Typical use:
 *
 *     struct source *source; struct trace_record record;
 *     if (source_open_file(&source, path, &err)) ...
 *     while (source_next(source, &record) == SOURCE_RECORD) run_model_fold(model, &record);
 *     source_close(source);
 */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/trace/record.h"

struct source;

enum source_result {
    SOURCE_RECORD, /* *record is valid until the next call */
    SOURCE_WAIT,   /* live: no record now; poll source_fd() */
    SOURCE_END,    /* file: end reached (source_torn() says if it was cut); socket: closed by the engine */
    SOURCE_BAD,    /* not usable from here on; source_error() says why */
};

/* A file is read chunk by chunk; each chunk is checked before its records are returned. SOURCE_END at the end of a file
 * that is still growing is not final: call source_next() again later. */
int source_open_file(struct source **out, const char *path, struct error *err); /* STATUS_INPUT: missing, foreign, empty */
/* Sockets. STATUS_INPUT: no run listens there; STATUS_RUN: no socket, or no memory. The source may send commands unless another
 * viewer already drives the run, or only_watches is set. */
int source_open_socket(struct source **out, const char *path, bool only_watches, struct error *err);
int source_adopt_fd(struct source **out, int connected_fd, struct error *err); /* owns the descriptor from here on, also on error */

/* If a connection breaks before the run's END, source_next() connects again: to the path it was opened with, or, for an
 * adopted descriptor, to `path` (copied). No record is delivered twice; a LOG and a GAP record mark the break.
 * source_fd() stays the same number. */
void source_reattach_at(struct source *source, const char *path);

enum source_result source_next(struct source *source, struct trace_record *record);

/* The record that source_next() returned last, encoded; valid until the next call. */
const void *source_encoded(const struct source *source);

/* File, memory: continues at the first STEP_BEGIN of `step` and skips earlier records. The consumer must already have the state of
 * that moment. SOURCE_LAST_STEP: continues at the last step, or at the start of a trace without steps. STATUS_INPUT: the step is not
 * there, or no longer kept. STATUS_USAGE: a socket. */
#define SOURCE_LAST_STEP UINT32_MAX
int source_resume_step(struct source *source, uint32_t step, struct error *err);

/* File: lists its chunks of states (format.h) in order. The caller frees *out. Returns how many there are; 0: none, or no index. */
struct trace_state { uint64_t offset, time_ns; uint32_t step, flags; };
int source_states(struct source *source, struct trace_state **out);
/* The contents of one of these chunks, valid until the next call for this source. NULL: damaged. */
const uint8_t *source_state(struct source *source, const struct trace_state *state, size_t *bytes);

bool source_torn(const struct source *source);          /* file: it ended inside a chunk; what came before is whole */
const char *source_error(const struct source *source);  /* after SOURCE_BAD: one line; else "" */
bool source_drives(const struct source *source);        /* live: lines sent are commands (known after the first record) */
int source_fd(const struct source *source);             /* for poll(); -1: a file or a record buffer */

/* Live: sends a command line (at most 1023 bytes, without a newline). A viewer that only watches gets a LOG record as
 * answer. STATUS_USAGE: a replay, or not such a line; STATUS_RUN: the connection is gone. */
int source_send(struct source *source, const char *command_line, struct error *err);

/* Live: asks the run to leave out no record for this reader, and to wait for it if it lags (sink.h). Reports need
 * this. STATUS_USAGE: a replay; STATUS_RUN: the connection is gone. */
int source_want_all(struct source *source, struct error *err);
void source_close(struct source *source);
