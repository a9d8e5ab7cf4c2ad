/* Writes a trace file: takes records one by one, in time order, and writes them as chunks (one per step or quarter of a
 * second). The writer uses it for live runs; a simulator or an importer uses it directly:
 *
 *     trace_file_create(&file, path, &err)
 *     trace_file_put(file, &record, &err) ...
 *     trace_file_close(file, &err)
 *
 * An error (full disk) is returned once. The file is then cut back to its last whole chunk and later calls do nothing,
 * so a caller may ignore the results of later calls. */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/trace/chunk.h"

struct trace_file;

/* Whether another process writes this file as a trace. If not, this call locks the file for `fd`: two runs that write
 * one file would destroy both traces. Where files cannot be locked (NFS), the result is false. */
bool trace_file_is_anothers(int fd);

/* STATUS_USAGE: the file cannot be opened, or another run writes it. STATUS_RUN: no memory, or the disk failed. */
int trace_file_create(struct trace_file **out, const char *path, struct error *err);

/* Opens a trace to append after its last whole chunk; cuts off an index. STATUS_INPUT: not a trace of this version. STATUS_RUN: the
 * file cannot be opened, read or cut, another run writes it, or no memory. */
int trace_file_append(struct trace_file **out, const char *path, struct error *err);

int trace_file_put(struct trace_file *file, const struct trace_record *record, struct error *err);

/* The same for one whole record that is encoded already. */
int trace_file_put_encoded(struct trace_file *file, const void *record, struct error *err);

/* Upper bound of the file's length in bytes if it were closed now. */
uint64_t trace_file_bytes(const struct trace_file *file);

/* Length in bytes of the chunks that are written, without the open one. */
uint64_t trace_file_whole_bytes(const struct trace_file *file);

/* Writes the open chunk if it was begun more than a quarter of a second before now_ns. Call it a few times a second. */
int trace_file_tick(struct trace_file *file, uint64_t now_ns, struct error *err);

/* Writes the rest and the index, closes, frees. */
int trace_file_close(struct trace_file *file, struct error *err);

/* The same without the index: another process will continue the file with trace_file_append(). */
int trace_file_leave(struct trace_file *file, struct error *err);

/* Chunks of states (format.h), in memory. All-zero: none. */
struct trace_states { struct bytes sealed, entries; };

/* Seals `raw` as one more chunk of states, and empties it. Uses head's flags, step and times. False: no memory, or `raw` is longer
 * than CHUNK_BYTES_MAX. */
bool trace_states_put(struct trace_states *states, const struct chunk_head *head, struct bytes *raw);

/* Appends `states` and a new index to a file that ends with an index. The records stay where they are, so others may read the file
 * meanwhile. Does nothing if the file would be longer than most_bytes (0: no limit). STATUS_RUN: another process writes the file, the
 * file has no index, or it cannot be written; it is then unchanged. */
int trace_file_add_states(const char *path, const struct trace_states *states, uint64_t most_bytes, struct error *err);
void trace_states_release(struct trace_states *states);
