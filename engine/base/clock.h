/* One clock for every timestamp: nanoseconds of CLOCK_MONOTONIC, comparable over all processes of a machine. */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* For how long the calling thread has had a processor: what its work takes, whoever else wants one. */
static inline uint64_t clock_worked_ns(void)
{
    struct timespec worked;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
    return (uint64_t)worked.tv_sec * 1000000000u + (uint64_t)worked.tv_nsec;
}

#endif
