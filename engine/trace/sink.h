/* Interface of a writer's outputs: the sinks of its options, the trace file, the viewers. The writer calls them one
 * after the other, on its own thread. */
#pragma once

#include "engine/base/bytes.h"
#include "engine/base/error.h"

struct sink {
    /* Takes whole encoded records in time order (trace_peek() and trace_decode() read them). The writer calls it about
     * fifty times a second, also without records. It may append records of its own: the sinks after it get them too. An
     * error ends the sink, not the run: the sinks after it get a LOG record that says why. */
    int (*put)(void *self, struct bytes *records, uint64_t now_ns, struct error *err);
    /* The last call; frees self. `goes_on`: another writer will continue. Errors as above; err may be NULL. */
    int (*end)(void *self, bool goes_on, struct error *err);
    void *self;
};

enum { TRACE_LIMIT_LEAST_BYTES = 1 << 20 }; /* the lowest --trace-limit */

/* Creates or appends to a trace file at `path`, of at most most_bytes (0: no limit). tell_growth: one LOG record says
 * how fast it grows. Errors as of trace_file_create() and trace_file_append(). */
struct file_sink_options { const char *path; bool append, tell_growth; uint64_t most_bytes; };
int file_sink_open(struct sink *out, const struct file_sink_options *options, struct error *err);
