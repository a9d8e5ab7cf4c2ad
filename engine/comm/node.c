/* Barrier and failure of the ranks that share memory. */
#include "engine/comm/node.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"

enum { FAILED = 1, ROUND = 2 };

bool node_has_failed(const struct node *node)
{
    return atomic_load(&node->round) & FAILED;
}

int node_error(const struct node *node, struct error *err)
{
    while (!node_has_failed(node)) sched_yield(); /* another rank was first and is still writing the text */
    return error_set(err, node->failure.status, "%s", node->failure.text);
}

static void fail(struct node *node, int status, const char *format, va_list args)
{
    if (atomic_exchange(&node->failing, 1)) return;
    node->failure.status = status;
    vsnprintf(node->failure.text, sizeof node->failure.text, format, args);
    atomic_fetch_or(&node->round, FAILED);
    futex_wake_all(&node->round);
}

void node_fail(struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(node, STATUS_RUN, format, args);
    va_end(args);
}

void node_fail_as(struct node *node, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(node, status, format, args);
    va_end(args);
}

/* Asleep until the round is over or the node fails; true: it is over. */
static bool wait_for_round(struct node *node, struct watch *watch, uint32_t round)
{
    uint32_t now;
    while ((now = atomic_load(&node->round)) == round) {
        futex_wait(&node->round, round, WATCH_NS);
        const struct watched *dead = watch_dead(watch);
        if (dead) node_fail(node, DEATH_FORMAT, dead->rank, dead->pid);
    }
    return (now & ~(uint32_t)FAILED) != round;
}

int node_meet(struct node *node, struct watch *watch, uint64_t *waited_ns)
{
    uint32_t round = atomic_load(&node->round); /* cannot advance before we arrive */
    if (round & FAILED) return STATUS_RUN;
    if (atomic_fetch_add(&node->arrived, 1) + 1 == (uint32_t)node->members) {
        atomic_store(&node->arrived, 0);
        atomic_fetch_add(&node->round, ROUND);
        futex_wake_all(&node->round);
        return 0;
    }
    uint64_t start = clock_ns();
    bool over = wait_for_round(node, watch, round);
    *waited_ns += clock_ns() - start;
    return over ? 0 : STATUS_RUN;
}
