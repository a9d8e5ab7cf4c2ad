/* Internals shared by the files of comm/. A rank divides the other ranks in two ways:
 *     same node, other node   (layout)          the link under which bytes are counted
 *     near ranks              (base not NULL)   their symmetric segment is mapped here; data is read in place
 *     far ranks               (base NULL)       data goes through the wire (MPI)
 * Under MPI the ranks of a node are near to each other. If one zerolab process started the ranks (group.c), all are
 * near: virtual nodes then only decide how bytes are counted and paced. */
#pragma once

#include <pthread.h>

#include "engine/comm/comm.h"
#include "engine/comm/node.h"
#include "kernels/kernels.h"

enum comm_call { CALL_GATHER, CALL_REDUCE, CALL_ALL_REDUCE, CALL_EXCHANGE, CALL_BROADCAST, CALL_ATTACH, CALL_SHARE, CALL_CLOSE };

/* The place of each rank; the table is equal on every rank. host: "" if not known, as in one program. */
struct comm_peer { int node, machine, pid; char host[64]; };

/* Operations between nodes. Only the thread inside a collective calls them. They return 0, or STATUS_RUN after node_fail(). */
struct comm_wire {
    /* The first member on each node calls it: fills the node block's messages with those of members on other nodes. */
    int (*exchange)(struct comm *comm, size_t payload_bytes);
    /* in_place: each range's destination is its source offset in this rank's segment. */
    int (*gather)(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool in_place);
    int (*reduce)(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count, bool in_place, bool accumulate);
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
    uint64_t meetings;            /* number of device meetings so far */
    bool inside;                  /* counted in node.inside */
    struct process_group members; /* the ranks in the call */
    int near_first, near_count;   /* of these, the ones that meet in this node block */
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

/* Whether members of the call can only be reached by the wire. */
static inline bool comm_goes_far(const struct comm *comm)
{
    return comm->near_count < comm->members.count;
}

/* Waits for the members that meet in this node block. */
static inline int comm_barrier_of_call(struct comm *comm, uint64_t *waited_ns)
{
    struct node *node = comm->node;
    const enum group kind = comm->members.kind;
    struct barrier *barrier = kind == GROUP_WORLD ? &node->all : &node->seat[comm->near_first].group[kind];
    return node_meet(node, barrier, kind == GROUP_WORLD ? node->members : comm->near_count, &comm->watch, waited_ns);
}

/* meet.c: a barrier inside a collective that also orders device operations: those enqueued before it, on any device, run before
 * those enqueued after it. comm_device_barrier() is the whole barrier; comm_device_barrier_begin() and comm_device_barrier_end() are its halves before and after comm_arrive(). */
int comm_device_barrier_begin(struct comm *comm);
int comm_device_barrier_end(struct comm *comm, struct comm_stat *stat);
int comm_device_barrier(struct comm *comm, struct comm_stat *stat);
/* A rank counts as inside while it, or its device operations, may read other ranks' memory. With device meetings that
 * is until comm_close() (`at_last`). STATUS_RUN: a device operation failed, and all ranks were told. */
void comm_begin_reading(struct comm *comm);
int comm_end_reading(struct comm *comm, bool at_last);

/* pass.c: gathers and reductions with device_ops->pass. They only enqueue work; mover_finish() waits for it. */
int pass_gather(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool in_place);
int pass_reduce(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count, bool in_place, bool accumulate);

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
        if (rank != comm->layout.rank)
            comm->link_ns[comm_link(comm, rank)] += ns / (uint64_t)(comm->members.count - 1);
    }
}

/* Where this rank stores a range: at its destination or, if in_place, at the source offset in this rank's own segment. */
static inline unsigned char *comm_place(const struct comm *comm, const struct comm_range *range, bool in_place)
{
    return in_place ? comm->base[comm->layout.rank] + range->source : range->destination;
}
