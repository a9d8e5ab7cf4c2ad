/* Internals shared by the files of comm/. A rank divides the other ranks in two ways:
 *     same node, other node   (layout)          the link under which bytes are counted
 *     near ranks              (base not NULL)   their symmetric segment is mapped here; data is read in place
 *     far ranks               (base NULL)       data goes through the wire (MPI)
 * Under MPI the ranks of a node are near to each other. If one zerolab process started the ranks (group.c), all are
 * near: virtual nodes then only decide how bytes are counted and paced. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/comm/comm.h"
#include "kernels/kernels.h"

/* A waiting rank checks about five times a second whether the other processes are alive. */
enum { WATCH_NS = 200000000 };
#define DEATH_FORMAT "rank %d (process %d) died"

struct watched { int rank, pid, pidfd; }; /* pidfd -1: the kernel has no pidfds; kill(pid, 0) is used instead */
struct watch {
    struct watched *peer; /* empty if ranks are threads */
    int count;
    _Atomic uint64_t next_ns; /* time of the next check. Atomic: the watcher of comm.c may check, too */
};

void watch_add(struct watch *watch, int rank, int pid);
void watch_release(struct watch *watch);

/* The first peer found dead, or NULL. Also NULL if the last check was less than WATCH_NS ago. */
const struct watched *watch_dead(struct watch *watch);

/* ---- node.c. The node block: shared memory that all ranks of a node map, with a barrier, a failure that ends every wait, messages,
 * and counters of sent bytes. Each rank of the run has two message slots, used in turn, so that a rank can write its
 * next message while slow ranks still read the last one.
 *
 * The barrier's word is also the futex: bit 0 says that the node has failed, the other bits count rounds. So a failure
 * changes the word, and no wake-up can be lost. */

enum { NODE_PAYLOAD_BYTES = 4096 };

/* What an arriving rank posts about its call. The digest covers all arguments that must be equal on all ranks. */
struct node_sign {
    uint32_t call, healthy;
    uint64_t digest;
};

struct node_message {
    struct node_sign sign;
    unsigned char payload[NODE_PAYLOAD_BYTES];
};

/* A barrier of ranks. round: bit 0 is set by a failure, the other bits count how often all ranks have arrived. */
struct barrier {
    _Alignas(64) _Atomic uint32_t round;
    _Alignas(64) _Atomic uint32_t arrived;
};

struct node_seat {
    _Alignas(64) _Atomic uint64_t sent_bytes[2]; /* LINK_INTRA, LINK_INTER: other ranks add the bytes that they read of this rank */
    struct node_message message[2]; /* of calls of all ranks */
    struct node_sign sign[GROUPS][2]; /* of calls within a group of each kind */
    struct barrier group[GROUPS];     /* by kind: barrier of the group whose first rank on this node is this rank */
};

struct node {
    int members, seats; /* ranks of the node, which use the barrier `all`; ranks of the run */
    struct barrier all;
    _Atomic uint32_t inside; /* ranks that may read others' memory (in collective.c) */
    _Atomic uint32_t failing; /* the first rank that sets it writes the text */
    struct error failure;
    struct node_seat seat[]; /* one per rank of the run */
};

static inline size_t node_bytes(int ranks)
{
    return sizeof(struct node) + (size_t)ranks * sizeof(struct node_seat);
}

/* Waits until `members` ranks have called it with this barrier, which is one of the node's, and adds the waiting time to *waited_ns.
 * STATUS_RUN: the node has failed, also because a watched peer died meanwhile. */
int node_meet(struct node *node, struct barrier *barrier, int members, struct watch *watch, uint64_t *waited_ns);

/* Ends all waits of the node, now and later. Only the first reason and status are kept; status becomes the program's
 * exit code. node_fail() fails with STATUS_RUN. */
#define node_fail(node, ...) node_fail_as(node, STATUS_RUN, __VA_ARGS__)
void node_fail_as(struct node *node, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool node_has_failed(const struct node *node);
int node_error(const struct node *node, struct error *err); /* sets the reason; returns its status */

/* ---- communicators ---- */

enum comm_call { CALL_GATHER, CALL_REDUCE, CALL_ALL_REDUCE, CALL_EXCHANGE, CALL_BROADCAST, CALL_ATTACH, CALL_SHARE, CALL_CLOSE };

/* The place of each rank; the table is equal on every rank. host: "" if one zerolab process started the ranks. */
struct comm_peer { int node, machine, pid; char host[64]; };

/* A collective on tensors. in_place: each range's destination is its source offset in this rank's segment; reductions
 * add to the destination if `accumulate`. */
struct collective {
    enum comm_call call;
    enum dtype dtype, to; /* of the sources; of the results */
    const struct comm_range *ranges;
    int count;
    bool in_place, accumulate;
};

/* Operations between nodes. Only the thread inside a collective calls them. They return 0, or STATUS_RUN after node_fail(). */
struct comm_wire {
    /* The first member on each node calls it. It copies the messages of members on other nodes into this node block. */
    int (*exchange)(struct comm *comm, size_t payload_bytes);
    int (*gather)(struct comm *comm, const struct collective *c);
    int (*reduce)(struct comm *comm, const struct collective *c);
    void (*announce)(struct comm *comm); /* tells the far ranks of this node's failure */
    void (*look)(struct comm *comm);     /* fails the node if far ranks say so, or a peer has died */
};

/* A thread that looks for failures while all others may be waiting for a device. */
struct watcher { pthread_t thread; bool runs; _Atomic uint32_t ends; };

struct comm {
    struct comm_layout layout;
    struct comm_peer *peer;       /* by rank */
    struct node *node;            /* the node block, which all ranks with the same shared memory map */
    size_t node_bytes;            /* size of that mapping */
    int node_first;               /* first rank of the node */
    struct watch watch;           /* the node's other processes; empty where a supervisor watches the ranks */
    const struct comm_wire *wire; /* NULL: no far ranks */
    struct wire *wire_state;
    void (*close_backend)(struct comm *comm, bool healthy); /* NULL: nothing to close */
    struct comm_group *group;     /* ranks are threads of this group; NULL: ranks are processes */
    struct reduce_factors factors;
    struct watcher watcher;       /* where the device operations have look() */
    const struct comm_device_ops *device_ops; /* NULL: the thread inside the collective copies and reduces in memory */
    unsigned char *room;            /* comm_room() */
    uint64_t room_bytes;
    struct transfer *transfers;     /* list for the next pass */
    int transfer_count, transfer_room;
    uint64_t meetings;            /* number of device barriers so far */
    bool inside;                  /* counted in node.inside */
    struct process_group members; /* the ranks in the call */
    int near_first, near_count;   /* the members in this node block: the first, and how many */
    uint64_t link_ns[2];          /* of comm_stat, so far in the call */
    uint64_t exchanges[GROUPS];   /* number of arrivals so far in groups of each kind; the parity selects the message slot */
    unsigned char **base;         /* by rank: symmetric segment, NULL for a far rank */
    uint64_t segment_bytes;
    void **shared;                /* by rank: comm_share() memory, NULL on another machine */
    size_t shared_bytes;
};

/* Allocates a communicator with its tables. The backend (group.c, mpi.c) fills in node, watch and wire. */
int comm_new(struct comm **out, const struct comm_layout *layout, struct error *err);

/* The barrier at the start of a call: every rank posts a message with the call, a digest of its arguments and `bytes` of `mine`.
 * Afterwards comm_message() returns each rank's message. payload_bytes is the same on all ranks. Sets healthy and the times of stat. */
int comm_arrive(struct comm *comm, enum comm_call call, uint64_t digest, bool healthy, const void *mine, size_t bytes,
                size_t payload_bytes, struct comm_stat *stat, struct error *err);
const struct node_message *comm_message(const struct comm *comm, int rank); /* in a call of all ranks */
/* A member's sign in this call, at the beginning of its message if it has one. */
struct node_sign *comm_sign(const struct comm *comm, int rank);

/* Returns 0 if status is 0; else tells the far ranks, copies the node's failure to err and returns its status. */
int comm_result(struct comm *comm, int status, struct error *err);

/* After a failed device operation: ends the run for every rank. Returns STATUS_RUN. */
int comm_failed(struct comm *comm, const struct error *failure);

/* Whether some members of the call can only be reached by the wire. */
static inline bool comm_goes_far(const struct comm *comm)
{
    return comm->near_count < comm->members.count;
}

/* A barrier of the call's members in this node block. Adds the waiting time to *waited_ns. */
static inline int comm_barrier_of_call(struct comm *comm, uint64_t *waited_ns)
{
    struct node *node = comm->node;
    const enum group kind = comm->members.kind;
    struct barrier *barrier = kind == GROUP_WORLD ? &node->all : &node->seat[comm->near_first].group[kind];
    return node_meet(node, barrier, kind == GROUP_WORLD ? node->members : comm->near_count, &comm->watch, waited_ns);
}

/* A rank counts as inside while it, or its device operations, may read other ranks' memory. With device barriers it counts
 * as inside until comm_close() (`at_last`). STATUS_RUN: a device operation failed, and comm_failed() has ended the run. */
int comm_end_reading(struct comm *comm, bool at_last);

/* pass.c: gathers and reductions with device_ops->pass. They only enqueue work; mover_finish() waits for it. */
int pass_gather(struct comm *comm, const struct collective *c);
int pass_reduce(struct comm *comm, const struct collective *c);

/* Adds `elems` elements of each source by device_ops->reduce, as the collective says. STATUS_RUN: comm_failed() has ended the run. */
int comm_reduce_on_device(struct comm *comm, const struct collective *c, void *destination, const void *const *sources, int count, int64_t elems);

/* copy.c: like memcpy, past the caches. A gathered unit of many megabytes would be evicted before it is read, and an
 * ordinary store first fetches the line that it overwrites. So streaming stores save a third of the memory traffic
 * (measured: 16 MiB on four ranks 1.4 to 1.6 times as fast). Small copies should stay in the cache: use memcpy. When it
 * returns, other threads see the data as after ordinary stores. */
void copy_stream(void *destination, const void *source, size_t bytes);

/* Hands memory of comm_share() over to the group, which frees it at its end, because other threads may still read it. */
void comm_group_keep(struct comm_group *group, int rank, void *memory, size_t bytes);

/* Maps `bytes` of a file descriptor of another process of this machine; NULL and an error if that is not allowed. */
void *comm_map_of_process(int pid, int fd, uint64_t bytes, struct error *err);

static inline enum link comm_link(const struct comm *comm, int rank)
{
    return comm->peer[rank].node == comm->layout.node ? LINK_INTRA : LINK_INTER;
}

/* A rank that reads a near rank's memory counts the bytes as sent by that rank. On the wire and in passes the sender counts them. */
static inline void comm_count_sent(struct comm *comm, int sender, enum link link, uint64_t bytes)
{
    atomic_fetch_add_explicit(&comm->node->seat[sender].sent_bytes[link], bytes, memory_order_relaxed);
}

/* A reduction has read the sources of all members for `ns`. Each link was in use for its share of the others' bytes. */
static inline void comm_share_time(struct comm *comm, uint64_t ns)
{
    for (int m = 0; m < comm->members.count; m++) {
        const int rank = member_rank(&comm->members, m);
        if (rank != comm->layout.rank) comm->link_ns[comm_link(comm, rank)] += ns / (uint64_t)(comm->members.count - 1);
    }
}

/* Where this rank stores a range. */
static inline unsigned char *comm_place(const struct comm *comm, const struct collective *c, const struct comm_range *range)
{
    return c->in_place ? comm->base[comm->layout.rank] + range->source : range->destination;
}
