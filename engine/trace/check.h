/* Is this trace usable, and for what? Reads a file from end to end, counts what is there and says which readers it
 * suffices for. What is missing is named; nothing is repaired. */
#ifndef ENGINE_TRACE_CHECK_H
#define ENGINE_TRACE_CHECK_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/error.h"
#include "engine/trace/record.h"

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

enum { TRACE_CHECK_KINDS = 64, TRACE_CHECK_PARTS = 64 }; /* numbers of kinds stay below; parts told apart, later ones go into the last */

/* From one run header to the next: a run that goes on with other ranks has several. */
struct trace_check_part { uint32_t ranks, first_step, last_step; };

struct trace_check {
    uint64_t records, by_kind[TRACE_CHECK_KINDS], unknown_kinds;
    uint64_t first_ns, last_ns, out_of_order; /* records with a time before that of the one ahead of them */
    uint64_t gaps, lost;                      /* gap records, and the records that they stand for */
    uint64_t ops_open, ops_homeless;          /* operations begun and never ended; operations of a schedule that is not there */
    uint32_t ranks, first_step, last_step, steps, steps_unfinished; /* ranks: the most of any part; steps, summed over ranks; unfinished: begun, never ended */
    struct trace_check_part part[TRACE_CHECK_PARTS];
    int parts;
    bool header_first, ended, torn;
    bool limited;       /* recording stopped where --trace-limit said */
    uint8_t outcome;    /* if ended */
    char damage[256];   /* why reading stopped before the end; "" */
    bool usable[TRACE_USES];
};

/* STATUS_INPUT: not a trace at all (missing, empty, foreign). */
int trace_check(struct trace_check *check, const char *path, struct error *err);

/* Whether it holds the end of its run, so that nothing behind a whole chunk was lost. Reads its end only. What is no plain file
 * (a pipe) cannot be asked, and passes. */
bool trace_has_end(const char *path);

/* STATUS_CHECK if something of the run is missing: cut, damaged, gaps, no header or no end. */
int trace_check_status(const struct trace_check *check);

void trace_check_print(const struct trace_check *check, FILE *out);
void trace_check_print_json(const struct trace_check *check, FILE *out);

#endif
