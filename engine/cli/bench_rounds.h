/* `zerolab bench`, the measuring. One engine, its ranks threads of this process, takes blocks of steps before audiences that differ:
 * nobody, rings that are not read, a trace file, a view besides. They take turns, many times around, so a busy moment of the machine
 * weighs on all alike; the arrays, their addresses and the learning are the same for all. A block begins with steps that do not
 * count, in which what the block before left to be read is read. */
#ifndef ENGINE_CLI_BENCH_ROUNDS_H
#define ENGINE_CLI_BENCH_ROUNDS_H

#include <stdbool.h>

#include "engine/config/config.h"

enum audience { AUDIENCE_NOBODY, AUDIENCE_MEMORY, AUDIENCE_FILE, AUDIENCE_VIEW, AUDIENCE_LARGE_VIEW, AUDIENCES };

extern const char *const audience_names[AUDIENCES];

enum { BENCH_ROUNDS_MAX = 101 };

/* Of a step, mean over those of a block. */
struct bench_block {
    double seconds, processor_s; /* processor_s: of this process and the view, but for being the view's terminal */
    double writer_s;             /* ... of the thread that writes the trace; 0 where none does */
    double view_s;               /* ... of the view; it and what follows is 0 where none looks */
    double view_share;           /* that the view takes of a core */
    double screen_bytes_per_s;   /* that it draws with */
};

struct bench_found {
    int rounds, steps;     /* of a block */
    double records, bytes; /* a step, of all ranks */
    double lost;           /* records a step for which the rings that are not read had no room; not among `records` */
    double emit_s;         /* processor time of a lane for a record of an operation, with its clock; in a loop */
    double process_s;      /* ... of a rank for what it says of its process after a step; in a loop */
    bool has_view;         /* else blocks of views are empty, and view_said is why */
    double idle_share;     /* that the large view takes of a core while nothing happens */
    char view_said[160];   /* "": it said nothing, or drew and then went */
    struct bench_block blocks[AUDIENCES][BENCH_ROUNDS_MAX];
};

/* Whatever the configuration may ask of a run; rounds at most BENCH_ROUNDS_MAX. STATUS_RUN. */
int bench_measure(struct bench_found *found, const struct config *config, int rounds, struct error *err);

#endif
