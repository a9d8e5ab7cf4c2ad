/* Shows the progress of a long operation: a line on a terminal, four times a second; elsewhere nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/printable.h"

struct progress {
    const char *what; /* "checking"; a trusted text, because the line bypasses the filter of standard error */
    uint64_t said_ns;
    bool terminal, shown;
};

static inline struct progress progress_of(const char *what)
{
    return (struct progress){what, clock_ns(), isatty(STDERR_FILENO) == 1, false};
}

/* Whether a line is due: print it to printable_below(stderr), after a carriage return. */
static inline bool progress_due(struct progress *progress)
{
    const uint64_t now_ns = clock_ns();
    if (!progress->terminal || now_ns - progress->said_ns < 250000000u) return false;
    progress->said_ns = now_ns;
    return progress->shown = true;
}

/* A callback for functions that move many bytes; user is a struct progress. */
static inline void progress_say(void *user, uint64_t done_bytes, uint64_t all_bytes)
{
    struct progress *progress = user;
    if (progress_due(progress))
        fprintf(printable_below(stderr), "\r%s %3.0f %% of %.1f MB ", progress->what,
                100.0 * (double)done_bytes / (double)(all_bytes ? all_bytes : 1), (double)all_bytes / 1e6);
}

/* Erases the line. */
static inline void progress_end(struct progress *progress)
{
    if (progress->shown) fprintf(printable_below(stderr), "\r%*s\r", 60, "");
    progress->shown = false;
}
