/* The barrier, the failure and the liveness checks of a node block. */
#include "engine/comm/internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"
#include "engine/base/words.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* ---- liveness through pidfds ----
 *
 * A pidfd also sees a zombie as dead, and never confuses a new process with an old one of the same number. */

void watch_add(struct watch *watch, int rank, int pid)
{
    struct watched *grown = realloc(watch->peer, (size_t)(watch->count + 1) * sizeof *grown);
    if (!grown) return; /* this peer is not watched; mpirun still supervises it */
    watch->peer = grown;
    watch->peer[watch->count++] = (struct watched){rank, pid, (int)syscall(SYS_pidfd_open, pid, 0)};
}

void watch_release(struct watch *watch)
{
    for (int i = 0; i < watch->count; i++)
        if (watch->peer[i].pidfd >= 0) close(watch->peer[i].pidfd);
    free(watch->peer);
    watch->peer = NULL;
    watch->count = 0;
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
    if (now < atomic_load(&watch->next_ns)) return NULL;
    atomic_store(&watch->next_ns, now + WATCH_NS);
    for (int i = 0; i < watch->count; i++)
        if (is_dead(&watch->peer[i])) return &watch->peer[i];
    return NULL;
}

/* ---- barrier and failure ---- */

enum { FAILED = 1, ROUND = 2 };

bool node_has_failed(const struct node *node)
{
    return atomic_load(&node->all.round) & FAILED;
}

int node_error(const struct node *node, struct error *err)
{
    while (!node_has_failed(node)) sched_yield(); /* another rank was first and is still writing the text */
    return error_set(err, node->failure.status, "%s", node->failure.text);
}

static void end_waits(struct barrier *barrier)
{
    atomic_fetch_or(&barrier->round, FAILED);
    futex_wake_all(&barrier->round);
}

void node_fail_as(struct node *node, int status, const char *format, ...)
{
    if (atomic_exchange(&node->failing, 1)) return;
    node->failure.status = status;
    FORMAT_ARGUMENTS(node->failure.text, sizeof node->failure.text, format);
    end_waits(&node->all);
    for (int seat = 0; seat < node->seats; seat++)
        for (int kind = 0; kind < GROUPS; kind++) end_waits(&node->seat[seat].group[kind]);
}

/* Sleeps until the round is over (true) or the node fails (false). */
static bool wait_for_round(struct node *node, struct barrier *barrier, struct watch *watch, uint32_t round)
{
    uint32_t now;
    while ((now = atomic_load(&barrier->round)) == round) {
        futex_wait(&barrier->round, round, WATCH_NS);
        const struct watched *dead = watch_dead(watch);
        if (dead) node_fail(node, DEATH_FORMAT, dead->rank, dead->pid);
    }
    return (now & ~(uint32_t)FAILED) != round;
}

int node_meet(struct node *node, struct barrier *barrier, int members, struct watch *watch, uint64_t *waited_ns)
{
    uint32_t round = atomic_load(&barrier->round); /* cannot advance before we arrive */
    if (round & FAILED) return STATUS_RUN;
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == (uint32_t)members) {
        atomic_store(&barrier->arrived, 0);
        atomic_fetch_add(&barrier->round, ROUND);
        futex_wake_all(&barrier->round);
        return 0;
    }
    uint64_t start = clock_ns();
    bool over = wait_for_round(node, barrier, watch, round);
    *waited_ns += clock_ns() - start;
    return over ? 0 : STATUS_RUN;
}
