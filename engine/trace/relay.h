/* Brings the records of several machines into one trace. Each machine without the writer has a thread, the relay. The relay drains
 * the rings of its machine's ranks in time order, as the writer does, and sends the records to the writer. The writer's inlet receives
 * them, subtracts the offset of the sender's clock from their times (clocks.h), and merges them with its own records (merge.h). */
#pragma once

#include "engine/base/error.h"
#include "engine/trace/merge.h"

/* Passes messages between the writer's machine, number 0, and the others. Messages arrive in order; no function blocks. The functions
 * are those of the side channel between ranks (engine/comm/comm.h), or a test's. */
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
/* Call it when every producer has emitted its last record. It sends what is left, for five seconds at most (one second if the run has
 * failed), and frees the relay. NULL: does nothing. */
void relay_stop(struct relay *relay);

/* ---- on the writer's thread ---- */

struct inlet;
struct inlet *inlet_new(const struct trace_port *port, struct merge *merge); /* NULL: no memory */
void inlet_free(struct inlet *inlet);

/* Moves the records that have arrived to `merge`. Also measures one clock that was not measured for two seconds. A measurement is 16
 * pings; it waits 30 ms at most for the first answer, and 3 ms at most for each of the others. */
void inlet_pump(struct inlet *inlet);

/* Calls inlet_pump() until all machines have sent their last record, for six seconds at most (one second if the run has failed). */
void inlet_finish(struct inlet *inlet);

/* ---- messages ---- */

enum relay_kind { RELAY_PING, RELAY_PONG, RELAY_RECORDS };

/* Stands before the records of a message. A record may begin in one message and end in another. */
struct relay_head {
    uint32_t kind, last;                 /* last: no records follow */
    uint64_t sent_ns, there_ns, back_ns; /* of pings (clocks.h) */
    uint64_t whole_ns;                   /* with this message all records before this time are sent; 0: more follow */
};
