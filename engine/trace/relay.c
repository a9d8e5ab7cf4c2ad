#include "engine/trace/relay.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { PASS_NS = 20000000, WAITING_MOST_BYTES = 4 << 20 };
static const uint64_t spin_ns = 3000000, stop_ns = 5000000000u, failed_ns = 1000000000u;

struct relay {
    struct trace_port port;
    struct merge *merge;
    struct bytes waiting; /* records not sent yet, from `at` on */
    size_t at;
    uint64_t whole_ns, told_ns; /* all records before this time are in `waiting`; the last time that was sent */
    uint64_t pinged_ns;         /* the last ping; another comes soon, so the thread does not sleep */
    bool ends;
    unsigned char message[PORT_BYTES];
    atomic_bool stop;
    pthread_t thread;
};

/* A ping whose answer finds no room is lost: the next one does as well. */
static void answer(struct relay *relay)
{
    struct relay_head head;
    while (relay->port.receive(relay->port.comm, 0, relay->message)) {
        memcpy(&head, relay->message, sizeof head);
        if (head.kind != RELAY_PING) continue;
        head.kind = RELAY_PONG;
        head.there_ns = relay->pinged_ns = clock_ns();
        head.back_ns = clock_ns();
        relay->port.send(relay->port.comm, 0, &head, sizeof head);
    }
}

/* While too much waits, records stay in their rings, which lose some when they are full and count them. */
static void collect(struct relay *relay, bool everything)
{
    if (relay->waiting.count > WAITING_MOST_BYTES && !everything) return;
    merge_pass(relay->merge, clock_ns(), everything, &relay->waiting);
    relay->whole_ns = merge_cut(relay->merge);
}

static bool has_news(const struct relay *relay)
{
    return relay->at < relay->waiting.count || relay->whole_ns != relay->told_ns;
}

static void push(struct relay *relay)
{
    while (has_news(relay)) {
        size_t left = relay->waiting.count - relay->at, most = sizeof relay->message - sizeof(struct relay_head);
        const bool all = left <= most;
        const struct relay_head head = {
            .kind = RELAY_RECORDS, .last = all && relay->ends, .whole_ns = all ? relay->whole_ns : 0};
        if (!all) left = most;
        memcpy(relay->message, &head, sizeof head);
        if (left) memcpy(relay->message + sizeof head, relay->waiting.at + relay->at, left);
        if (!relay->port.send(relay->port.comm, 0, relay->message, sizeof head + left)) break;
        relay->at += left;
        if (all) relay->told_ns = relay->whole_ns;
    }
    bytes_drop(&relay->waiting, relay->at);
    relay->at = 0;
}

static void rest(const struct relay *relay, uint64_t until_ns)
{
    const uint64_t now_ns = clock_ns();
    if (now_ns - relay->pinged_ns < spin_ns) sched_yield();
    else if (has_news(relay)) usleep(1000);
    else if (now_ns < until_ns) usleep((useconds_t)((until_ns - now_ns) / 1000 + 1));
}

/* Records whose clock nobody has measured are of no use, so it waits for that too. */
static void finish(struct relay *relay)
{
    const uint64_t since_ns = clock_ns();
    collect(relay, true);
    relay->ends = true;
    relay->whole_ns = UINT64_MAX;
    while (has_news(relay) || !relay->port.sent(relay->port.comm) || clock_ns() - relay->pinged_ns < spin_ns ||
           !relay->pinged_ns) {
        if (clock_ns() - since_ns > (relay->port.failed(relay->port.comm) ? failed_ns : stop_ns)) return;
        answer(relay);
        push(relay);
        usleep(1000);
    }
}

static void *relay_main(void *argument)
{
    struct relay *relay = argument;
    for (uint64_t next_ns = 0, now_ns; !atomic_load(&relay->stop); rest(relay, next_ns)) {
        answer(relay);
        if ((now_ns = clock_ns()) >= next_ns) {
            collect(relay, false);
            next_ns = now_ns + PASS_NS;
        }
        push(relay);
    }
    finish(relay);
    return NULL;
}

static void relay_free(struct relay *relay)
{
    merge_free(relay->merge);
    bytes_release(&relay->waiting);
    free(relay);
}

int relay_start(struct relay **out, const struct trace_port *port, struct error *err)
{
    struct relay *relay = *out = calloc(1, sizeof *relay);
    if (!relay) return error_set(err, STATUS_RUN, "no memory for the trace");
    relay->port = *port;
    relay->merge = merge_new();
    if (relay->merge && merge_start_thread(&relay->thread, relay_main, relay)) return STATUS_OK;
    relay_free(relay);
    *out = NULL;
    return error_set(err, STATUS_RUN, "no thread for the trace");
}

void relay_add_ring(struct relay *relay, struct trace_ring *ring)
{
    while (!merge_add(relay->merge, ring)) usleep(1000);
}

void relay_stop(struct relay *relay)
{
    if (!relay) return;
    atomic_store(&relay->stop, true);
    pthread_join(relay->thread, NULL);
    relay_free(relay);
}
