/* One lane's way into the trace: a single-producer single-consumer ring of encoded records in memory that the writer of
 * the node can see (shared memory between processes). Emitting never blocks, never allocates, never calls the kernel:
 * when the ring is full the record is counted as lost, and a gap record says so later. */
#ifndef ENGINE_TRACE_RING_H
#define ENGINE_TRACE_RING_H

#include "engine/trace/record.h"

struct trace_ring;

/* Lays a ring over memory of `bytes` (its header included; 64-byte aligned). Returns it; nothing to free. */
struct trace_ring *trace_ring_init(void *memory, size_t bytes);

/* Producer. ring may be NULL (telemetry off). A record larger than the ring is lost. */
void trace_emit(struct trace_ring *ring, const struct trace_record *record);

/* Consumer: bytes that wait to be drained now (whole records). */
size_t trace_ring_waiting(const struct trace_ring *ring);

/* Consumer: copies the oldest whole records, at most `room` bytes, to out; returns the bytes. */
size_t trace_ring_drain(struct trace_ring *ring, void *out, size_t room);

/* Records lost since the last call, and in *since_ns the time of the first. */
uint64_t trace_ring_lost(struct trace_ring *ring, uint64_t *since_ns);

#endif
