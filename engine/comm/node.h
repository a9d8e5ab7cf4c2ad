/* The node block: shared memory that all ranks of a node map, with a barrier, a failure that ends every wait, messages,
 * and counters of sent bytes. Each rank of the run has two message slots, used in turn, so that a rank can write its
 * next message while slow ranks still read the last one.
 *
 * The barrier's word is also the futex: bit 0 says that the node has failed, the other bits count rounds. So a failure
 * changes the word, and no wake-up can be lost. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/group.h"

/* A waiting rank checks about five times a second whether the other processes are alive. */
enum { WATCH_NS = 200000000 };
#define DEATH_FORMAT "rank %d (process %d) died"

struct watched { int rank, pid, pidfd; }; /* pidfd -1: the kernel has no pidfds; kill(pid, 0) is used instead */
struct watch {
    struct watched *peer; /* empty if ranks are threads */
    int count;
    _Atomic uint64_t next_ns; /* two threads may look (the watcher of comm.c) */
};

void watch_add(struct watch *watch, int rank, int pid);
void watch_release(struct watch *watch);

/* The first peer found dead, or NULL. Also NULL if the last check was less than WATCH_NS ago. */
const struct watched *watch_dead(struct watch *watch);

enum { NODE_PAYLOAD_BYTES = 4096 };

/* What an arriving rank says of its call. The digest covers all arguments that must be equal on all ranks. */
struct node_sign {
    uint32_t call, healthy;
    uint64_t digest;
};

struct node_message {
    struct node_sign sign;
    unsigned char payload[NODE_PAYLOAD_BYTES];
};

/* Where ranks meet. round: the number of times that they have, with a flag of the failure. */
struct barrier {
    _Alignas(64) _Atomic uint32_t round;
    _Alignas(64) _Atomic uint32_t arrived;
};

struct node_seat {
    _Alignas(64) _Atomic uint64_t sent_bytes[2]; /* LINK_INTRA, LINK_INTER: other ranks add the bytes that they read of this rank */
    struct node_message message[2]; /* of calls of all ranks */
    struct node_sign sign[GROUPS][2]; /* of calls within a group of each kind */
    struct barrier group[GROUPS];     /* of the group of each kind whose first rank here is this one */
};

struct node {
    int members, seats; /* ranks of the node, which meet at `all`; ranks of the run */
    struct barrier all;
    _Atomic uint32_t inside; /* ranks that may read others' memory (comm_begin_reading()) */
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
