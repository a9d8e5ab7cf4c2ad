/* Many rings, one stream in time order. Each pass collects what the rings hold and releases what can no longer be
 * overtaken: records from before the pass before. A producer takes a record's time a little before it emits it, so the
 * last ~20 ms stay held back for whatever has been stamped but not emitted yet. */
#ifndef ENGINE_TRACE_MERGE_H
#define ENGINE_TRACE_MERGE_H

#include "engine/base/bytes.h"
#include "engine/trace/ring.h"

struct merge;

struct merge *merge_new(void); /* NULL: no memory */
void merge_free(struct merge *merge);

/* From any thread; false: no memory. */
bool merge_add(struct merge *merge, struct trace_ring *ring);

/* Collects, then appends to *batch whole records in time order, stable. `everything`: hold nothing back (the end). */
void merge_pass(struct merge *merge, uint64_t now_ns, bool everything, struct bytes *batch);

#endif
