/* Messages between nodes, by MPI. Only included where MPI is there.
 *
 * Requires MPI_THREAD_SERIALIZED: after comm_open_mpi() only the thread inside a collective calls MPI. Waiting tests
 * requests and sleeps in between, longer the longer it lasts (Open MPI's own blocking calls would burn a core), and looks
 * for failures each time. */
#ifndef ENGINE_COMM_WIRE_H
#define ENGINE_COMM_WIRE_H

#include <mpi.h>

#include "engine/comm/internal.h"

enum wire_tag { WIRE_MESSAGE, WIRE_DATA, WIRE_FAILURE };
enum { WIRE_GROUPS = 3 };

struct wire {
    MPI_Comm world;
    bool owns_mpi;                     /* we initialised it, so we finalise it */
    int *first, *members;              /* by node */
    struct node_message *out, *in;     /* by rank: what the first ranks of nodes tell each other */
    int far_count;
    int *far;                          /* the far ranks, ascending */
    struct watch far_watch;            /* far ranks on this machine (virtual nodes) */
    MPI_Request *request;              /* room for two per node, and for every far rank of every group */
    int64_t chunk_bytes;               /* equal on every rank */
    unsigned char *chunk[WIRE_GROUPS]; /* what far ranks sent of a chunk that is to be reduced; made at first need */
    bool announced;
    struct error announcement;
};

extern const struct comm_wire wire_mpi;

int wire_open(struct comm *comm, struct error *err);
void wire_release(struct wire *wire);

int wire_gather(struct comm *comm, enum dtype dtype, const struct comm_part *parts, int count, bool in_place);
int wire_reduce(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_part *parts, int count, bool in_place, bool accumulate);

/* 0, or STATUS_RUN after failing the node with what MPI says. */
int wire_check(struct comm *comm, int mpi_status);

/* Between two looks at requests that have not moved; STATUS_RUN: the run has failed meanwhile. */
struct patience { uint64_t since_ns; int looks; }; /* all zero when something moved */
int wire_pause(struct comm *comm, struct patience *patience);

/* Forgets requests after a failure. */
void wire_drop(MPI_Request *request, int count);

#endif
