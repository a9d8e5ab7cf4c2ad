/* Tensor data between nodes, by direct exchange. Gather: the owner of a range sends it to every far rank. Reduce: every far
 * rank sends its source to the owner, which adds all N sources in rank order. So the sums have the same bits as on one node.
 *
 * Data moves in chunks. All transfers of a collective have one order, the same on every rank: by range, then chunk, then
 * peer. Each rank starts its own sends and its own receives in that order, with a few in flight at a time. So the first
 * transfer in the order that has not finished is always in flight at both ends, and there is no deadlock. Messages
 * between two ranks match by their order alone. */
#ifdef HAVE_MPI
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/comm/wire.h"
#include "kernels/kernels.h"

enum { WINDOW = 8 };

struct move {
    struct comm *comm;
    struct wire *wire;
    const struct collective *all;
    bool used; /* there was something to send or to receive */
    int64_t chunk_elems;
    struct patience patience;
};

/* Elements [first, first + elems) of a range. */
struct chunk {
    const struct comm_range *range;
    int64_t first, elems;
};

struct cursor {
    int range;
    int64_t first;
};

/* The next chunk of the ranges that this rank owns (`owned`), or of the ranges that far ranks own. */
static bool next_chunk(const struct move *move, struct cursor *at, bool owned, struct chunk *chunk)
{
    const struct comm_layout *layout = &move->comm->layout;
    for (; at->range < move->all->count; *at = (struct cursor){at->range + 1, 0}) {
        const struct comm_range *range = &move->all->ranges[at->range];
        bool ours = range->owner == layout->rank, far = move->comm->peer[range->owner].node != layout->node;
        if ((owned ? !ours : !far) || at->first >= range->elems) continue;
        int64_t rest = range->elems - at->first;
        *chunk = (struct chunk){range, at->first, rest < move->chunk_elems ? rest : move->chunk_elems};
        at->first += chunk->elems;
        return true;
    }
    return false;
}

/* A sequence of transfers. A chunk of an own range goes to every far rank in turn; a chunk of a far rank's range has one peer. */
struct stream {
    bool owned, sends, ended;
    int peer; /* next far rank that the current chunk goes to */
    struct cursor at;
    struct chunk chunk;
    int live;
    MPI_Request request[WINDOW];
};

static struct stream stream_of(bool owned, bool sends)
{
    struct stream stream = {.owned = owned, .sends = sends};
    for (int i = 0; i < WINDOW; i++) stream.request[i] = MPI_REQUEST_NULL;
    return stream;
}

static bool next_transfer(const struct move *move, struct stream *stream, int *peer)
{
    int peers = stream->owned ? move->wire->far_now_count : 1;
    if (stream->peer == 0 && !next_chunk(move, &stream->at, stream->owned, &stream->chunk)) return false;
    *peer = stream->owned ? move->wire->far_now[stream->peer] : stream->chunk.range->owner;
    stream->peer = (stream->peer + 1) % peers;
    return true;
}

static int post(struct move *move, const struct stream *stream, int peer, MPI_Request *request)
{
    const struct chunk *chunk = &stream->chunk;
    struct comm *comm = move->comm;
    move->used = true;
    const int64_t offset = dtype_array_bytes(move->all->dtype, chunk->first),
                  bytes = dtype_array_bytes(move->all->dtype, chunk->elems);
    if (!stream->sends) {
        unsigned char *to = comm_place(comm, move->all, chunk->range);
        to = to ? to + offset : move->wire->unwanted + (request - stream->request) * move->wire->chunk_bytes;
        return WIRE_TRY(comm, MPI_Irecv(to, (int)bytes, MPI_BYTE, peer, WIRE_DATA, move->wire->world, request));
    }
    const unsigned char *from = comm->base[comm->layout.rank] + chunk->range->source + offset;
    comm_count_sent(comm, comm->layout.rank, LINK_INTER, (uint64_t)bytes);
    return WIRE_TRY(comm, MPI_Isend(from, (int)bytes, MPI_BYTE, peer, WIRE_DATA, move->wire->world, request));
}

static int no_memory(struct comm *comm)
{
    node_fail(comm->node, "rank %d: no memory for messages between nodes", comm->layout.rank);
    return STATUS_RUN;
}

/* Removes finished transfers and starts further ones; sets *moved if it did either. */
static int stream_advance(struct move *move, struct stream *stream, bool *moved)
{
    int done = 0, index[WINDOW], peer;
    if (stream->live) {
        int status = WIRE_TRY(move->comm, MPI_Testsome(WINDOW, stream->request, &done, index, MPI_STATUSES_IGNORE));
        if (status) return status;
    }
    if (done > 0) stream->live -= done;
    *moved = *moved || done > 0;
    for (int i = 0; i < WINDOW && !stream->ended; i++) {
        if (stream->request[i] != MPI_REQUEST_NULL) continue;
        stream->ended = !next_transfer(move, stream, &peer);
        if (stream->ended) break;
        int status = post(move, stream, peer, &stream->request[i]);
        if (status) return status;
        stream->live++;
        *moved = true;
    }
    return 0;
}

static bool stream_over(const struct stream *stream)
{
    return stream->ended && stream->live == 0;
}

/* Sleeps when nothing moved. */
static int rest(struct move *move, bool moved)
{
    if (moved) {
        move->patience = (struct patience){0};
        return 0;
    }
    return wire_pause(move->comm, &move->patience);
}

/* The far ranks that are in the call; those of all nodes were listed in wire_open(). */
static void note_far_members(struct comm *comm)
{
    struct wire *wire = comm->wire_state;
    wire->far_now_count = 0;
    for (int m = 0; m < comm->members.count; m++) {
        const int rank = member_rank(&comm->members, m);
        if (comm->peer[rank].node != comm->layout.node) wire->far_now[wire->far_now_count++] = rank;
    }
}

static struct move move_of(struct comm *comm, const struct collective *c)
{
    const int64_t blocks = comm->wire_state->chunk_bytes / dtype_bytes(c->dtype);
    note_far_members(comm);
    return (struct move){.comm = comm,
                         .wire = comm->wire_state,
                         .all = c,
                         .chunk_elems = blocks * (dtype_is_quantized(c->dtype) ? QUANT_BLOCK : 1)};
}

/* Where ranges go that this rank does not need, so that their owners can send the same to all. */
static int make_unwanted(struct comm *comm, const struct collective *c)
{
    struct wire *wire = comm->wire_state;
    for (int i = 0; i < c->count && !c->in_place && !wire->unwanted; i++) {
        if (c->ranges[i].destination) continue;
        wire->unwanted = malloc((size_t)WINDOW * (size_t)wire->chunk_bytes);
        if (!wire->unwanted) return no_memory(comm);
    }
    return 0;
}

int wire_gather(struct comm *comm, const struct collective *c)
{
    struct move move = move_of(comm, c);
    struct stream out = stream_of(true, true), in = stream_of(false, false);
    const uint64_t since_ns = clock_ns();
    int status = make_unwanted(comm, c);
    while (!status && !(stream_over(&out) && stream_over(&in))) {
        bool moved = false;
        status = stream_advance(&move, &out, &moved);
        if (!status) status = stream_advance(&move, &in, &moved);
        if (!status) status = rest(&move, moved);
    }
    if (move.used) comm->link_ns[LINK_INTER] += clock_ns() - since_ns;
    if (status) wire_drop(move.wire, out.request, WINDOW);
    if (status) wire_drop(move.wire, in.request, WINDOW);
    return status;
}

/* Chunks of this rank's own ranges, WIRE_GROUPS at a time. A group holds one chunk and is complete when the sources of
 * all far ranks have arrived. Groups are filled and reduced in turn. */
struct groups {
    struct cursor at;
    struct chunk chunk[WIRE_GROUPS];
    int64_t begun, finished;
    bool ended;
};

static MPI_Request *group_requests(const struct move *move, int64_t number)
{
    return move->wire->request + number % WIRE_GROUPS * move->wire->far_now_count;
}

static unsigned char *group_chunk(const struct move *move, int64_t number, int far)
{
    return move->wire->chunk[number % WIRE_GROUPS] + far * move->wire->chunk_bytes;
}

static int group_begin(struct move *move, struct groups *groups)
{
    struct chunk *chunk = &groups->chunk[groups->begun % WIRE_GROUPS];
    groups->ended = !next_chunk(move, &groups->at, true, chunk);
    if (groups->ended) return 0;
    move->used = true;
    MPI_Request *request = group_requests(move, groups->begun);
    int status = 0;
    for (int f = 0; f < move->wire->far_now_count; f++) request[f] = MPI_REQUEST_NULL;
    for (int f = 0; f < move->wire->far_now_count && !status; f++)
        status = WIRE_TRY(move->comm, MPI_Irecv(group_chunk(move, groups->begun, f),
                                                (int)dtype_array_bytes(move->all->dtype, chunk->elems), MPI_BYTE,
                                                move->wire->far_now[f], WIRE_DATA, move->wire->world, &request[f]));
    groups->begun++;
    return status;
}

static void group_reduce(struct move *move, const struct groups *groups)
{
    struct comm *comm = move->comm;
    const struct chunk *chunk = &groups->chunk[groups->finished % WIRE_GROUPS];
    const int members = comm->members.count;
    const void *sources[members];
    int64_t offset = dtype_array_bytes(move->all->dtype, chunk->first);
    for (int m = 0, f = 0; m < members; m++) {
        const int r = member_rank(&comm->members, m);
        if (comm->peer[r].node != comm->layout.node) {
            sources[m] = group_chunk(move, groups->finished, f++);
            continue;
        }
        sources[m] = comm->base[r] + chunk->range->source + offset;
        if (r != comm->layout.rank)
            comm_count_sent(comm, r, LINK_INTRA, (uint64_t)dtype_array_bytes(move->all->dtype, chunk->elems));
    }
    unsigned char *destination =
        comm_place(comm, move->all, chunk->range) + dtype_array_bytes(move->all->to, chunk->first);
    const uint64_t since_ns = clock_ns();
    kernels_reduce(move->all->dtype, move->all->to, destination, sources, members, &comm->factors, chunk->elems,
                   move->all->accumulate);
    comm_share_time(comm, clock_ns() - since_ns);
}

static int groups_advance(struct move *move, struct groups *groups, bool *moved)
{
    int status = 0, done = 0;
    while (!status && !groups->ended && groups->begun - groups->finished < WIRE_GROUPS) {
        *moved = true;
        status = group_begin(move, groups);
    }
    if (status || groups->finished == groups->begun) return status;
    status = WIRE_TRY(move->comm, MPI_Testall(move->wire->far_now_count, group_requests(move, groups->finished), &done,
                                              MPI_STATUSES_IGNORE));
    if (status || !done) return status;
    group_reduce(move, groups);
    groups->finished++;
    *moved = true;
    return 0;
}

static int make_chunks(struct comm *comm)
{
    struct wire *wire = comm->wire_state;
    for (int g = 0; g < WIRE_GROUPS; g++) {
        if (!wire->chunk[g]) wire->chunk[g] = malloc((size_t)wire->far_count * (size_t)wire->chunk_bytes);
        if (!wire->chunk[g]) return no_memory(comm);
    }
    return 0;
}

int wire_reduce(struct comm *comm, const struct collective *c)
{
    struct move move = move_of(comm, c);
    struct stream out = stream_of(false, true);
    struct groups groups = {0};
    const uint64_t before_ns[2] = {comm->link_ns[LINK_INTRA], comm->link_ns[LINK_INTER]}, since_ns = clock_ns();
    int status = make_chunks(comm);
    while (!status && !(stream_over(&out) && groups.ended && groups.finished == groups.begun)) {
        bool moved = false;
        status = stream_advance(&move, &out, &moved);
        if (!status) status = groups_advance(&move, &groups, &moved);
        if (!status) status = rest(&move, moved);
    }
    if (move.used)
        comm->link_ns[LINK_INTER] = /* all the time but that in which the node's sources were read */
            before_ns[LINK_INTER] + clock_ns() - since_ns - (comm->link_ns[LINK_INTRA] - before_ns[LINK_INTRA]);
    if (status) wire_drop(move.wire, out.request, WINDOW);
    for (; status && groups.finished < groups.begun; groups.finished++)
        wire_drop(move.wire, group_requests(&move, groups.finished), move.wire->far_count);
    return status;
}
#else
typedef int wire_move_needs_mpi;
#endif
