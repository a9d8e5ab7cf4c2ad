/* Merges many rings into one stream in time order. Each pass collects the records of all rings and releases those with
 * a time before the previous pass. A producer stamps a record a little before it emits it, so an older record may still
 * come: that is why the newest ~20 ms are held back. */
#pragma once

#include <pthread.h>

#include "engine/base/bytes.h"
#include "engine/trace/ring.h"

struct merge;

struct merge *merge_new(void); /* NULL: no memory */
void merge_free(struct merge *merge);

/* Adds a ring, from any thread. False: no memory. */
bool merge_add(struct merge *merge, struct trace_ring *ring);

/* A stream holds the records of another machine. They arrive later than those of the rings, so merge_pass() waits for them: it
 * releases only records that are older than what every stream has delivered (merge_whole_until()). It waits three seconds for a stream at
 * most. Records that come later than that are lost, and a GAP record says so. Once a thread calls merge_pass(), only it may call these
 * functions.
 *
 * merge_add_stream(): returns the stream's number; -1: no memory. merge_put(): adds one whole record, in time order.
 * merge_whole_until(): says that all records before time_ns have been put; UINT64_MAX: no more will come. */
int merge_add_stream(struct merge *merge, uint64_t now_ns);
void merge_put(struct merge *merge, int stream, const void *record, size_t bytes);
void merge_whole_until(struct merge *merge, int stream, uint64_t time_ns);

/* The time before which all records have been released. */
uint64_t merge_cut(const struct merge *merge);

/* Starts the thread that calls merge_pass(). The thread blocks all signals. So a write beyond the limit of file sizes fails with an
 * error; SIGXFSZ does not kill the run. False: the thread cannot be started. */
bool merge_start_thread(pthread_t *thread, void *(*run)(void *user), void *user);

/* Collects, then appends whole records to *batch in time order; records with equal times
 * keep the order of their rings. `everything`: release all (the run's end). */
void merge_pass(struct merge *merge, uint64_t now_ns, bool everything, struct bytes *batch);
