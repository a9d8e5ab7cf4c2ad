/* One clock for every timestamp: nanoseconds of CLOCK_MONOTONIC, comparable over all processes of a machine.
 * Also CPU time of threads. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Returns 0 if the clock cannot be read, e.g. the clock of a thread that has ended. */
static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread. */
static inline uint64_t clock_worked_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* CPU time of another thread, which must not have been joined; 0 if it cannot be read. */
static inline uint64_t clock_thread_ns(pthread_t thread)
{
    clockid_t clock;
    return pthread_getcpuclockid(thread, &clock) == 0 ? clock_read_ns(clock) : 0;
}
