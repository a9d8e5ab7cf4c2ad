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

/* ---- gathers -------------------------------------------------------------------------------------------------------------- */

/* Whether every rank owns one range, all ranges have one size, and their destinations are contiguous in rank order. */
static bool is_even(const struct comm *comm, const struct comm_range *ranges, int count, bool in_place, uint64_t bytes)
{
    if (count != comm->layout.ranks) return false;
    const unsigned char *first = comm_place(comm, &ranges[0], in_place);
    for (int i = 0; i < count; i++)
        if (ranges[i].owner != i || ranges[i].elems != ranges[0].elems ||
            comm_place(comm, &ranges[i], in_place) != first + (uint64_t)i * bytes)
            return false;
    return true;
}

int pass_gather(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool in_place)
{
    const uint64_t width = (uint64_t)dtype_bytes(dtype);
    const uint64_t each = count ? (uint64_t)ranges[0].elems * width : 0;
    const bool even = is_even(comm, ranges, count, in_place, each);
    int status = STATUS_OK;
    if (even)
        status = add(comm, (struct transfer){TRANSFER_GATHER, 0, own_source(comm, &ranges[comm->layout.rank]),
                                             comm_place(comm, &ranges[0], in_place), each, dtype});
    for (int i = 0; i < count && !even && !status; i++)
        status = add(comm, (struct transfer){TRANSFER_BROADCAST, ranges[i].owner, own_source(comm, &ranges[i]),
                                             comm_place(comm, &ranges[i], in_place), (uint64_t)ranges[i].elems * width,
                                             dtype});
    for (int i = 0; i < count; i++)
        for (int r = 0; ranges[i].owner == comm->layout.rank && r < comm->layout.ranks; r++)
            if (r != comm->layout.rank)
                comm_count_sent(comm, comm->layout.rank, comm_link(comm, r), (uint64_t)ranges[i].elems * width);
    return status ? status : go(comm);
}

/* ---- reductions ----------------------------------------------------------------------------------------------------------- */

struct reduction {
    struct comm *comm;
    enum dtype dtype, to;
    const struct comm_range *ranges;
    int count;
    bool in_place, accumulate;
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
    while (place->range < r->count &&
           (r->ranges[place->range].owner != owner || place->first >= r->ranges[place->range].elems))
        *place = (struct place){place->range + 1, 0};
    if (place->range == r->count || *used >= r->strip_bytes) return false;
    const struct comm_range *range = &r->ranges[place->range];
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
            status =
                add(r->comm,
                    (struct transfer){TRANSFER_RECEIVE, peer, NULL, strip_of(r, peer) + chunk->at, bytes, r->dtype});
    return status;
}

static int send_to_owner(const struct reduction *r, const struct chunk *chunk)
{
    struct comm *comm = r->comm;
    const int owner = chunk->range->owner;
    const uint64_t bytes = (uint64_t)chunk->elems * r->width;
    const unsigned char *from = own_source(comm, chunk->range) + (uint64_t)chunk->first * r->width;
    comm_count_sent(comm, comm->layout.rank, comm_link(comm, owner), bytes);
    return add(comm, (struct transfer){TRANSFER_SEND, owner, from, NULL, bytes, r->dtype});
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
    const struct comm_device_ops *device_ops = comm->device_ops;
    const void *sources[comm->layout.ranks];
    struct error own;
    for (int peer = 0; peer < comm->layout.ranks; peer++)
        sources[peer] = peer == comm->layout.rank ? own_source(comm, chunk->range) + (uint64_t)chunk->first * r->width
                                                  : strip_of(r, peer) + chunk->at;
    unsigned char *destination =
        comm_place(comm, chunk->range, r->in_place) + chunk->first * (int64_t)dtype_bytes(r->to);
    int status = device_ops->reduce(device_ops->user, r->dtype, r->to, destination, sources, comm->layout.ranks,
                                    &comm->factors, chunk->elems, r->accumulate, &own);
    return status ? comm_failed(comm, &own) : STATUS_OK;
}

/* ---- sums of the library ---- */

static int finish_sum(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *range, bool in_place,
                      bool accumulate)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    const void *sum = own_source(comm, range);
    struct error own;
    return device_ops->reduce(device_ops->user, dtype, to, comm_place(comm, range, in_place), &sum, 1, &comm->factors,
                              range->elems, accumulate, &own)
               ? comm_failed(comm, &own)
               : STATUS_OK;
}

/* The sum takes the place of the owner's source. Factors come after it. */
static int sum_by_library(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count,
                          bool in_place, bool accumulate)
{
    const int rank = comm->layout.rank;
    const uint64_t width = (uint64_t)dtype_bytes(dtype), each = count ? (uint64_t)ranges[0].elems * width : 0;
    const bool even = is_even(comm, ranges, count, true, each);
    int status = STATUS_OK;
    if (even)
        status = add(comm, (struct transfer){TRANSFER_SUM_RANGES, 0, own_source(comm, &ranges[0]),
                                             own_source(comm, &ranges[rank]), each, dtype});
    for (int i = 0; i < count && !even && !status; i++)
        status = add(comm, (struct transfer){TRANSFER_SUM, ranges[i].owner, own_source(comm, &ranges[i]),
                                             own_source(comm, &ranges[i]), (uint64_t)ranges[i].elems * width, dtype});
    for (int i = 0; i < count; i++)
        if (ranges[i].owner != rank)
            comm_count_sent(comm, rank, comm_link(comm, ranges[i].owner), (uint64_t)ranges[i].elems * width);
    if (!status) status = go(comm);
    for (int i = 0; i < count && !status; i++)
        if (ranges[i].owner == rank) status = finish_sum(comm, dtype, to, &ranges[i], in_place, accumulate);
    return status;
}

int pass_reduce(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count,
                bool in_place, bool accumulate)
{
    const int ranks = comm->layout.ranks;
    if (comm->device_ops->adds) return sum_by_library(comm, dtype, to, ranges, count, in_place, accumulate);
    struct reduction r = {comm, dtype, to, ranges, count, in_place, accumulate, (uint64_t)dtype_bytes(dtype), 0};
    r.strip_bytes =
        ranks > 1 ? comm->room_bytes / (uint64_t)(ranks - 1) / TRANSFER_ALIGN * TRANSFER_ALIGN : UINT64_MAX / 4;
    if (r.strip_bytes == 0) {
        node_fail(comm->node, "a reduction has no room for what arrives; this is a bug");
        return STATUS_RUN;
    }
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
