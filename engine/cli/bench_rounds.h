/* The measurement of `zerolab bench`. One engine, whose ranks are threads of this process, takes blocks of steps with
 * different listeners ("audiences"): none, rings that are not read, a trace file, a trace file and a view. The
 * audiences alternate for many rounds, so other load of the machine affects all alike. Arrays, addresses and training
 * are the same for all. The first steps of a block do not count: in them the remaining records of the block before
 * are read. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"
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

/* ---- bench_view.c: a front end on a pseudo-terminal, for `zerolab bench`: starts the program itself as
 * `zerolab attach`. This process acts as its terminal: it reads the output and discards it.
 *
 *     bench_view_start(&view, err)            watches the run in the folder of this process (rundir.h), whose socket is open
 *     bench_view_serve(&view)                 on a thread of its own: acts as the terminal until over_fd is readable
 *     bench_view_wait(&view)                  on another thread: waits for the first picture; false: there will be none
 *     bench_view_stop(&view)                  after bench_view_serve() has returned
 *
 * If the front end cannot draw on this machine, bench_view_alive() is false, and `said` is its last message. ---- */

enum bench_view_state { BENCH_VIEW_COMING, BENCH_VIEW_DRAWS, BENCH_VIEW_GONE };

struct bench_view {
    pid_t pid;
    int terminal_fd;
    int over_fd; /* set by the caller: can be read when no view is wanted any more */
    _Atomic uint32_t state; /* enum bench_view_state */
    _Atomic uint64_t bytes; /* written by the front end so far */
    char said[160];
};

int bench_view_start(struct bench_view *view, struct error *err);
void *bench_view_serve(void *view);
bool bench_view_wait(struct bench_view *view);
bool bench_view_alive(const struct bench_view *view);
void bench_view_resize(const struct bench_view *view, int columns, int rows);
uint64_t bench_view_processor_ns(const struct bench_view *view); /* used by the front end so far; 0: it has ended */
void bench_view_stop(struct bench_view *view);
