/* Messages between nodes, by MPI. Only builds with MPI include this file.
 *
 * Requires MPI_THREAD_SERIALIZED. On one machine only the thread inside a collective calls MPI. On several machines the thread of
 * the side channel (side.c) calls it too, and a mutex keeps the calls apart: every call here is made inside WIRE_CALL(), and none
 * blocks. A waiting thread tests its requests and looks for failures, then sleeps, longer each time. (Open MPI's blocking calls
 * would keep a core busy.) */
#pragma once

#include <mpi.h>
#include <pthread.h>

#include "engine/comm/internal.h"

enum wire_tag { WIRE_MESSAGE, WIRE_DATA, WIRE_FAILURE };
enum { WIRE_GROUPS = 3 };

struct side;

struct wire {
    MPI_Comm world;
    struct side *side;     /* NULL: one machine */
    pthread_mutex_t calls; /* held during each call of MPI if there is a side channel */
    bool owns_mpi;                     /* zerolab initialised MPI and must finalise it */
    struct node_message *out, *in;     /* by rank: buffers for the messages between the nodes' first ranks */
    int far_count;
    int *far;                          /* the far ranks, ascending */
    int *far_now, far_now_count;       /* the far ranks that are in the call */
    struct watch far_watch;            /* far ranks on this machine (virtual nodes) */
    MPI_Request *request;              /* two for each node, and one for each far rank in each group */
    int64_t chunk_bytes;               /* equal on every rank */
    unsigned char *chunk[WIRE_GROUPS]; /* the far ranks' sources of a chunk to reduce; allocated by the first reduction */
    unsigned char *unwanted;           /* chunks of ranges that this rank does not need; allocated by the first such range */
    bool announced;
    struct error announcement;
};

extern const struct comm_wire wire_mpi;

static inline void wire_enter(struct wire *wire)
{
    if (wire->side) pthread_mutex_lock(&wire->calls);
}

static inline int wire_leave(struct wire *wire, int result)
{
    if (wire->side) pthread_mutex_unlock(&wire->calls);
    return result;
}

/* The result of one call of MPI, made while no other thread is inside MPI. */
#define WIRE_CALL(wire, call) (wire_enter(wire), wire_leave(wire, call))

int wire_open(struct comm *comm, struct error *err);
void wire_release(struct wire *wire);

int wire_gather(struct comm *comm, const struct collective *c);
int wire_reduce(struct comm *comm, const struct collective *c);

/* Returns 0 for MPI_SUCCESS; else fails the node with MPI's message and returns STATUS_RUN. */
int wire_check(struct comm *comm, int mpi_status);
#define WIRE_TRY(comm, call) wire_check(comm, WIRE_CALL((comm)->wire_state, call))

/* Looks for failures, then sleeps until the requests should be tested again. STATUS_RUN: the run has failed. The caller
 * zeroes `patience` when a request has finished. */
struct patience { uint64_t since_ns; int looks; };
int wire_pause(struct comm *comm, struct patience *patience);

/* Cancels and frees requests after a failure. */
void wire_drop(struct wire *wire, MPI_Request *request, int count);

/* side.c. Collective: opens the side channel (comm.h) if the ranks are on several machines. */
int side_open(struct comm *comm, struct error *err);
void side_close(struct wire *wire, bool healthy);
