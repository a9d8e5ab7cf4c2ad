/* Collectives of ranks that cannot read each other's segments: all ranks enter one exchange of transfers (device_ops->pass).
 *
 * A gather is one all-gather or, if ranges differ in size, a broadcast of each range. A reduction is the library's only if
 * device_ops->adds, because its order of adding depends on sizes and on the machine. Else all ranks send their sources of a
 * range to its owner, which adds them in rank order. So the bits are those of ranks that read each other's memory. Sources
 * arrive in the room (comm_room()), whose size the plan counts (engine/plan/buckets.h); each other rank has a strip of
 * it. A large bucket needs several rounds: in each, every owner receives as much of its ranges as fits into a strip. */

#include "engine/base/bytes.h"
#include "engine/comm/internal.h"

static int add(struct comm *comm, struct transfer transfer)
{
    if (transfer.bytes == 0) return STATUS_OK;
    if (!array_grow((void **)&comm->transfers, comm->transfer_count, &comm->transfer_room, sizeof transfer))
        return node_fail(comm->node, "rank %d: no memory for a list of transfers", comm->layout.rank), STATUS_RUN;
    comm->transfers[comm->transfer_count++] = transfer;
    return STATUS_OK;
}

static int go(struct comm *comm)
{
    struct error own;
    const int count = comm->transfer_count;
    comm->transfer_count = 0;
    if (comm->device_ops->pass(comm->device_ops->user, comm->transfers, count, &own) == STATUS_OK) return STATUS_OK;
    return comm_failed(comm, &own);
}

static unsigned char *own_source(const struct comm *comm, const struct comm_range *range)
{
    return comm->base[comm->layout.rank] + range->source;
}

/* ---- gathers, and sums of the library ---- */

/* Whether every rank owns one range, all ranges have one size, and their places are contiguous in rank order. */
static bool is_even(const struct comm *comm, const struct collective *c, uint64_t bytes)
{
    if (c->count != comm->layout.ranks) return false;
    const unsigned char *first = comm_place(comm, c, &c->ranges[0]);
    for (int i = 0; i < c->count; i++)
        if (c->ranges[i].owner != i || c->ranges[i].elems != c->ranges[0].elems ||
            comm_place(comm, c, &c->ranges[i]) != first + (uint64_t)i * bytes)
            return false;
    return true;
}

/* One transfer of all ranges where they are even, else one of each: between the sources and the places. */
static int add_ranges(struct comm *comm, const struct collective *c, enum transfer_way all, enum transfer_way one)
{
    const uint64_t width = (uint64_t)dtype_bytes(c->dtype), each = c->count ? (uint64_t)c->ranges[0].elems * width : 0;
    const struct comm_range *own = &c->ranges[comm->layout.rank], *first = &c->ranges[0];
    if (is_even(comm, c, each)) {
        const bool gathers = all == TRANSFER_GATHER;
        return add(comm, (struct transfer){all, 0, own_source(comm, gathers ? own : first),
                                           comm_place(comm, c, gathers ? first : own), each, c->dtype});
    }
    int status = STATUS_OK;
    for (int i = 0; i < c->count && !status; i++)
        status = add(comm, (struct transfer){one, c->ranges[i].owner, own_source(comm, &c->ranges[i]),
                                             comm_place(comm, c, &c->ranges[i]), (uint64_t)c->ranges[i].elems * width,
                                             c->dtype});
    return status;
}

int pass_gather(struct comm *comm, const struct collective *c)
{
    int status = add_ranges(comm, c, TRANSFER_GATHER, TRANSFER_BROADCAST);
    for (int i = 0; i < c->count; i++)
        for (int r = 0; c->ranges[i].owner == comm->layout.rank && r < comm->layout.ranks; r++)
            if (r != comm->layout.rank)
                comm_count_sent(comm, comm->layout.rank, comm_link(comm, r),
                                (uint64_t)(c->ranges[i].elems * dtype_bytes(c->dtype)));
    return status ? status : go(comm);
}

/* ---- reductions ---- */

struct reduction {
    struct comm *comm;
    const struct collective *all;
    uint64_t width, strip_bytes;
};

/* The position in an owner's ranges: element `first` of ranges[range] is next. */
struct place {
    int range;
    int64_t first;
};

struct chunk {
    const struct comm_range *range;
    int64_t first, elems;
    uint64_t at; /* byte offset in a strip */
};

/* The owner's next chunk that fits into the strip in this round; *used counts the strip's bytes in use. */
static bool next_chunk(const struct reduction *r, int owner, struct place *place, uint64_t *used, struct chunk *chunk)
{
    const struct comm_range *ranges = r->all->ranges;
    while (place->range < r->all->count &&
           (ranges[place->range].owner != owner || place->first >= ranges[place->range].elems))
        *place = (struct place){place->range + 1, 0};
    if (place->range == r->all->count || *used >= r->strip_bytes) return false;
    const struct comm_range *range = &ranges[place->range];
    const int64_t rest = range->elems - place->first, fit = (int64_t)((r->strip_bytes - *used) / r->width);
    *chunk = (struct chunk){range, place->first, rest < fit ? rest : fit, *used};
    place->first += chunk->elems;
    *used += ((uint64_t)chunk->elems * r->width + TRANSFER_ALIGN - 1) / TRANSFER_ALIGN * TRANSFER_ALIGN;
    return true;
}

/* The strip that receives from `rank`; the strips lie in rank order, without one for this rank. */
static unsigned char *strip_of(const struct reduction *r, int rank)
{
    const int slot = rank < r->comm->layout.rank ? rank : rank - 1;
    return r->comm->room + (uint64_t)slot * r->strip_bytes;
}

static int receive_from_all(const struct reduction *r, const struct chunk *chunk)
{
    const uint64_t bytes = (uint64_t)chunk->elems * r->width;
    int status = STATUS_OK;
    for (int peer = 0; peer < r->comm->layout.ranks && !status; peer++)
        if (peer != r->comm->layout.rank)
            status = add(r->comm, (struct transfer){TRANSFER_RECEIVE, peer, NULL, strip_of(r, peer) + chunk->at, bytes,
                                                    r->all->dtype});
    return status;
}

static int send_to_owner(const struct reduction *r, const struct chunk *chunk)
{
    struct comm *comm = r->comm;
    const int owner = chunk->range->owner;
    const uint64_t bytes = (uint64_t)chunk->elems * r->width;
    const unsigned char *from = own_source(comm, chunk->range) + (uint64_t)chunk->first * r->width;
    comm_count_sent(comm, comm->layout.rank, comm_link(comm, owner), bytes);
    return add(comm, (struct transfer){TRANSFER_SEND, owner, from, NULL, bytes, r->all->dtype});
}

/* Lists this rank's sends and receives of a round; sets *moved if there are any chunks. */
static int list_round(const struct reduction *r, struct place *places, bool *moved)
{
    const int rank = r->comm->layout.rank;
    int status = STATUS_OK;
    *moved = false;
    for (int owner = 0; owner < r->comm->layout.ranks; owner++) {
        struct chunk chunk;
        for (uint64_t used = 0; !status && next_chunk(r, owner, &places[owner], &used, &chunk); *moved = true)
            status = owner == rank ? receive_from_all(r, &chunk) : send_to_owner(r, &chunk);
    }
    return status;
}

static int add_up(const struct reduction *r, const struct chunk *chunk)
{
    struct comm *comm = r->comm;
    const void *sources[comm->layout.ranks];
    for (int peer = 0; peer < comm->layout.ranks; peer++)
        sources[peer] = peer == comm->layout.rank ? own_source(comm, chunk->range) + (uint64_t)chunk->first * r->width
                                                  : strip_of(r, peer) + chunk->at;
    unsigned char *destination =
        comm_place(comm, r->all, chunk->range) + chunk->first * (int64_t)dtype_bytes(r->all->to);
    return comm_reduce_on_device(comm, r->all, destination, sources, comm->layout.ranks, chunk->elems);
}

/* The sum takes the place of the owner's source. Factors come after it. */
static int sum_by_library(struct comm *comm, const struct collective *c)
{
    const int rank = comm->layout.rank;
    struct collective sums = *c;
    sums.in_place = true;
    int status = add_ranges(comm, &sums, TRANSFER_SUM_RANGES, TRANSFER_SUM);
    for (int i = 0; i < c->count; i++)
        if (c->ranges[i].owner != rank)
            comm_count_sent(comm, rank, comm_link(comm, c->ranges[i].owner),
                            (uint64_t)(c->ranges[i].elems * dtype_bytes(c->dtype)));
    if (!status) status = go(comm);
    for (int i = 0; i < c->count && !status; i++) {
        const struct comm_range *range = &c->ranges[i];
        const void *sum = own_source(comm, range);
        if (range->owner == rank)
            status = comm_reduce_on_device(comm, c, comm_place(comm, c, range), &sum, 1, range->elems);
    }
    return status;
}

int pass_reduce(struct comm *comm, const struct collective *c)
{
    const int ranks = comm->layout.ranks;
    if (comm->device_ops->adds) return sum_by_library(comm, c);
    struct reduction r = {comm, c, (uint64_t)dtype_bytes(c->dtype), 0};
    r.strip_bytes =
        ranks > 1 ? comm->room_bytes / (uint64_t)(ranks - 1) / TRANSFER_ALIGN * TRANSFER_ALIGN : UINT64_MAX / 4;
    if (r.strip_bytes == 0)
        return node_fail(comm->node, "a reduction has no room for what arrives; this is a bug"), STATUS_RUN;
    struct place places[ranks], mine = {0};
    for (int owner = 0; owner < ranks; owner++) places[owner] = (struct place){0};
    for (bool moved = true; moved;) {
        struct chunk chunk;
        int status = list_round(&r, places, &moved);
        if (!status && moved) status = go(comm);
        for (uint64_t used = 0; !status && next_chunk(&r, comm->layout.rank, &mine, &used, &chunk);)
            status = add_up(&r, &chunk);
        if (status) return status;
    }
    return STATUS_OK;
}
