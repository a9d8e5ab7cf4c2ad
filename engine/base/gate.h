/* How far a step may go: two words in memory that the ranks of one machine share. Rank 0 moves them, everybody reads.
 *
 * The limit. An operation may start when its number in the list is below the limit; a lane that has come to the end of the
 * list waits like an operation of the number after the last. Normally the limit is GATE_OPEN, and the gate costs one
 * relaxed load for each operation. Rank 0 lowers it only while every rank stands between two steps, and then raises it,
 * one by one: stepping by operations.
 *
 * Whatever the limit K, exactly the operations with numbers below K get done, on every rank; so waiting at the gate cannot deadlock.
 * Suppose some are never done, and let i be the lowest-numbered of them on any rank. All with lower numbers are done on every rank.
 * What i depends on, and what comes before it on its lane, stands before it in the list: done. The gate lets it start,
 * since i < K. If it is a collective, its other ranks have it as their lowest one too and come to it for the same reasons.
 * So i gets done: there is no such i.
 *
 * The haste. Once set, nothing is paced or slowed any more: the run is to end at the next boundary, soon. */
#ifndef ENGINE_BASE_GATE_H
#define ENGINE_BASE_GATE_H

#include <stdbool.h>

#include "engine/base/futex.h"

#define GATE_OPEN UINT32_MAX

struct gate { _Atomic uint32_t limit, haste; };

/* By rank 0, while every rank stands between two steps. */
static inline void gate_close(struct gate *gate, uint32_t limit)
{
    atomic_store(&gate->limit, limit);
}

/* From here on by anyone, at any time: letting more happen is safe. Never lowers it, so that who opens it is not undone. */
static inline void gate_raise(struct gate *gate, uint32_t limit)
{
    uint32_t now = atomic_load(&gate->limit);
    while (now < limit && !atomic_compare_exchange_weak(&gate->limit, &now, limit)) continue;
    futex_wake_all(&gate->limit);
}

static inline void gate_hurry(struct gate *gate)
{
    atomic_store(&gate->haste, 1);
    futex_wake_all(&gate->haste);
}

static inline uint32_t gate_limit(struct gate *gate)
{
    return atomic_load_explicit(&gate->limit, memory_order_relaxed);
}

static inline bool gate_lets(struct gate *gate, uint32_t number)
{
    return number < gate_limit(gate);
}

/* Asleep until the limit moves, for at most so long. */
static inline void gate_wait(struct gate *gate, uint32_t number, uint64_t timeout_ns)
{
    uint32_t limit = gate_limit(gate);
    if (number >= limit) futex_wait(&gate->limit, limit, timeout_ns);
}

#endif
