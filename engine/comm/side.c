/* The side channel between machines: messages of MPI in a communicator of their own, between rank 0 and the leaders.
 *
 * Each end keeps one receive posted for each peer, and copies what it sends into one of a few slots. So a message larger than
 * MPI's eager limit moves too, by the calls of either end, and nobody waits inside MPI. */
#include "engine/comm/internal.h"

#ifndef HAVE_MPI

bool comm_side_send(struct comm *comm, int machine, const void *message, size_t bytes)
{
    (void)comm, (void)machine, (void)message, (void)bytes;
    return false;
}

size_t comm_side_receive(struct comm *comm, int machine, void *out)
{
    (void)comm, (void)machine, (void)out;
    return 0;
}

bool comm_side_sent(struct comm *comm)
{
    (void)comm;
    return true;
}

#else

#include <stdlib.h>
#include <string.h>

#include "engine/comm/wire.h"

enum { SIDE_SLOTS = 8, SIDE_TAG = 0 };

struct side_peer {
    int rank;            /* -1: this machine has no messages for that one */
    MPI_Request request; /* MPI_REQUEST_NULL: the peer is gone */
    unsigned char *in;
};

struct side {
    MPI_Comm world;
    int machines;
    struct side_peer *peer; /* by machine */
    MPI_Request sending[SIDE_SLOTS];
    unsigned char *out[SIDE_SLOTS];
};

/* After an error the peer counts as gone: the collectives find out why, and end the run. */
static void post(struct side *side, struct side_peer *peer)
{
    if (MPI_Irecv(peer->in, COMM_SIDE_BYTES, MPI_BYTE, peer->rank, SIDE_TAG, side->world, &peer->request))
        peer->request = MPI_REQUEST_NULL;
}

static bool make_room(struct comm *comm, struct side *side)
{
    const int rank = comm->layout.rank, machine = comm->peer[rank].machine;
    const bool leads = comm_leader_of(comm, machine) == rank;
    side->peer = calloc((size_t)side->machines, sizeof *side->peer);
    if (!side->peer) return false;
    for (int m = 0; m < side->machines; m++)
        side->peer[m] = (struct side_peer){.rank = -1, .request = MPI_REQUEST_NULL};
    for (int m = 0; m < side->machines; m++) {
        struct side_peer *peer = &side->peer[m];
        if (!leads || m == machine || (rank && m)) continue;
        peer->in = malloc(COMM_SIDE_BYTES);
        if (!peer->in) return false;
        peer->rank = comm_leader_of(comm, m);
    }
    for (int s = 0; s < SIDE_SLOTS && leads; s++)
        if (!(side->out[s] = malloc(COMM_SIDE_BYTES))) return false;
    return true;
}

int side_open(struct comm *comm, struct error *err)
{
    struct wire *wire = comm->wire_state;
    MPI_Comm world;
    MPI_Comm_dup(wire->world, &world); /* collective, so before anything can fail */
    struct side *side = calloc(1, sizeof *side);
    if (!side) return error_set(err, STATUS_RUN, "no memory for messages between machines");
    side->world = world;
    side->machines = comm_machines(comm);
    for (int s = 0; s < SIDE_SLOTS; s++) side->sending[s] = MPI_REQUEST_NULL;
    pthread_mutex_init(&wire->calls, NULL);
    wire->side = side;
    if (!make_room(comm, side)) return error_set(err, STATUS_RUN, "no memory for messages between machines");
    for (int m = 0; m < side->machines; m++)
        if (side->peer[m].rank >= 0) post(side, &side->peer[m]);
    return 0;
}

void side_close(struct wire *wire, bool healthy)
{
    struct side *side = wire->side;
    if (!side) return;
    wire->side = NULL; /* its thread has ended */
    for (int m = 0; side->peer && m < side->machines; m++) wire_drop(wire, &side->peer[m].request, 1);
    wire_drop(wire, side->sending, SIDE_SLOTS);
    if (healthy) MPI_Comm_free(&side->world);
    for (int m = 0; side->peer && m < side->machines; m++) free(side->peer[m].in);
    for (int s = 0; s < SIDE_SLOTS; s++) free(side->out[s]);
    free(side->peer);
    free(side);
    pthread_mutex_destroy(&wire->calls);
}

/* How many slots have a message that has left, or none; *slot: one of them. */
static int free_slots(struct wire *wire, int *slot)
{
    struct side *side = wire->side;
    int count = 0;
    for (int s = 0; s < SIDE_SLOTS; s++) {
        int done = 1;
        if (side->sending[s] != MPI_REQUEST_NULL &&
            WIRE_CALL(wire, MPI_Test(&side->sending[s], &done, MPI_STATUS_IGNORE)))
            side->sending[s] = MPI_REQUEST_NULL;
        if (done) count++, *slot = s;
    }
    return count;
}

bool comm_side_send(struct comm *comm, int machine, const void *message, size_t bytes)
{
    struct wire *wire = comm->wire_state;
    struct side *side = wire->side;
    int slot;
    if (!free_slots(wire, &slot)) return false;
    if (side->peer[machine].request == MPI_REQUEST_NULL) return true;
    memcpy(side->out[slot], message, bytes);
    if (WIRE_CALL(wire, MPI_Isend(side->out[slot], (int)bytes, MPI_BYTE, side->peer[machine].rank, SIDE_TAG,
                                  side->world, &side->sending[slot])))
        side->sending[slot] = MPI_REQUEST_NULL;
    return true;
}

size_t comm_side_receive(struct comm *comm, int machine, void *out)
{
    struct wire *wire = comm->wire_state;
    struct side_peer *peer = &wire->side->peer[machine];
    int done = 0, bytes = 0;
    MPI_Status status;
    if (peer->request == MPI_REQUEST_NULL) return 0;
    wire_enter(wire);
    if (MPI_Test(&peer->request, &done, &status)) peer->request = MPI_REQUEST_NULL, done = 0;
    if (done) {
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        memcpy(out, peer->in, (size_t)bytes);
        post(wire->side, peer);
    }
    wire_leave(wire, 0);
    return (size_t)bytes;
}

bool comm_side_sent(struct comm *comm)
{
    int slot;
    return free_slots(comm->wire_state, &slot) == SIDE_SLOTS;
}

#endif
