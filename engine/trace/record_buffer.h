/* The newest records of a live run, encoded, in bounded memory, in chunks of a step. When the buffer is full it drops the oldest
 * steps, but keeps those of their records that still hold (run header, schedules, budgets). So a reader can open the buffer like a
 * trace file at any time while it grows, and its records can be written to a trace file.
 *
 *     struct record_buffer *buffer = record_buffer_new(0);
 *     while (source_next(live, &record) == SOURCE_RECORD) record_buffer_put(buffer, source_encoded(live));
 *     source_open_buffer(&source, buffer, &err);
 *     source_resume_step(source, 12, &err); */
#pragma once

#include "engine/trace/source.h"

struct record_buffer;

enum { RECORD_BUFFER_BYTES = 24 << 20 }; /* kept when the caller says 0 */

struct record_buffer *record_buffer_new(size_t bytes); /* NULL: no memory */
void record_buffer_free(struct record_buffer *buffer);

/* Copies one whole encoded record; drops the oldest steps first if the buffer is full. False: no memory, the record was lost. */
bool record_buffer_put(struct record_buffer *buffer, const void *record);

size_t record_buffer_bytes(const struct record_buffer *buffer);
uint32_t record_buffer_first_step(const struct record_buffer *buffer); /* the oldest step kept in full; 0: none */
bool record_buffer_is_cut(const struct record_buffer *buffer);         /* records were dropped */

/* Reads the records kept, then those put later; SOURCE_END is not final. The buffer outlives the source. */
int source_open_buffer(struct source **out, const struct record_buffer *buffer, struct error *err);
