/* The collectives on tensors: begin the device barrier, arrive (a barrier of threads), end the device barrier, transfer, leave. This file
 * moves data between near ranks, which read it in place. The wire moves the data of far ranks; pass.c moves data that no other rank can read. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/comm/copy.h"
#include "engine/comm/internal.h"
#include "engine/memory/mover.h"
#include "kernels/kernels.h"

/* One block of every source together fits into the second-level cache. A multiple of QUANT_BLOCK. */
enum { BLOCK_ELEMS = 16384 };

/* Gathers of at least this many bytes do not fit into the second-level cache and use copy_stream(). */
enum { STREAM_BYTES = 4 << 20 };

static uint64_t digest_ranges(enum dtype dtype, const struct comm_range *ranges, int count, int flags)
{
    uint64_t digest = rng_mix((uint64_t)dtype << 32 | (uint64_t)flags << 48 | (uint64_t)count);
    for (int i = 0; i < count; i++) {
        digest = rng_mix(digest ^ (uint64_t)ranges[i].owner);
        digest = rng_mix(digest ^ (uint64_t)ranges[i].elems);
        digest = rng_mix(digest ^ ranges[i].source);
    }
    return digest;
}

/* Makes sure that these bytes of a rank can be read here. */
static int reach(struct comm *comm, int rank, const struct comm_range *range, uint64_t bytes)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    struct error own;
    if (!device_ops || !device_ops->reach || rank == comm->layout.rank) return STATUS_OK;
    return device_ops->reach(device_ops->user, rank, range->source, bytes, &own) ? comm_failed(comm, &own) : STATUS_OK;
}

static int copy_part(struct comm *comm, void *destination, const void *source, size_t bytes, bool stream)
{
    struct error own;
    if (comm->device_ops)
        return mover_copy(comm->device_ops->mover, destination, source, bytes, &own) ? comm_failed(comm, &own)
                                                                                     : STATUS_OK;
    if (stream) copy_stream(destination, source, bytes);
    else memcpy(destination, source, bytes);
    return STATUS_OK;
}

/* Copies the ranges of all near owners. Ranks begin at different ranges, so that they do not all read one owner's memory at once. */
static int gather_near(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool in_place)
{
    int start = (int)((int64_t)count * ((comm->layout.rank - comm->members.first) / comm->members.stride) /
                      comm->members.count);
    int64_t all = 0;
    for (int i = 0; i < count; i++) all += dtype_array_bytes(dtype, ranges[i].elems);
    bool stream = all >= STREAM_BYTES;
    for (int k = 0; k < count; k++) {
        const struct comm_range *range = &ranges[(start + k) % count];
        if (!comm->base[range->owner]) continue;
        const unsigned char *source = comm->base[range->owner] + range->source;
        void *destination = comm_place(comm, range, in_place);
        if (source == destination || !destination) continue;
        size_t bytes = (size_t)dtype_array_bytes(dtype, range->elems);
        const enum link link = comm_link(comm, range->owner);
        const uint64_t since_ns = clock_ns();
        if (reach(comm, range->owner, range, bytes)) return STATUS_RUN;
        if (copy_part(comm, destination, source, bytes, stream)) return STATUS_RUN;
        if (range->owner == comm->layout.rank) continue;
        if (!comm->device_ops) comm->link_ns[link] += clock_ns() - since_ns;
        comm_count_sent(comm, range->owner, link, bytes);
    }
    return STATUS_OK;
}

static int reduce_on_device(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *range,
                            void *destination, bool accumulate)
{
    const void *sources[comm->layout.ranks];
    struct error own;
    for (int r = 0; r < comm->layout.ranks; r++) {
        if (reach(comm, r, range, (uint64_t)dtype_array_bytes(dtype, range->elems))) return STATUS_RUN;
        sources[r] = comm->base[r] + range->source;
    }
    int status = comm->device_ops->reduce(comm->device_ops->user, dtype, to, destination, sources, comm->layout.ranks,
                                          &comm->factors, range->elems, accumulate, &own);
    return status ? comm_failed(comm, &own) : STATUS_OK;
}

static void reduce_in_memory(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *range,
                             unsigned char *destination, bool accumulate)
{
    const int members = comm->members.count;
    const void *sources[members];
    for (int64_t first = 0; first < range->elems; first += BLOCK_ELEMS) {
        int64_t elems = range->elems - first < BLOCK_ELEMS ? range->elems - first : BLOCK_ELEMS;
        for (int m = 0; m < members; m++)
            sources[m] = comm->base[member_rank(&comm->members, m)] + range->source + dtype_array_bytes(dtype, first);
        kernels_reduce(dtype, to, destination + dtype_array_bytes(to, first), sources, members, &comm->factors, elems,
                       accumulate);
    }
}

/* Whether a reduction has nothing to do: one rank, no factors, same type, in place. Then there is no GPU work to wait for. */
static bool is_done(const struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *range,
                    const void *destination, bool accumulate)
{
    return comm->members.count == 1 && comm->factors.before == 1 && comm->factors.after == 1 && dtype == to &&
           !accumulate && destination == comm->base[comm->layout.rank] + range->source;
}

static int reduce_range(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *range, bool in_place,
                       bool accumulate)
{
    unsigned char *destination = comm_place(comm, range, in_place);
    int status = STATUS_OK;
    if (is_done(comm, dtype, to, range, destination, accumulate)) return STATUS_OK;
    if (comm->device_ops) status = reduce_on_device(comm, dtype, to, range, destination, accumulate);
    else {
        const uint64_t since_ns = clock_ns();
        reduce_in_memory(comm, dtype, to, range, destination, accumulate);
        comm_share_time(comm, clock_ns() - since_ns);
    }
    for (int m = 0; m < comm->members.count; m++) {
        const int r = member_rank(&comm->members, m);
        if (r != comm->layout.rank)
            comm_count_sent(comm, r, comm_link(comm, r), (uint64_t)dtype_array_bytes(dtype, range->elems));
    }
    return status;
}

static bool passes(const struct comm *comm)
{
    return comm->device_ops && comm->device_ops->pass;
}

static int gather(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool in_place)
{
    if (passes(comm)) return pass_gather(comm, dtype, ranges, count, in_place);
    if (gather_near(comm, dtype, ranges, count, in_place)) return STATUS_RUN;
    return comm_goes_far(comm) ? comm->wire->gather(comm, dtype, ranges, count, in_place) : 0;
}

static int reduce(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count,
                  bool in_place, bool accumulate)
{
    if (passes(comm)) return pass_reduce(comm, dtype, to, ranges, count, in_place, accumulate);
    if (comm_goes_far(comm)) return comm->wire->reduce(comm, dtype, to, ranges, count, in_place, accumulate);
    int status = STATUS_OK;
    for (int i = 0; i < count && !status; i++)
        if (ranges[i].owner == comm->layout.rank) status = reduce_range(comm, dtype, to, &ranges[i], in_place, accumulate);
    return status;
}

/* After this barrier all ranks have read this rank's data, so it may be overwritten, and its counters are final. Passed
 * data needs no barrier: no other rank reads or counts it. */
static int leave(struct comm *comm, struct comm_stat *stat)
{
    int status = !passes(comm) ? comm_device_barrier(comm, stat) : node_has_failed(comm->node) ? STATUS_RUN : STATUS_OK;
    struct node_seat *seat = &comm->node->seat[comm->layout.rank];
    for (int link = 0; !status && link < 2; link++)
        stat->sent_bytes[link] = atomic_exchange(&seat->sent_bytes[link], 0);
    memcpy(stat->link_ns, comm->link_ns, sizeof stat->link_ns);
    return status;
}

/* Between the last barrier and the end of its sends, a thread must not wait: device operations of other ranks may wait
 * for operations that this thread has not sent yet (meet.c). */
static int transfer_ranges(struct comm *comm, enum comm_call call, enum dtype dtype, enum dtype to, const struct comm_range *ranges,
                int count, bool accumulate, struct comm_stat *stat)
{
    if (call == CALL_GATHER) return gather(comm, dtype, ranges, count, false);
    if (call == CALL_REDUCE) return reduce(comm, dtype, to, ranges, count, false, accumulate);
    int status = reduce(comm, dtype, dtype, ranges, count, true, false);
    /* The results overwrite this rank's sources, so all ranks must have read them first; passed sources have been sent. */
    if (!status && !passes(comm)) status = comm_device_barrier(comm, stat);
    return status ? status : gather(comm, dtype, ranges, count, true);
}

static int collective(struct comm *comm, enum comm_call call, enum dtype dtype, enum dtype to,
                      const struct comm_range *ranges, int count, int flags, bool healthy, struct comm_stat *stat,
                      struct error *err)
{
    struct comm_stat unused;
    if (!stat) stat = &unused;
    *stat = (struct comm_stat){0};
    const uint64_t digest = digest_ranges(dtype, ranges, count, flags ^ (int)to << 8);
    memset(comm->link_ns, 0, sizeof comm->link_ns);
    comm_begin_reading(comm);
    int status = comm_result(comm, comm_device_barrier_begin(comm), err);
    if (!status) status = comm_arrive(comm, call, digest, healthy, NULL, 0, 0, stat, err);
    if (!status && stat->healthy) {
        status = comm_device_barrier_end(comm, stat);
        if (!status) status = transfer_ranges(comm, call, dtype, to, ranges, count, flags & COMM_ACCUMULATE, stat);
        if (!status) status = leave(comm, stat);
        status = comm_result(comm, status, err);
    }
    const int ended = comm_end_reading(comm, false);
    return status ? status : comm_result(comm, ended, err);
}

int comm_all_gather(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool healthy,
                    struct comm_stat *stat, struct error *err)
{
    return collective(comm, CALL_GATHER, dtype, dtype, ranges, count, 0, healthy, stat, err);
}

int comm_reduce_scatter(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count,
                        int flags, bool healthy, struct comm_stat *stat, struct error *err)
{
    return collective(comm, CALL_REDUCE, dtype, to, ranges, count, flags, healthy, stat, err);
}

int comm_all_reduce(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool healthy,
                    struct comm_stat *stat, struct error *err)
{
    return collective(comm, CALL_ALL_REDUCE, dtype, dtype, ranges, count, 0, healthy, stat, err);
}
