/* The ring counts bytes ever written (head, stored by the producer only) and ever read (tail, by the consumer only); a
 * position is a counter modulo the capacity, and records may wrap around the end. Head is stored with release after the
 * bytes, and loaded with acquire before they are read; tail the other way round. A producer killed between two stores
 * leaves whole records only. Nothing here is a pointer, so the memory may be mapped anywhere in any process. */
#include "engine/trace/ring.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

struct trace_ring {
    uint64_t capacity;
    alignas(64) _Atomic uint64_t head; /* producer's line */
    uint64_t tail_seen;                /* producer's last look at tail: spares it the consumer's cache line */
    _Atomic uint64_t lost;             /* ever */
    _Atomic uint64_t lost_since_ns;
    alignas(64) _Atomic uint64_t tail; /* consumer's line */
    _Atomic uint64_t lost_told;        /* of `lost`, how many the consumer knows */
    alignas(64) unsigned char bytes[];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock in shared memory would be per process");

struct trace_ring *trace_ring_init(void *memory, size_t bytes)
{
    struct trace_ring *ring = memory;
    ring->capacity = bytes > sizeof *ring ? bytes - sizeof *ring : 0;
    ring->tail_seen = 0;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->lost, 0);
    atomic_init(&ring->lost_told, 0);
    atomic_init(&ring->lost_since_ns, 0);
    return ring;
}

static void copy_in(struct trace_ring *ring, uint64_t position, const void *from, size_t bytes)
{
    size_t at = position % ring->capacity, first = ring->capacity - at;
    if (first > bytes) first = bytes;
    memcpy(ring->bytes + at, from, first);
    if (bytes > first) memcpy(ring->bytes, (const char *)from + first, bytes - first);
}

static void copy_out(const struct trace_ring *ring, uint64_t position, void *to, size_t bytes)
{
    size_t at = position % ring->capacity, first = ring->capacity - at;
    if (first > bytes) first = bytes;
    memcpy(to, ring->bytes + at, first);
    if (bytes > first) memcpy((char *)to + first, ring->bytes, bytes - first);
}

/* The time is stored only by the first loss since the consumer last asked. Should the consumer ask between these two
 * loads, its next answer says the earlier time again: a gap is then drawn too long, never too short. */
static void count_lost(struct trace_ring *ring, uint64_t time_ns)
{
    uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_relaxed);
    if (lost == atomic_load_explicit(&ring->lost_told, memory_order_acquire))
        atomic_store_explicit(&ring->lost_since_ns, time_ns, memory_order_relaxed);
    atomic_store_explicit(&ring->lost, lost + 1, memory_order_release);
}

void trace_emit(struct trace_ring *ring, const struct trace_record *record)
{
    if (!ring) return;
    unsigned char fixed[TRACE_FIXED_MAX];
    struct trace_text text;
    size_t fixed_bytes = trace_encode_fixed(record, fixed, &text), bytes = fixed_bytes + text.bytes;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (ring->capacity - (head - ring->tail_seen) < bytes)
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (ring->capacity - (head - ring->tail_seen) < bytes) {
        count_lost(ring, record->time_ns);
        return;
    }
    copy_in(ring, head, fixed, fixed_bytes);
    if (text.bytes) copy_in(ring, head + fixed_bytes, text.at, text.bytes);
    atomic_store_explicit(&ring->head, head + bytes, memory_order_release);
}

size_t trace_ring_waiting(const struct trace_ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t waiting = atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
    return waiting <= ring->capacity ? waiting
                                     : 0; /* else the memory was overwritten by a stray store: trust nothing */
}

/* Of the `waiting` bytes from `tail` on, how many make whole records within `room`. */
static size_t whole_records(const struct trace_ring *ring, uint64_t tail, size_t waiting, size_t room)
{
    size_t whole = 0;
    while (waiting - whole >= TRACE_HEAD_BYTES) {
        unsigned char head[TRACE_HEAD_BYTES];
        copy_out(ring, tail + whole, head, sizeof head);
        size_t bytes = trace_peek(head).bytes;
        if (bytes < TRACE_HEAD_BYTES || bytes > room - whole) break;
        whole += bytes;
    }
    return whole;
}

size_t trace_ring_drain(struct trace_ring *ring, void *out, size_t room)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t waiting = trace_ring_waiting(ring);
    size_t bytes = waiting <= room ? waiting : whole_records(ring, tail, waiting, room);
    if (!bytes) return 0;
    copy_out(ring, tail, out, bytes);
    atomic_store_explicit(&ring->tail, tail + bytes, memory_order_release);
    return bytes;
}

uint64_t trace_ring_lost(struct trace_ring *ring, uint64_t *since_ns)
{
    uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_acquire);
    uint64_t told = atomic_load_explicit(&ring->lost_told, memory_order_relaxed);
    *since_ns = atomic_load_explicit(&ring->lost_since_ns, memory_order_relaxed);
    atomic_store_explicit(&ring->lost_told, lost, memory_order_release);
    return lost - told;
}
