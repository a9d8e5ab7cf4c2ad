/* One trace of ranks on several machines. On each machine but that of the writer a thread, the relay, drains the rings of the
 * machine's ranks in time order, as the writer does, and sends the records to the writer. The writer's inlet receives them, takes the
 * offset of that machine's clock out of their times (clocks.h), and adds them to its own in time order (merge.h). */
#pragma once

#include "engine/base/error.h"
#include "engine/trace/merge.h"

/* How messages get to another machine and back: in order, none blocks. Machine 0 is the writer's. The functions are those of the side
 * channel between ranks (engine/comm/comm.h), or a test's. */
enum { PORT_BYTES = 48 << 10 }; /* the longest message */
struct comm;
struct trace_port {
    struct comm *comm;
    int machines;
    bool (*send)(struct comm *comm, int machine, const void *message, size_t bytes); /* copies it; false: try later */
    size_t (*receive)(struct comm *comm, int machine, void *out);                    /* 0: no message has come */
    bool (*sent)(struct comm *comm);                                                 /* all messages have left */
    bool (*failed)(const struct comm *comm);           /* the run has failed: waits must be short */
    int (*leader)(const struct comm *comm, int machine); /* rank that sends for that machine */
    const char *(*host)(const struct comm *comm, int rank);
};

/* ---- on the other machines ---- */

struct relay;
int relay_start(struct relay **out, const struct trace_port *port, struct error *err); /* port: copied */
void relay_add_ring(struct relay *relay, struct trace_ring *ring);
/* Call it when every producer has emitted its last record. It sends what is left, for five seconds at most. NULL: does nothing. */
void relay_stop(struct relay *relay);

/* ---- on the writer's thread ---- */

struct inlet;
struct inlet *inlet_new(const struct trace_port *port, struct merge *merge); /* NULL: no memory */
void inlet_free(struct inlet *inlet);

/* Moves the records that have arrived to `merge`; measures a clock when it is time, which takes some milliseconds, 30 at most. */
void inlet_pump(struct inlet *inlet);

/* Calls inlet_pump() until all machines have sent their last record, for six seconds at most. */
void inlet_finish(struct inlet *inlet);

/* ---- messages ---- */

enum relay_kind { RELAY_PING, RELAY_PONG, RELAY_RECORDS };

/* Stands before the records of a message. A record may begin in one message and end in another. */
struct relay_head {
    uint32_t kind, last;                 /* last: no records follow */
    uint64_t sent_ns, there_ns, back_ns; /* of pings (clocks.h) */
    uint64_t whole_ns;                   /* with this message all records before this time are sent; 0: more follow */
};
