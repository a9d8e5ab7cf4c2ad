/* A trace file that must not grow past a size: which records still go into it.
 *
 * Recording stops between two steps, before the step that might not fit. From there on a rank's records are left out, and so are
 * headers and schedules of later parts. What a person should know of the rest of the run still goes in while it fits: events, answers
 * to commands, the log, the validation loss, the hash, the sample, and always the end. So the file replays up to the last whole step and
 * says how the run ended; a GAP record before the end, and an event `trace_limit`, say from which step on nothing is known. */
#ifndef ENGINE_TRACE_LIMIT_H
#define ENGINE_TRACE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/trace/record.h"

enum { TRACE_LIMIT_LEAST_BYTES = 1 << 20, TRACE_LIMIT_RESERVE_BYTES = 64 << 10 };

struct trace_limit {
    uint64_t most_bytes; /* 0: no limit */
    /* Its own. */
    bool stopped;
    uint32_t step;       /* the one that began last; stopped: the first that is left out */
    uint64_t step_began_bytes, step_most_bytes; /* size of the file then; the most that a step took, uncompressed at its end */
    uint64_t left_out, since_ns;                /* records, and the time of the first */
    uint8_t rank_is_past[(TRACE_RANK_ALL + 8) / 8]; /* by rank, a bit: it has begun a step that is left out */
};

/* Whether a record goes into a file that would be at most `file_bytes` long if it were closed now. */
bool trace_limit_takes(struct trace_limit *limit, const struct trace_record *record, uint64_t encoded_bytes,
                       uint64_t file_bytes);

#endif
