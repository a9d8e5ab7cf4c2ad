/* The meeting place of the ranks that share memory: one block per node, mapped by all of them.
 *
 * It holds a barrier, a failure that ends every wait, two message slots per rank of the whole run (used in turn, so that a
 * rank may write its next message while slow readers still read the last one), and the counters of what was sent.
 *
 * The barrier's word is also the futex: bit 0 says that the node has failed, the rest counts rounds. A failure thus
 * changes the word, and no wake-up can be lost. */
#ifndef ENGINE_COMM_NODE_H
#define ENGINE_COMM_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

/* Are the other processes still alive? A rank that waits for others looks about five times a second. */
enum { WATCH_NS = 200000000 };
#define DEATH_FORMAT "rank %d (process %d) died"

struct watched { int rank, pid, pidfd; }; /* pidfd -1: the kernel has none, signal 0 is asked instead */
struct watch {
    struct watched *peer; /* none when ranks are threads */
    int count;
    uint64_t next_ns;
};

void watch_add(struct watch *watch, int rank, int pid);
void watch_release(struct watch *watch);

/* The first peer found dead, or NULL; also NULL when it was asked less than WATCH_NS ago. */
const struct watched *watch_dead(struct watch *watch);

enum { NODE_PAYLOAD_BYTES = 4096 };

/* What a rank says when it arrives. The digest covers all that the ranks must agree on. */
struct node_message {
    uint32_t call, healthy;
    uint64_t digest;
    unsigned char payload[NODE_PAYLOAD_BYTES];
};

struct node_seat {
    _Alignas(64) _Atomic uint64_t sent_bytes[2]; /* LINK_INTRA, LINK_INTER: others add what they read of this rank */
    struct node_message message[2];
};

struct node {
    int members; /* ranks that meet here */
    _Alignas(64) _Atomic uint32_t round;
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic uint32_t inside; /* ranks inside a collective, or whose device operations may be */
    _Atomic uint32_t failing; /* the first to set it writes the text */
    struct error failure;
    struct node_seat seat[]; /* one per rank of the run */
};

static inline size_t node_bytes(int ranks)
{
    return sizeof(struct node) + (size_t)ranks * sizeof(struct node_seat);
}

/* Waits until all members are here; adds the time asleep to *waited_ns. STATUS_RUN: the node has failed. A peer found
 * dead meanwhile makes it fail. */
int node_meet(struct node *node, struct watch *watch, uint64_t *waited_ns);

/* Ends all waits of the node, now and later. The first reason stays, with what the program will end with: node_fail() with
 * STATUS_RUN. */
void node_fail(struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
void node_fail_as(struct node *node, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool node_has_failed(const struct node *node);
int node_error(const struct node *node, struct error *err); /* sets the reason; returns its status */

#endif
