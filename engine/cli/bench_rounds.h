/* The measurement of `zerolab bench`. One engine, whose ranks are threads of this process, takes blocks of steps with
 * different listeners ("audiences"): none, rings that are not read, a trace file, a trace file and a view. The
 * audiences alternate for many rounds, so other load of the machine affects all alike. Arrays, addresses and training
 * are the same for all. The first steps of a block do not count: in them the remaining records of the block before
 * are read. */
#ifndef ENGINE_CLI_BENCH_ROUNDS_H
#define ENGINE_CLI_BENCH_ROUNDS_H

#include <stdbool.h>

#include "engine/config/config.h"

enum audience { AUDIENCE_NOBODY, AUDIENCE_MEMORY, AUDIENCE_FILE, AUDIENCE_VIEW, AUDIENCE_LARGE_VIEW, AUDIENCES };

extern const char *const audience_names[AUDIENCES];

enum { BENCH_ROUNDS_MAX = 101 };

/* Figures per step, the mean over the steps of a block. */
struct bench_block {
    double seconds, processor_s; /* processor_s: of this process and the view, without its terminal's thread */
    double writer_s;             /* ... of the thread that writes the trace; 0 without one */
    double view_s;               /* ... of the view; 0 without a view, as are the next two */
    double view_share;           /* the view's processor time as a share of one core */
    double screen_bytes_per_s;   /* bytes that the view writes to its terminal */
};

struct bench_found {
    int rounds, steps;     /* of a block */
    double records, bytes; /* per step, of all ranks */
    double lost;           /* records per step for which the unread rings had no room; not among `records` */
    double emit_s;         /* processor time of a lane for one record of an operation, with its clock; in a loop */
    double process_s;      /* processor time of a rank for one record of its process; timed in a loop */
    bool has_view;         /* false: blocks of views are empty, and view_said says why */
    double idle_share;     /* the large view's share of one core while nothing happens */
    char view_said[160];   /* "": it printed no message, or ended after it had drawn */
    struct bench_block blocks[AUDIENCES][BENCH_ROUNDS_MAX];
};

/* Measures with any configuration that a run may have; rounds at most BENCH_ROUNDS_MAX. STATUS_RUN. */
int bench_measure(struct bench_found *found, const struct config *config, int rounds, struct error *err);

#endif
