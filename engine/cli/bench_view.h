/* A front end on a terminal of its own, for `zerolab bench`: the program itself as `zerolab attach`, and this process is the terminal
 * that it draws on. What it draws is read and thrown away.
 *
 *     bench_view_start(&view, err)            watches the run in the folder of this process (rundir.h), whose socket is open
 *     bench_view_serve(&view, until_fd)       is the terminal, until that descriptor can be read: a thread's whole work
 *     bench_view_wait(&view)                  another thread: until there is a picture. False: there will be none
 *     bench_view_stop(&view)                  after the thread that serves has returned
 *
 * A machine may lack what a terminal takes: then bench_view_alive() is false, and `said` is the last that the front end said. */
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
    _Atomic uint64_t bytes; /* that it has drawn with */
    char said[160];
};

int bench_view_start(struct bench_view *view, struct error *err);
void bench_view_serve(struct bench_view *view, int until_fd);
bool bench_view_wait(struct bench_view *view);
bool bench_view_alive(const struct bench_view *view);
void bench_view_resize(const struct bench_view *view, int columns, int rows);
uint64_t bench_view_processor_ns(const struct bench_view *view); /* that the front end has taken so far; 0: it is gone */
void bench_view_stop(struct bench_view *view);

#endif
