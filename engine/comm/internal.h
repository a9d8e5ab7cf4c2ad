/* What the files of comm/ share. A rank knows three circles of others:
 *     its node        (layout)          decides the link class that bytes are counted under
 *     its near ranks  (base not NULL)   their symmetric segment is mapped here: data is read in place
 *     the far ranks                     reached through the wire
 * Under MPI a rank has its node's ranks near. Ranks that one process of ours started (group.c) have everyone near: their
 * virtual nodes are only counted as such. */
#ifndef ENGINE_COMM_INTERNAL_H
#define ENGINE_COMM_INTERNAL_H

#include "engine/comm/comm.h"
#include "engine/comm/node.h"
#include "kernels/kernels.h"

enum comm_call { CALL_GATHER, CALL_REDUCE, CALL_ALL_REDUCE, CALL_EXCHANGE, CALL_BROADCAST, CALL_ATTACH, CALL_SHARE, CALL_CLOSE };

/* Where each rank lives; equal on every rank. */
struct comm_peer { int node, machine, pid; };

/* Between nodes. Only the thread inside a collective calls these. They return 0, or STATUS_RUN after node_fail(). */
struct comm_wire {
    /* Called on the first rank of each node: completes the messages of slot with those of the other nodes. */
    int (*exchange)(struct comm *comm, int slot, size_t payload_bytes);
    /* in_place: destinations are the parts' sources in our own segment. */
    int (*gather)(struct comm *comm, enum dtype dtype, const struct comm_part *parts, int count, bool in_place);
    int (*reduce)(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_part *parts, int count, bool in_place, bool accumulate);
    void (*announce)(struct comm *comm); /* tells the far ranks that we have failed */
    void (*look)(struct comm *comm);     /* fails the node if far ranks say so, or a peer has died */
};

struct comm {
    struct comm_layout layout;
    struct comm_peer *peer;       /* by rank */
    struct node *node;            /* shared by all who meet in it */
    size_t node_bytes;            /* of its mapping, to undo it */
    int node_first;               /* first rank of the node */
    struct watch watch;           /* the node's other processes; empty where a supervisor watches the ranks */
    const struct comm_wire *wire; /* NULL: no far ranks */
    struct wire *wire_state;
    void (*close_backend)(struct comm *comm, bool healthy); /* NULL: nothing to close */
    struct comm_group *group;     /* of threads; NULL: ranks are processes */
    struct reduce_factors factors;
    const struct comm_device_ops *device_ops; /* NULL: the thread inside the collective, in memory */
    unsigned char *room;            /* comm_room() */
    uint64_t room_bytes;
    struct transfer *transfers;     /* of the go that is being made */
    int transfer_count, transfer_room;
    uint64_t meetings;            /* to which device operations have come */
    bool inside;                  /* counted in node.inside */
    uint64_t exchanges;           /* done so far: says which message slot is next */
    unsigned char **base;         /* by rank: symmetric segment, NULL when far */
    uint64_t segment_bytes;
    void **shared;                /* by rank: comm_share() memory, NULL on another machine */
    size_t shared_bytes;
};

/* Allocates a rank's view with its tables; node, watch and wire are the backend's to fill in. */
int comm_new(struct comm **out, const struct comm_layout *layout, struct error *err);

/* All ranks meet and say what they are about to do; afterwards message(comm, rank) holds what each said. bytes of `mine`
 * are sent along; payload_bytes is the size that all agree on. stat->healthy and peers_ns are set. */
int comm_arrive(struct comm *comm, enum comm_call call, uint64_t digest, bool healthy, const void *mine, size_t bytes,
                size_t payload_bytes, struct comm_stat *stat, struct error *err);
const struct node_message *comm_message(const struct comm *comm, int rank);

/* The result of a step that may have failed: 0, or the node's failure in err. */
int comm_result(struct comm *comm, int status, struct error *err);

/* A device operation failed: the run ends for every rank. Returns STATUS_RUN. */
int comm_failed(struct comm *comm, const struct error *failure);

/* meet.c: a barrier inside a collective, which device operations keep too: what was asked of any device before it is done before
 * what is asked after it. comm_meet() is all of it; comm_come() and comm_met() are its two halves, between which comm_arrive() stands. */
int comm_come(struct comm *comm);
int comm_met(struct comm *comm, struct comm_stat *stat);
int comm_meet(struct comm *comm, struct comm_stat *stat);
/* A rank counts as inside while it, or its device operations, may read other ranks' memory. Device operations that meet may read until
 * the rank leaves for good (`at_last`). STATUS_RUN: a device operation failed, and every rank knows. */
void comm_begin_reading(struct comm *comm);
int comm_end_reading(struct comm *comm, bool at_last);

/* pass.c: gathers and reductions where device operations pass. What they send is done when the device operations have finished. */
int pass_gather(struct comm *comm, enum dtype dtype, const struct comm_part *parts, int count, bool in_place);
int pass_reduce(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_part *parts, int count, bool in_place, bool accumulate);

/* Gives memory that comm_share() made to the group, to be freed with it: other threads may still read it. */
void comm_group_keep(struct comm_group *group, int rank, void *memory, size_t bytes);

/* Maps a descriptor of another process of this machine; NULL and an error when that is not allowed. */
void *comm_map_of_process(int pid, int fd, uint64_t bytes, struct error *err);

static inline enum link comm_link(const struct comm *comm, int rank)
{
    return comm->peer[rank].node == comm->layout.node ? LINK_INTRA : LINK_INTER;
}

/* Whoever reads from a near rank counts it as that rank's sending; what goes through the wire, or is passed, the sender counts. */
static inline void comm_count_sent(struct comm *comm, int sender, enum link link, uint64_t bytes)
{
    atomic_fetch_add_explicit(&comm->node->seat[sender].sent_bytes[link], bytes, memory_order_relaxed);
}

/* Where this rank wants a part: at the destination, or (in_place) in its own segment where the part's source is. */
static inline unsigned char *comm_place(const struct comm *comm, const struct comm_part *part, bool in_place)
{
    return in_place ? comm->base[comm->layout.rank] + part->source : part->destination;
}

#endif
