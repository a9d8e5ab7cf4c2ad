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

/* A stream holds records that come from elsewhere: of another machine, so later than those of the rings. Records are released only
 * up to the time until which every stream is whole. A stream that stays behind for three seconds is left out: what then comes too
 * late is lost, and a GAP record says so. All of it on the thread that calls merge_pass().
 *
 * merge_add_stream(): its number; -1: no memory. merge_put(): one whole record; records come in time order, as merge_pass() gives
 * them. merge_whole_until(): all records before that time have been put; UINT64_MAX: no more come. */
int merge_add_stream(struct merge *merge, uint64_t now_ns);
void merge_put(struct merge *merge, int stream, const void *record, size_t bytes);
void merge_whole_until(struct merge *merge, int stream, uint64_t time_ns);

/* All records before this time have been released. */
uint64_t merge_cut(const struct merge *merge);

/* Starts the thread that calls merge_pass(). Signals are for other threads; a file at its size limit then fails with an error
 * instead of killing the run (SIGXFSZ). False: it cannot be started. */
bool merge_start_thread(pthread_t *thread, void *(*run)(void *user), void *user);

/* Collects, then appends whole records to *batch in time order; records with equal times
 * keep the order of their rings. `everything`: release all (the run's end). */
void merge_pass(struct merge *merge, uint64_t now_ns, bool everything, struct bytes *batch);
