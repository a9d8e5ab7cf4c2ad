#include "engine/cli/bench_rounds.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"

enum { PICTURE_BYTES = 1000 }; /* a screen takes more, a line that says what is wrong less */
static const uint64_t patience_ns = 20000000000u;

int bench_view_start(struct bench_view *view, struct error *err)
{
    char run[16];
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    view->terminal_fd = -1;
    snprintf(run, sizeof run, "%d", (int)getpid());
    fflush(NULL);
    view->pid = forkpty(&view->terminal_fd, NULL, NULL, &size);
    if (view->pid == 0) { /* without the user's settings and the offer of a tour */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("TERM", "xterm-256color", 1);
        execl("/proc/self/exe", "zerolab", "attach", run, "--readonly", (char *)NULL);
        _exit(STATUS_RUN);
    }
    return view->pid > 0 ? STATUS_OK : error_set(err, STATUS_RUN, "cannot make a terminal: %s", strerror(errno));
}

static void come_to(struct bench_view *view, enum bench_view_state state)
{
    atomic_store(&view->state, state);
    futex_wake_all(&view->state);
}

/* Keeps the last line that has letters. */
static void keep_said(struct bench_view *view, const char *text, ssize_t length)
{
    size_t room = 0;
    for (ssize_t i = 0; i < length; i++) {
        if (text[i] == '\n' && i + 1 < length) room = 0;
        else if (text[i] >= ' ' && room + 1 < sizeof view->said) view->said[room++] = text[i];
    }
    view->said[room] = '\0';
}

void *bench_view_serve(void *user)
{
    struct bench_view *view = user;
    char part[16384];
    struct pollfd fds[2] = {{.fd = view->terminal_fd, .events = POLLIN}, {.fd = view->over_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
        if (fds[1].revents) break;
        if (!fds[0].revents) continue;
        const ssize_t length = read(view->terminal_fd, part, sizeof part);
        if (length <= 0) {
            come_to(view, BENCH_VIEW_GONE);
            fds[0].fd = -1;
            continue;
        }
        const uint64_t all = atomic_fetch_add(&view->bytes, (uint64_t)length) + (uint64_t)length;
        if (atomic_load(&view->state) != BENCH_VIEW_COMING) continue;
        if (all < PICTURE_BYTES) {
            keep_said(view, part, length);
            continue;
        }
        view->said[0] = '\0'; /* a picture says nothing of why it ended */
        come_to(view, BENCH_VIEW_DRAWS);
    }
    return NULL;
}

bool bench_view_wait(struct bench_view *view)
{
    const uint64_t end_ns = clock_ns() + patience_ns;
    for (uint64_t now_ns; atomic_load(&view->state) == BENCH_VIEW_COMING && (now_ns = clock_ns()) < end_ns;)
        futex_wait(&view->state, BENCH_VIEW_COMING, end_ns - now_ns);
    return bench_view_alive(view);
}

bool bench_view_alive(const struct bench_view *view)
{
    return atomic_load(&view->state) == BENCH_VIEW_DRAWS;
}

void bench_view_resize(const struct bench_view *view, int columns, int rows)
{
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    ioctl(view->terminal_fd, TIOCSWINSZ, &size);
}

uint64_t bench_view_processor_ns(const struct bench_view *view)
{
    clockid_t clock;
    return clock_getcpuclockid(view->pid, &clock) == 0 ? clock_read_ns(clock) : 0;
}

void bench_view_stop(struct bench_view *view)
{
    if (view->pid <= 0) return;
    kill(view->pid, SIGKILL); /* it has nothing to save, and its terminal goes with it */
    waitpid(view->pid, NULL, 0);
    close(view->terminal_fd);
}
