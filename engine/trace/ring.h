/* A single-producer single-consumer ring of encoded records. Each producer of a rank has one (engine/zero/zero.h). Most lie in memory
 * that all ranks of the machine map. Rank 0's writer, or the machine's relay (relay.h), drains them. Emitting never blocks,
 * allocates or calls the kernel: when the ring is full, the record is counted as lost, and a GAP record says so later. */
#pragma once

#include "engine/trace/record.h"

struct trace_ring;

/* Makes a ring in `memory`: `bytes` bytes with the ring's header, 64-byte aligned. The caller keeps owning it. */
struct trace_ring *trace_ring_init(void *memory, size_t bytes);

/* Producer: writes a record. ring NULL: tracing is off. A record larger than the ring is lost. */
void trace_emit(struct trace_ring *ring, const struct trace_record *record);

/* Consumer: bytes of the whole records that can be drained now. */
size_t trace_ring_waiting(const struct trace_ring *ring);

/* Consumer: copies the oldest whole records, at most `room` bytes, to out; returns the bytes. */
size_t trace_ring_drain(struct trace_ring *ring, void *out, size_t room);

/* Consumer: returns how many records were lost since the last call; *since_ns is the time of the first. */
uint64_t trace_ring_lost(struct trace_ring *ring, uint64_t *since_ns);
