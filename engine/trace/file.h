/* The trace file as a sink: records go in one by one, in time order, and come out as chunks (one per step or quarter of a
 * second). The writer uses it for live runs; what makes a whole trace at once (simulator, import) uses it directly:
 *
 *     trace_file_create(&file, path, &err)
 *     trace_file_put(file, &record, &err) ...
 *     trace_file_close(file, &err)
 *
 * An error (full disk) is said once; the file is cut back to its last whole chunk and later calls do nothing, so a caller
 * may ignore every result but the one it reports. */
#ifndef ENGINE_TRACE_FILE_H
#define ENGINE_TRACE_FILE_H

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/trace/record.h"

struct trace_file;

/* Whether another process writes this file as a trace; else it is held for `fd`. Two runs that write one file would leave the
 * trace of neither. Where files cannot be locked (NFS), this goes unnoticed. */
bool trace_file_is_anothers(int fd);

int trace_file_create(struct trace_file **out, const char *path, struct error *err);

/* Goes on with a trace that ends in the middle of its run: behind its last whole chunk. STATUS_RUN: it is not there, or not one. */
int trace_file_append(struct trace_file **out, const char *path, struct error *err);

int trace_file_put(struct trace_file *file, const struct trace_record *record, struct error *err);

/* One record that is encoded already and whole. */
int trace_file_put_encoded(struct trace_file *file, const void *record, struct error *err);

/* How long the file would be at most if it were closed now. */
uint64_t trace_file_bytes(const struct trace_file *file);

/* Writes out what has waited longer than a quarter of a second; call it now and then. */
int trace_file_tick(struct trace_file *file, uint64_t now_ns, struct error *err);

/* Writes the rest and the index, closes, frees. */
int trace_file_close(struct trace_file *file, struct error *err);

/* Writes the rest, closes, frees; somebody else goes on (trace_file_append()). */
int trace_file_leave(struct trace_file *file, struct error *err);

#endif
