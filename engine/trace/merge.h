/* Merges many rings into one stream in time order. Each pass collects the records of all rings and releases those with
 * a time before the previous pass. A producer stamps a record a little before it emits it, so an older record may still
 * come: that is why the newest ~20 ms are held back. */
#ifndef ENGINE_TRACE_MERGE_H
#define ENGINE_TRACE_MERGE_H

#include "engine/base/bytes.h"
#include "engine/trace/ring.h"

struct merge;

struct merge *merge_new(void); /* NULL: no memory */
void merge_free(struct merge *merge);

/* Adds a ring, from any thread. False: no memory. */
bool merge_add(struct merge *merge, struct trace_ring *ring);

/* Collects, then appends whole records to *batch in time order; records with equal times
 * keep the order of their rings. `everything`: release all (the run's end). */
void merge_pass(struct merge *merge, uint64_t now_ns, bool everything, struct bytes *batch);

#endif
