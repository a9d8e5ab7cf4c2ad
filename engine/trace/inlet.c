/* The writer's side of relay.h: receives the records of the other machines, and measures their clocks. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/clocks.h"
#include "engine/trace/relay.h"

enum { PINGS = 16, RING_BYTES = 16 << 10 };
static const uint64_t measure_every_ns = 2000000000u, wake_ns = 30000000, answer_ns = 3000000;
static const uint64_t finish_ns = 6000000000u, failed_ns = 1000000000u;

/* Another machine. */
struct far {
    struct inlet *inlet;
    int machine, stream; /* stream: of the merge; -1: no memory */
    bool here, last;     /* it has sent something; it has sent all */
    struct bytes in;     /* records not converted yet, the last one perhaps in part */
    uint64_t whole_ns;   /* of that clock, to be converted */
    struct clock_offset offset;
    struct clock_map map;
    uint64_t measured_ns;
    struct clock_ping ping[PINGS];
    int pings; /* of the measurement that is being taken */
    bool told;
};

struct inlet {
    struct trace_port port;
    struct merge *merge;
    struct trace_ring *ring; /* for records of the inlet's own */
    struct far *far;         /* by machine; the first is not used */
    unsigned char message[PORT_BYTES];
};

struct inlet *inlet_new(const struct trace_port *port, struct merge *merge)
{
    struct inlet *inlet = calloc(1, sizeof *inlet);
    void *ring = aligned_alloc(64, RING_BYTES);
    if (inlet) inlet->far = calloc((size_t)port->machines, sizeof *inlet->far);
    if (!inlet || !ring || !inlet->far || !merge_add(merge, ring)) {
        if (inlet) free(inlet->far);
        return free(inlet), free(ring), NULL;
    }
    inlet->port = *port;
    inlet->merge = merge;
    inlet->ring = trace_ring_init(ring, RING_BYTES);
    for (int m = 1; m < port->machines; m++)
        inlet->far[m] = (struct far){.inlet = inlet, .machine = m, .stream = merge_add_stream(merge, clock_ns())};
    return inlet;
}

void inlet_free(struct inlet *inlet)
{
    if (!inlet) return;
    for (int m = 1; m < inlet->port.machines; m++) bytes_release(&inlet->far[m].in);
    free(inlet->far);
    free(inlet->ring);
    free(inlet);
}

/* ---- records ---- */

static uint64_t here(void *user, uint64_t there_ns)
{
    return clock_map_here(user, there_ns);
}

/* Damaged bytes end the records of that machine: what follows cannot be told apart. */
static void convert(struct far *far)
{
    size_t at = 0;
    while (far->in.count - at >= TRACE_HEAD_BYTES) {
        uint8_t *record = far->in.at + at;
        const size_t bytes = trace_peek(record).bytes;
        if (bytes < TRACE_HEAD_BYTES) at = far->in.count;
        if (bytes < TRACE_HEAD_BYTES || bytes > far->in.count - at) break;
        trace_replace_times(record, here, &far->map);
        merge_put(far->inlet->merge, far->stream, record, bytes);
        at += bytes;
    }
    bytes_drop(&far->in, at);
    if (far->whole_ns) {
        const uint64_t whole_ns = far->last ? UINT64_MAX : clock_map_here(&far->map, far->whole_ns);
        merge_whole_until(far->inlet->merge, far->stream, whole_ns);
    }
    far->whole_ns = 0;
}

static void take(struct far *far, size_t bytes)
{
    struct relay_head head;
    const unsigned char *message = far->inlet->message;
    if (bytes < sizeof head) return;
    memcpy(&head, message, sizeof head);
    far->here = true;
    if (head.kind == RELAY_PONG && far->pings < PINGS)
        far->ping[far->pings++] = (struct clock_ping){head.sent_ns, head.there_ns, head.back_ns, clock_ns()};
    if (head.kind != RELAY_RECORDS || far->stream < 0) return;
    far->last = far->last || head.last;
    if (head.whole_ns) far->whole_ns = head.whole_ns;
    bytes_append(&far->in, message + sizeof head, bytes - sizeof head);
    if (far->map.known) convert(far);
}

static void receive(struct far *far)
{
    struct inlet *inlet = far->inlet;
    for (size_t bytes; (bytes = inlet->port.receive(inlet->port.comm, far->machine, inlet->message));) take(far, bytes);
}

/* ---- clocks ---- */

static void tell(struct far *far, int64_t adjusted_ns)
{
    struct inlet *inlet = far->inlet;
    const uint64_t now_ns = clock_ns();
    const int leader = inlet->port.leader(inlet->port.comm, far->machine);
    const struct trace_record record = {.kind = TRACE_CLOCK,
                                        .rank = (uint16_t)leader,
                                        .time_ns = now_ns,
                                        .clock = {.machine = (uint32_t)far->machine,
                                                  .offset_ns = far->offset.ns,
                                                  .within_ns = far->offset.within_ns,
                                                  .adjusted_ns = adjusted_ns}};
    trace_emit(inlet->ring, &record);
    if (far->told) return;
    far->told = true;
    char text[160];
    snprintf(text, sizeof text, "clock of host %.64s: %+.3f s, within %.2f ms",
             inlet->port.host(inlet->port.comm, leader), (double)far->offset.ns / 1e9,
             (double)far->offset.within_ns / 1e6);
    const struct trace_record log = trace_log(0, text, now_ns);
    trace_emit(inlet->ring, &log);
}

/* One ping: the first of a measurement wakes the relay, which then watches for the next. */
static void ping(struct far *far)
{
    struct inlet *inlet = far->inlet;
    const int before = far->pings;
    const struct relay_head head = {.kind = RELAY_PING, .sent_ns = clock_ns()};
    if (!inlet->port.send(inlet->port.comm, far->machine, &head, sizeof head)) return;
    while (far->pings == before && clock_ns() - head.sent_ns < (before ? answer_ns : wake_ns)) {
        receive(far);
        if (before) sched_yield();
        else usleep(500);
    }
}

static void measure(struct far *far)
{
    far->pings = 0;
    for (int i = 0; i < PINGS && (!i || far->pings); i++) ping(far);
    far->measured_ns = clock_ns();
    if (!far->pings) return;
    clock_offset_measure(&far->offset, far->ping, far->pings);
    tell(far, clock_map_aim(&far->map, far->offset.ns));
    convert(far);
}

/* ---- the writer's thread ---- */

/* One measurement at a time, so that the viewers need not wait for many. */
void inlet_pump(struct inlet *inlet)
{
    struct far *due = NULL;
    for (int m = 1; m < inlet->port.machines; m++) {
        struct far *far = &inlet->far[m];
        receive(far);
        const bool waits = !far->map.known || clock_ns() - far->measured_ns > measure_every_ns;
        if (far->here && waits && (!far->last || !far->map.known) && (!due || far->measured_ns < due->measured_ns))
            due = far;
    }
    if (due) measure(due);
}

static bool all_sent(const struct inlet *inlet)
{
    for (int m = 1; m < inlet->port.machines; m++)
        if (!inlet->far[m].last || !inlet->far[m].map.known) return false;
    return true;
}

void inlet_finish(struct inlet *inlet)
{
    const uint64_t since_ns = clock_ns();
    while (!all_sent(inlet) && clock_ns() - since_ns < (inlet->port.failed(inlet->port.comm) ? failed_ns : finish_ns)) {
        inlet_pump(inlet);
        usleep(1000);
    }
}
