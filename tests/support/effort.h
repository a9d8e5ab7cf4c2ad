/* How much a test does, by the environment: SHORT=1 (sanitizer builds), neither, or FULL=1 (make test-full). */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

static inline bool effort_is_short(void)
{
    return getenv("SHORT");
}

static inline bool effort_is_full(void)
{
    return getenv("FULL");
}

/* Rounds, steps or a stride through a list. */
static inline int effort(int in_short, int usual, int in_full)
{
    return effort_is_short() ? in_short : effort_is_full() ? in_full : usual;
}
