/* Limits how far a step may go: three words in memory that all ranks of a machine share. Rank 0 sets them, all ranks read them.
 *
 * limit: an operation may start when its number in the list is lower than the limit; a lane at the end of the list waits as
 * if for one more operation. Normally the limit is GATE_OPEN, and the gate costs one relaxed load for each operation. To step
 * by operations, rank 0 lowers the limit while all ranks are between two steps, and then raises it one by one.
 *
 * With any limit K, exactly the operations with numbers below K run, on every rank, so waiting at the gate cannot deadlock.
 * Proof: suppose that some of these operations never end, and let i be the lowest of their numbers on any rank. All operations
 * with lower numbers have ended on every rank. They include all dependencies of i and all earlier operations of its lane. The
 * gate lets i start, since i < K. If i is a collective, it is the lowest unfinished operation of its other ranks too, so they
 * enter it for the same reasons. So i ends, which contradicts the choice of i.
 *
 * held: a rank that starts no operation until it is released, or -1 (stored + 1, so that zeroed memory holds none). It is an injected
 * fault. The other ranks run on until a collective needs the held one. The released rank runs the rest of its list as it would
 * have, so results do not change.
 *
 * haste: once set, nothing is paced or slowed any more and no rank is held, because the run should end soon, at the next step boundary. */
#pragma once

#include <stdbool.h>

#include "engine/base/futex.h"

#define GATE_OPEN UINT32_MAX

struct gate {
    _Atomic uint32_t limit, haste, held;
};

/* Only rank 0 may call it, while every rank is between two steps. */
static inline void gate_close(struct gate *gate, uint32_t limit)
{
    atomic_store(&gate->limit, limit);
}

/* Safe at any time from any thread, like all functions below. Never lowers the limit, so it cannot undo another raise. */
static inline void gate_raise(struct gate *gate, uint32_t limit)
{
    uint32_t now = atomic_load(&gate->limit);
    while (now < limit && !atomic_compare_exchange_weak(&gate->limit, &now, limit)) continue;
    futex_wake_all(&gate->limit);
}

/* rank -1: releases the held rank. */
static inline void gate_hold(struct gate *gate, int rank)
{
    atomic_store(&gate->held, (uint32_t)(rank + 1));
    futex_wake_all(&gate->held);
}

static inline void gate_hurry(struct gate *gate)
{
    atomic_store(&gate->haste, 1);
    futex_wake_all(&gate->haste);
    gate_hold(gate, -1);
}

static inline bool gate_holds(struct gate *gate, int rank)
{
    return atomic_load_explicit(&gate->held, memory_order_relaxed) == (uint32_t)(rank + 1) &&
           !atomic_load(&gate->haste);
}

static inline bool gate_holds_any(struct gate *gate)
{
    return atomic_load(&gate->held) != 0;
}

/* Sleeps while `rank` is held, for timeout_ns at most (0: no limit). */
static inline void gate_wait_held(struct gate *gate, int rank, uint64_t timeout_ns)
{
    futex_wait(&gate->held, (uint32_t)(rank + 1), timeout_ns);
}

static inline uint32_t gate_limit(struct gate *gate)
{
    return atomic_load_explicit(&gate->limit, memory_order_relaxed);
}

static inline bool gate_lets(struct gate *gate, uint32_t number)
{
    return number < gate_limit(gate);
}

/* Sleeps while `number` is not lower than the limit: until the limit changes, or for timeout_ns at most (0: no limit). */
static inline void gate_wait(struct gate *gate, uint32_t number, uint64_t timeout_ns)
{
    uint32_t limit = gate_limit(gate);
    if (number >= limit) futex_wait(&gate->limit, limit, timeout_ns);
}
