/* Liveness through pidfds: they also see a process that is dead but not yet waited for, and never mistake a new process
 * with an old number for the one that was meant. */
#include "engine/comm/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/clock.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

void watch_add(struct watch *watch, int rank, int pid)
{
    struct watched *grown = realloc(watch->peer, (size_t)(watch->count + 1) * sizeof *grown);
    if (!grown) return; /* one peer unwatched: mpirun's own supervision remains */
    watch->peer = grown;
    watch->peer[watch->count++] = (struct watched){rank, pid, (int)syscall(SYS_pidfd_open, pid, 0)};
}

void watch_release(struct watch *watch)
{
    for (int i = 0; i < watch->count; i++)
        if (watch->peer[i].pidfd >= 0) close(watch->peer[i].pidfd);
    free(watch->peer);
    *watch = (struct watch){0};
}

static bool is_dead(const struct watched *peer)
{
    if (peer->pidfd < 0) return kill(peer->pid, 0) < 0 && errno == ESRCH;
    struct pollfd poll_fd = {.fd = peer->pidfd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

const struct watched *watch_dead(struct watch *watch)
{
    uint64_t now = clock_ns();
    if (now < watch->next_ns) return NULL;
    watch->next_ns = now + WATCH_NS;
    for (int i = 0; i < watch->count; i++)
        if (is_dead(&watch->peer[i])) return &watch->peer[i];
    return NULL;
}
