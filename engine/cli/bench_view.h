/* A front end on a pseudo-terminal, for `zerolab bench`: starts the program itself as `zerolab attach`. This process
 * acts as its terminal: it reads the output and discards it.
 *
 *     bench_view_start(&view, err)            watches the run in the folder of this process (rundir.h), whose socket is open
 *     bench_view_serve(&view, until_fd)       on a thread of its own: acts as the terminal until until_fd is readable
 *     bench_view_wait(&view)                  on another thread: waits for the first picture; false: there will be none
 *     bench_view_stop(&view)                  after bench_view_serve() has returned
 *
 * If the front end cannot draw on this machine, bench_view_alive() is false, and `said` is its last message. */
#ifndef ENGINE_CLI_BENCH_VIEW_H
#define ENGINE_CLI_BENCH_VIEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"

enum bench_view_state { BENCH_VIEW_COMING, BENCH_VIEW_DRAWS, BENCH_VIEW_GONE };

struct bench_view {
    pid_t pid;
    int terminal_fd;
    _Atomic uint32_t state; /* enum bench_view_state */
    _Atomic uint64_t bytes; /* written by the front end so far */
    char said[160];
};

int bench_view_start(struct bench_view *view, struct error *err);
void bench_view_serve(struct bench_view *view, int until_fd);
bool bench_view_wait(struct bench_view *view);
bool bench_view_alive(const struct bench_view *view);
void bench_view_resize(const struct bench_view *view, int columns, int rows);
uint64_t bench_view_processor_ns(const struct bench_view *view); /* used by the front end so far; 0: it has ended */
void bench_view_stop(struct bench_view *view);

#endif
