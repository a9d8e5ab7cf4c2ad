/* The collectives on tensors: begin the device barrier, arrive (a barrier of threads), end the device barrier, transfer, leave. This file
 * moves data between near ranks, which read it in place. The wire moves the data of far ranks; pass.c moves data that no other rank can read. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/comm/internal.h"
#include "engine/memory/mover.h"
#include "kernels/kernels.h"

/* One block of every source together fits into the second-level cache. A multiple of QUANT_BLOCK. */
enum { BLOCK_ELEMS = 16384 };

/* Gathers of at least this many bytes do not fit into the second-level cache and use copy_stream(). */
enum { STREAM_BYTES = 4 << 20 };

/* ---- barriers inside a collective ----
 * After the first, every rank has arrived; after the last, every rank has read what will be overwritten. The threads of all ranks always meet. Device operations have three cases. There are none (threads did the work). Or each thread waits
 * for its device before it meets the others. Or the devices keep the barrier themselves (comm.h), and no thread waits for a device.
 *
 * No deadlock: a stream waits only for points that other streams recorded before the threads met, and all ranks send a
 * pass after they met, without a wait in between. So the order in which all ranks' operations were sent is an order in
 * which all can run, even if streams share a hardware queue. Therefore a thread may wait for its device, and for other
 * threads, which enter collectives in the same order. */

static bool device_ops_meet(const struct comm *comm)
{
    return comm->device_ops && comm->device_ops->come;
}

static bool is_alone(const struct comm *comm)
{
    return comm->layout.ranks == 1;
}

static int number(uint64_t meeting)
{
    return (int)(meeting % COMM_MEETINGS);
}

static int device_barrier_begin(struct comm *comm)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    struct error own;
    int status = STATUS_OK;
    if (!device_ops || (device_ops_meet(comm) && is_alone(comm))) return STATUS_OK;
    if (device_ops_meet(comm)) status = device_ops->come(device_ops->user, number(comm->meetings++), &own);
    else status = mover_finish(device_ops->mover, &own);
    return status ? comm_failed(comm, &own) : STATUS_OK;
}

static int device_barrier_end(struct comm *comm, struct comm_stat *stat)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    struct error own;
    if (!device_ops_meet(comm) || is_alone(comm)) return STATUS_OK;
    if (stat->meetings++ == 0) stat->meeting = comm->meetings - 1;
    return device_ops->meet(device_ops->user, number(comm->meetings - 1), &own) ? comm_failed(comm, &own) : STATUS_OK;
}

static int device_barrier(struct comm *comm, struct comm_stat *stat)
{
    int status = device_barrier_begin(comm);
    if (!status) status = comm_barrier_of_call(comm, &stat->peers_ns);
    return status ? status : device_barrier_end(comm, stat);
}

int comm_waited(const struct comm *comm, struct comm_stat *stat, struct error *err)
{
    int status = STATUS_OK;
    for (int m = 0; m < stat->meetings && !status; m++) {
        uint64_t ns = 0;
        status = comm->device_ops->waited(comm->device_ops->user, number(stat->meeting + (uint64_t)m), &ns, err);
        stat->peers_ns = m ? stat->peers_ns + ns : ns;
        if (m == 0) stat->arrival_ns = ns;
    }
    return status;
}

/* ---- counting the ranks that may read ---- */

static void begin_reading(struct comm *comm)
{
    if (comm->inside) return;
    comm->inside = true;
    atomic_fetch_add(&comm->node->inside, 1);
}

/* With device meetings the end of the device operations is not known here, so the rank counts as reading until the last call. */
int comm_end_reading(struct comm *comm, bool at_last)
{
    struct error own;
    if (!comm->inside || (device_ops_meet(comm) && !at_last)) return STATUS_OK;
    const int status = comm->device_ops ? mover_finish(comm->device_ops->mover, &own) : STATUS_OK;
    comm->inside = false;
    atomic_fetch_sub(&comm->node->inside, 1);
    return status ? comm_failed(comm, &own) : STATUS_OK;
}

/* ---- data ---- */

static uint64_t digest_of(const struct collective *c)
{
    uint64_t digest = rng_mix((uint64_t)c->dtype << 32 | (uint64_t)c->to << 56 | (uint64_t)c->accumulate << 48 |
                              (uint64_t)c->count);
    for (int i = 0; i < c->count; i++) {
        digest = rng_mix(digest ^ (uint64_t)c->ranges[i].owner);
        digest = rng_mix(digest ^ (uint64_t)c->ranges[i].elems);
        digest = rng_mix(digest ^ c->ranges[i].source);
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
static int gather_near(struct comm *comm, const struct collective *c)
{
    const int place = (comm->layout.rank - comm->members.first) / comm->members.stride;
    const int start = (int)((int64_t)c->count * place / comm->members.count);
    int64_t all = 0;
    for (int i = 0; i < c->count; i++) all += dtype_array_bytes(c->dtype, c->ranges[i].elems);
    for (int k = 0; k < c->count; k++) {
        const struct comm_range *range = &c->ranges[(start + k) % c->count];
        if (!comm->base[range->owner]) continue;
        const unsigned char *source = comm->base[range->owner] + range->source;
        void *destination = comm_place(comm, c, range);
        if (source == destination || !destination) continue;
        size_t bytes = (size_t)dtype_array_bytes(c->dtype, range->elems);
        const enum link link = comm_link(comm, range->owner);
        const uint64_t since_ns = clock_ns();
        if (reach(comm, range->owner, range, bytes)) return STATUS_RUN;
        if (copy_part(comm, destination, source, bytes, all >= STREAM_BYTES)) return STATUS_RUN;
        if (range->owner == comm->layout.rank) continue;
        if (!comm->device_ops) comm->link_ns[link] += clock_ns() - since_ns;
        comm_count_sent(comm, range->owner, link, bytes);
    }
    return STATUS_OK;
}

int comm_reduce_on_device(struct comm *comm, const struct collective *c, void *destination, const void *const *sources,
                          int count, int64_t elems)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    struct error own;
    return device_ops->reduce(device_ops->user, c->dtype, c->to, destination, sources, count, &comm->factors, elems,
                              c->accumulate, &own)
               ? comm_failed(comm, &own)
               : STATUS_OK;
}

static int reduce_on_device(struct comm *comm, const struct collective *c, const struct comm_range *range,
                            void *destination)
{
    const void *sources[comm->layout.ranks];
    for (int r = 0; r < comm->layout.ranks; r++) {
        if (reach(comm, r, range, (uint64_t)dtype_array_bytes(c->dtype, range->elems))) return STATUS_RUN;
        sources[r] = comm->base[r] + range->source;
    }
    return comm_reduce_on_device(comm, c, destination, sources, comm->layout.ranks, range->elems);
}

static void reduce_in_memory(struct comm *comm, const struct collective *c, const struct comm_range *range,
                             unsigned char *destination)
{
    const int members = comm->members.count;
    const void *sources[members];
    for (int64_t first = 0; first < range->elems; first += BLOCK_ELEMS) {
        int64_t elems = range->elems - first < BLOCK_ELEMS ? range->elems - first : BLOCK_ELEMS;
        for (int m = 0; m < members; m++)
            sources[m] =
                comm->base[member_rank(&comm->members, m)] + range->source + dtype_array_bytes(c->dtype, first);
        kernels_reduce(c->dtype, c->to, destination + dtype_array_bytes(c->to, first), sources, members, &comm->factors,
                       elems, c->accumulate);
    }
}

/* Whether a reduction has nothing to do: one rank, no factors, same type, in place. Then there is no GPU work to wait for. */
static bool is_done(const struct comm *comm, const struct collective *c, const struct comm_range *range,
                    const void *destination)
{
    return comm->members.count == 1 && comm->factors.before == 1 && comm->factors.after == 1 && c->dtype == c->to &&
           !c->accumulate && destination == comm->base[comm->layout.rank] + range->source;
}

static int reduce_range(struct comm *comm, const struct collective *c, const struct comm_range *range)
{
    unsigned char *destination = comm_place(comm, c, range);
    int status = STATUS_OK;
    if (is_done(comm, c, range, destination)) return STATUS_OK;
    if (comm->device_ops) status = reduce_on_device(comm, c, range, destination);
    else {
        const uint64_t since_ns = clock_ns();
        reduce_in_memory(comm, c, range, destination);
        comm_share_time(comm, clock_ns() - since_ns);
    }
    for (int m = 0; m < comm->members.count; m++) {
        const int r = member_rank(&comm->members, m);
        if (r != comm->layout.rank)
            comm_count_sent(comm, r, comm_link(comm, r), (uint64_t)dtype_array_bytes(c->dtype, range->elems));
    }
    return status;
}

static bool passes(const struct comm *comm)
{
    return comm->device_ops && comm->device_ops->pass;
}

static int gather(struct comm *comm, const struct collective *c)
{
    if (passes(comm)) return pass_gather(comm, c);
    if (gather_near(comm, c)) return STATUS_RUN;
    return comm_goes_far(comm) ? comm->wire->gather(comm, c) : 0;
}

static int reduce(struct comm *comm, const struct collective *c)
{
    if (passes(comm)) return pass_reduce(comm, c);
    if (comm_goes_far(comm)) return comm->wire->reduce(comm, c);
    int status = STATUS_OK;
    for (int i = 0; i < c->count && !status; i++)
        if (c->ranges[i].owner == comm->layout.rank) status = reduce_range(comm, c, &c->ranges[i]);
    return status;
}

/* After this barrier all ranks have read this rank's data, so it may be overwritten, and its counters are final. Passed
 * data needs no barrier: no other rank reads or counts it. */
static int leave(struct comm *comm, struct comm_stat *stat)
{
    int status = !passes(comm) ? device_barrier(comm, stat) : node_has_failed(comm->node) ? STATUS_RUN : STATUS_OK;
    struct node_seat *seat = &comm->node->seat[comm->layout.rank];
    for (int link = 0; !status && link < 2; link++)
        stat->sent_bytes[link] = atomic_exchange(&seat->sent_bytes[link], 0);
    memcpy(stat->link_ns, comm->link_ns, sizeof comm->link_ns);
    return status;
}

/* Between the last barrier and the end of its sends, a thread must not wait: device operations of other ranks may wait
 * for operations that this thread has not sent yet. */
static int transfer_ranges(struct comm *comm, const struct collective *c, struct comm_stat *stat)
{
    if (c->call == CALL_GATHER) return gather(comm, c);
    int status = reduce(comm, c);
    if (c->call == CALL_REDUCE) return status;
    /* The results overwrite this rank's sources, so all ranks must have read them first; passed sources have been sent. */
    if (!status && !passes(comm)) status = device_barrier(comm, stat);
    return status ? status : gather(comm, c);
}

static int run_collective(struct comm *comm, const struct collective *c, bool healthy, struct comm_stat *stat,
                          struct error *err)
{
    struct comm_stat unused;
    if (!stat) stat = &unused;
    *stat = (struct comm_stat){0};
    memset(comm->link_ns, 0, sizeof comm->link_ns);
    begin_reading(comm);
    int status = comm_result(comm, device_barrier_begin(comm), err);
    if (!status) status = comm_arrive(comm, c->call, digest_of(c), healthy, NULL, 0, 0, stat, err);
    if (!status && stat->healthy) {
        status = device_barrier_end(comm, stat);
        if (!status) status = transfer_ranges(comm, c, stat);
        if (!status) status = leave(comm, stat);
        status = comm_result(comm, status, err);
    }
    const int ended = comm_end_reading(comm, false);
    return status ? status : comm_result(comm, ended, err);
}

int comm_all_gather(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool healthy,
                    struct comm_stat *stat, struct error *err)
{
    const struct collective all = {CALL_GATHER, dtype, dtype, ranges, count, false, false};
    return run_collective(comm, &all, healthy, stat, err);
}

int comm_reduce_scatter(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count,
                        bool accumulate, bool healthy, struct comm_stat *stat, struct error *err)
{
    const struct collective all = {CALL_REDUCE, dtype, to, ranges, count, false, accumulate};
    return run_collective(comm, &all, healthy, stat, err);
}

int comm_all_reduce(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool healthy,
                    struct comm_stat *stat, struct error *err)
{
    const struct collective all = {CALL_ALL_REDUCE, dtype, dtype, ranges, count, true, false};
    return run_collective(comm, &all, healthy, stat, err);
}
