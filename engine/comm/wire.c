/* Control messages between nodes. The first member of a call on a node sends and receives for all members there. */
#ifdef HAVE_MPI
#include "engine/comm/wire.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"

int wire_check(struct comm *comm, int mpi_status)
{
    if (mpi_status == MPI_SUCCESS) return 0;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    WIRE_CALL(comm->wire_state, MPI_Error_string(mpi_status, text, &length));
    node_fail(comm->node, "rank %d: message passing failed: %.*s", comm->layout.rank, length, text);
    return STATUS_RUN;
}

static void hear_failure(struct comm *comm)
{
    int there = 0;
    struct error heard = {0};
    struct wire *wire = comm->wire_state;
    if (WIRE_CALL(wire, MPI_Iprobe(MPI_ANY_SOURCE, WIRE_FAILURE, wire->world, &there, MPI_STATUS_IGNORE)) || !there)
        return;
    if (WIRE_CALL(wire, MPI_Recv(&heard, sizeof heard, MPI_BYTE, MPI_ANY_SOURCE, WIRE_FAILURE, wire->world,
                                 MPI_STATUS_IGNORE)))
        return;
    node_fail_as(comm->node, heard.status, "%.*s", (int)sizeof heard.text - 1, heard.text);
}

/* A rank that fails tells the node, then the far ranks, then ends. So a process that is gone may have reported a
 * failure before: that report, or a failure that the node already has, takes precedence over the death. */
static void look_for_failure(struct comm *comm)
{
    hear_failure(comm);
    const struct watched *dead = watch_dead(&comm->watch);
    if (!dead) dead = watch_dead(&comm->wire_state->far_watch);
    if (!dead) return;
    hear_failure(comm);
    node_fail(comm->node, DEATH_FORMAT, dead->rank, dead->pid);
}

/* Sleeps about a sixteenth of the time waited so far, so short waits end on time and long waits cost little CPU time. */
int wire_pause(struct comm *comm, struct patience *patience)
{
    enum { LOOKS = 4, SHORTEST_NS = 20000, LONGEST_NS = 5000000 };
    uint64_t now = clock_ns();
    if (!patience->since_ns) patience->since_ns = now;
    look_for_failure(comm);
    if (node_has_failed(comm->node)) return STATUS_RUN;
    if (patience->looks++ < LOOKS) {
        sched_yield();
        return 0;
    }
    uint64_t sleep_ns = (now - patience->since_ns) / 16;
    if (sleep_ns < SHORTEST_NS) sleep_ns = SHORTEST_NS;
    if (sleep_ns > LONGEST_NS) sleep_ns = LONGEST_NS;
    nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
    return 0;
}

void wire_drop(struct wire *wire, MPI_Request *request, int count)
{
    wire_enter(wire);
    for (int i = 0; i < count; i++) {
        if (request[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request[i]);
        MPI_Request_free(&request[i]);
    }
    wire_leave(wire, 0);
}

static int wait_all(struct comm *comm, MPI_Request *request, int count)
{
    struct patience patience = {0};
    for (;;) {
        int done = 0, result = WIRE_CALL(comm->wire_state, MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE)),
            status = wire_check(comm, result);
        if (!status && done) return 0;
        if (!status) status = wire_pause(comm, &patience);
        if (!status) continue;
        wire_drop(comm->wire_state, request, count);
        return status;
    }
}

/* Copies the signs and payloads of the members on a node, in the order of the group, between the node block and `packed`; returns the
 * bytes. */
static size_t pack(struct comm *comm, int node, unsigned char *packed, size_t size, bool unpack)
{
    size_t at = 0;
    for (int m = 0; m < comm->members.count; m++) {
        const int rank = member_rank(&comm->members, m);
        if (comm->peer[rank].node != node) continue;
        if (unpack) memcpy(comm_sign(comm, rank), packed + at, size);
        else memcpy(packed + at, comm_sign(comm, rank), size);
        at += size;
    }
    return at;
}

/* *first: the first member on a node, or -1. Returns how many are on it. */
static int members_on(const struct comm *comm, int node, int *first)
{
    int count = 0;
    *first = -1;
    for (int m = comm->members.count - 1; m >= 0; m--) {
        const int rank = member_rank(&comm->members, m);
        if (comm->peer[rank].node != node) continue;
        *first = rank;
        count++;
    }
    return count;
}

static int exchange(struct comm *comm, size_t payload_bytes)
{
    struct wire *wire = comm->wire_state;
    const size_t size = sizeof(struct node_sign) + payload_bytes;
    const size_t own_bytes = pack(comm, comm->layout.node, (unsigned char *)wire->out, size, false);
    int status = 0, posted = 0, first;
    for (int n = 0; n < comm->layout.nodes && !status; n++) {
        const int count = n == comm->layout.node ? 0 : members_on(comm, n, &first);
        if (!count) continue;
        status = WIRE_TRY(comm, MPI_Irecv(&wire->in[first], (int)(size * (size_t)count), MPI_BYTE, first, WIRE_MESSAGE,
                                          wire->world, &wire->request[posted]));
        if (!status) posted++;
        if (!status)
            status = WIRE_TRY(comm, MPI_Isend(wire->out, (int)own_bytes, MPI_BYTE, first, WIRE_MESSAGE, wire->world,
                                              &wire->request[posted]));
        if (!status) posted++;
    }
    if (status) wire_drop(wire, wire->request, posted);
    if (!status) status = wait_all(comm, wire->request, posted);
    for (int n = 0; n < comm->layout.nodes && !status; n++)
        if (n != comm->layout.node && members_on(comm, n, &first))
            pack(comm, n, (unsigned char *)&wire->in[first], size, true);
    return status;
}

/* Sends the failure to the far ranks. The message is small enough to be sent at once, and this rank does not wait for its arrival. */
static void announce(struct comm *comm)
{
    struct wire *wire = comm->wire_state;
    if (wire->announced) return;
    wire->announced = true;
    node_error(comm->node, &wire->announcement);
    for (int i = 0; i < wire->far_count; i++) {
        MPI_Request request;
        wire_enter(wire);
        if (MPI_Isend(&wire->announcement, sizeof wire->announcement, MPI_BYTE, wire->far[i], WIRE_FAILURE, wire->world,
                      &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
        wire_leave(wire, 0);
    }
}

const struct comm_wire wire_mpi = {exchange, wire_gather, wire_reduce, announce, look_for_failure};

static void note_nodes(struct comm *comm, struct wire *wire)
{
    const struct comm_peer *self = &comm->peer[comm->layout.rank];
    for (int r = 0; r < comm->layout.ranks; r++) {
        const struct comm_peer *peer = &comm->peer[r];
        if (peer->node == self->node) continue;
        wire->far[wire->far_count++] = r;
        if (peer->machine == self->machine) watch_add(&wire->far_watch, r, peer->pid);
    }
}

int wire_open(struct comm *comm, struct error *err)
{
    enum { CHUNK_MOST = 256 << 10, CHUNK_LEAST = 4 << 10, CHUNKS_BYTES = 16 << 20 };
    struct wire *wire = comm->wire_state;
    size_t nodes = (size_t)comm->layout.nodes, ranks = (size_t)comm->layout.ranks;
    wire->out = calloc(ranks, sizeof *wire->out);
    wire->in = calloc(ranks, sizeof *wire->in);
    wire->far = calloc(2 * ranks, sizeof *wire->far);
    wire->request = calloc(2 * nodes + WIRE_GROUPS * ranks, sizeof *wire->request);
    if (!wire->out || !wire->in || !wire->far || !wire->request)
        return error_set(err, STATUS_RUN, "no memory for messages between nodes");
    wire->far_now = wire->far + ranks;
    int64_t chunk = CHUNKS_BYTES / comm->layout.ranks / 64 * 64;
    wire->chunk_bytes = chunk > CHUNK_MOST ? CHUNK_MOST : chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk;
    note_nodes(comm, wire);
    comm->wire = &wire_mpi;
    return 0;
}

void wire_release(struct wire *wire)
{
    if (!wire) return;
    watch_release(&wire->far_watch);
    for (int g = 0; g < WIRE_GROUPS; g++) free(wire->chunk[g]);
    free(wire->unwanted);
    free(wire->out);
    free(wire->in);
    free(wire->far);
    free(wire->request);
    free(wire);
}
#else
typedef int wire_needs_mpi;
#endif
