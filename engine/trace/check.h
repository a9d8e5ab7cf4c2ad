/* Checks a trace file: reads it from end to end, counts its records, and says which kinds of reader it suffices for.
 * Missing parts are reported; nothing is repaired. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/error.h"
#include "engine/trace/clocks.h"

/* id, name, what it needs */
#define TRACE_USE_TABLE(X)                                                    \
    X(REPLAY, "replay", "a run header, and steps or memory")                  \
    X(LEARNING, "learning", "the end of each step, with its loss")            \
    X(MEMORY, "memory", "memory records")                                     \
    X(TIMELINE, "timeline", "operations and the schedules that they belong to") \
    X(TRAFFIC, "traffic", "traffic records")

enum trace_use {
#define X(id, name, needs) TRACE_USE_##id,
    TRACE_USE_TABLE(X)
#undef X
        TRACE_USES
};

enum { TRACE_CHECK_KINDS = 64, TRACE_CHECK_PARTS = 64 }; /* kinds have lower numbers; the last part also counts all parts after it */

/* The records from one run header to the next. A run that was relaunched has several parts. */
struct trace_check_part { uint32_t ranks, first_step, last_step; };

struct trace_check {
    uint64_t records, by_kind[TRACE_CHECK_KINDS], unknown_kinds;
    uint64_t first_ns, last_ns, out_of_order; /* out_of_order: records earlier than the one before */
    uint64_t gaps, lost;                      /* GAP records; records that they report as lost, in all */
    uint64_t ops_open, ops_homeless;          /* operations begun and never ended; operations whose schedule is not in the trace */
    uint32_t ranks, first_step, last_step, steps, steps_unfinished; /* ranks: the most of any part. Both counts of steps: sums over ranks */
    uint32_t ranks_missing, ranks_told, first_missing; /* in the part that misses most: missing; in its header; lowest missing */
    struct trace_check_part part[TRACE_CHECK_PARTS];
    int parts;
    struct trace_machines machines;
    uint64_t losses;    /* STEP_END records with a loss: a simulation has none */
    bool simulated;
    bool header_first, ended, torn;
    bool limited;       /* recording stopped at the size of --trace-limit */
    uint32_t states;    /* number of moments from which a reader can begin (format.h) */
    bool states_damaged;
    uint8_t outcome;    /* enum outcome; valid if `ended` */
    char damage[256];   /* why reading stopped before the end; "": it did not */
    bool usable[TRACE_USES];
};

/* STATUS_INPUT: not a trace (missing, empty, another format). STATUS_RUN: no memory. Damage only sets `damage`. */
int trace_check(struct trace_check *check, const char *path, struct error *err);

/* Whether the file holds the END record of its run. Reads the file from its last step on. A path that is not a regular file (a
 * pipe) cannot be checked: the result is true. */
bool trace_has_end(const char *path);

/* STATUS_CHECK: the trace is cut or damaged, lacks its header, its END or all records of a rank, or has gaps (other than the one gap
 * of --trace-limit). */
int trace_check_status(const struct trace_check *check);

void trace_check_print(const struct trace_check *check, FILE *out);
char *trace_check_json(const struct trace_check *check); /* the caller frees; NULL: no memory */
