/* Sleeps until a word in memory changes; all waits in the engine use this. The word may lie in memory that processes
 * share. Waits may return early, on a signal or another waiter's wake-up, so callers test the word again:
 *
 *     while (atomic_load(&word) == seen) futex_wait(&word, seen, timeout_ns); */
#pragma once

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns at once if the word is not `expected`. timeout_ns 0: no limit. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec limit = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns ? &limit : NULL, NULL, 0);
}

static inline void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
