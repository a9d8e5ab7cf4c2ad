/* Collectives between ranks. The interface counts elements of a dtype, not bytes.
 *
 * The ranks of a node share memory: each maps the symmetric segments (memory.h) of all others. A collective waits until
 * all ranks have arrived, reads their segments in place, and waits until all have read. A call can be limited to a process group
 * (comm_set_group()); other ranks do not wait for it. Ranks that one zerolab process started share memory with all others, also across
 * virtual nodes. Ranks that mpirun started use MPI between (virtual) nodes. Reductions add in fp32 in rank order, divide by the
 * number of ranks (or as comm_scale() says), and round once. So the bits of an element do not depend on its position or on how the
 * ranges were cut.
 *
 * A collective moves *ranges* of elements, each with one owner. A gather of a unit has one range per rank (its shard); a
 * bucket of several pieces has more ranges, of unequal size. All ranks of a call pass the same ranges in the
 * same order.
 *
 *     struct comm *comm;                                     // every rank:
 *     comm_group_create + comm_open_thread or comm_open_process, or comm_open_mpi(&comm, ...)
 *     comm_attach(comm, memory)                              // peers map each other's symmetric segment
 *     comm_reduce_scatter(comm, DTYPE_BF16, DTYPE_BF16, ranges, n, false, true, &stat, err)
 *     comm_close(comm)
 *
 * Only one thread of a rank may be inside a collective at a time: during a step its communication lane, between steps the rank's own
 * thread. Waiting threads sleep on a futex.
 *
 * Failure: a rank that lacks a buffer still enters the collective, with healthy = false. Then no rank moves data, all
 * ranks learn of it (stat.healthy), and none is left waiting. After a rank has died, collectives return STATUS_RUN and
 * name it: at once if a zerolab process started the ranks, within about a second under MPI. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/group.h"
#include "engine/base/tier.h"
#include "engine/base/transfer.h"

struct comm;
struct comm_group; /* state shared by the ranks that one process started */
struct memory;
struct mover;
struct reduce_factors;

struct comm_range {
    int owner;         /* rank that holds it (gather) or receives it (reduce) */
    int64_t elems;
    uint64_t source;   /* offset in the symmetric segment: of the owner (gather), of every rank (reduce) */
    void *destination; /* local: every rank's copy (gather; may be the source itself), the owner's result (reduce; may be its source) */
};

struct comm_stat {
    uint64_t sent_bytes[LINKS]; /* by link (here LINK_INTRA and LINK_INTER): bytes of this rank that other ranks copied or reduced */
    uint64_t link_ns[LINKS];    /* by link: time in which this rank brought others' bytes over it; 0 with devices: not measured */
    uint64_t peers_ns;      /* time spent waiting for other ranks; with device barriers, comm_waited() sets it */
    uint64_t arrival_ns;    /* the part of peers_ns until all ranks had arrived and data could move */
    uint64_t meeting;       /* number of the first device barrier in this collective ... */
    int meetings;           /* ... and how many device barriers it had */
    bool healthy;           /* every rank took part with its data */
};

struct comm_layout { int rank, ranks, node, nodes, ranks_per_node; };

/* Where ranks are. The ranks of a machine share memory (comm_share()); machines are numbered in rank order. The first rank of a
 * machine is its leader. */
int comm_machines(const struct comm *comm);
int comm_machine_of(const struct comm *comm, int rank);
int comm_leader_of(const struct comm *comm, int machine);

/* Binds this thread, and the threads that it will start, to the rank's cores. It does so only if this thread may use every core of the
 * machine, and if the threads of the machine's ranks (`threads` each) are a multiple of its cores. Unbound, the kernel at times puts
 * the lanes of two ranks on one core while another rank has a core for itself, and all ranks wait for the slower ones. A failure to
 * bind is ignored. Binding is not the default: on Linux 6.18, lanes that wake each other on one core left 4 % of it to other programs,
 * and a live view stood still. */
void comm_bind_cores(const struct comm *comm, int threads);

/* Ranks that one process starts. As threads of it, each opens its rank once; the group is freed after all ranks are
 * closed. */
int comm_group_create(struct comm_group **out, int ranks, int ranks_per_node, struct error *err);
void comm_group_free(struct comm_group *group);
int comm_open_thread(struct comm **out, struct comm_group *group, int rank, struct error *err);

/* As child processes: the process that makes the group forks, and each child opens its rank. Opening is collective,
 * because the ranks exchange their process ids. Afterwards the child may free its copy of the group at any time. The
 * parent calls comm_group_fail() when a rank dies: it ends all waits of all ranks with that reason. */
int comm_open_process(struct comm **out, struct comm_group *group, int rank, struct error *err);
void comm_group_fail(struct comm_group *group, const struct error *reason);

/* Ranks as processes under MPI (mpirun, srun). Initialises MPI with MPI_THREAD_SERIALIZED; afterwards only functions of
 * this interface call MPI, one at a time. With mpirun --enable-recovery, the surviving ranks can name a rank that died. ranks_per_node
 * 0: all ranks of a machine are one node; a smaller number makes virtual nodes. All ranks use rank 0's ranks_per_node. STATUS_USAGE: the
 * ranks are of two versions of this program. */
int comm_open_mpi(struct comm **out, int ranks_per_node, struct error *err);
bool comm_have_mpi(void); /* built with MPI? */
bool comm_left_mpi(void); /* has this process left MPI with all other ranks, as after most failures? Else mpirun kills the others. */
void comm_mpi_version(char *text, size_t room); /* "Open MPI v4.1.4", as the library says; "": none */

/* Collective. After a failure it does not wait for the barrier; under MPI it waits two seconds at most for the other ranks to close,
 * too, and finalises MPI only if all do. Call it before the memory is freed. */
void comm_close(struct comm *comm);

const struct comm_layout *comm_layout(const struct comm *comm);

/* The name of a rank's machine, if the ranks are on several; else "". */
const char *comm_host(const struct comm *comm, int rank);

/* Collective: maps the symmetric segments of the node's other ranks. Call it once per comm. */
int comm_attach(struct comm *comm, struct memory *memory, struct error *err);

/* Collective, once per comm: gives each rank a zeroed segment of `bytes` (trace rings, command words), which all ranks
 * of its machine map, also across virtual nodes. comm_segment_of() returns the segment of a rank, NULL for another
 * machine. The segments are valid until comm_close(). */
int comm_share(struct comm *comm, size_t bytes, struct error *err);
void *comm_segment_of(struct comm *comm, int rank);

/* The side channel between machines, for what must not wait for collectives (trace records): messages of at most COMM_SIDE_BYTES
 * between rank 0 and the leaders of the other machines, in order. One thread of such a rank may use it while another is inside a
 * collective. Nothing here blocks. A message to a machine that is gone is lost.
 *
 * comm_side_send(): copies the message; false: too many messages are under way, try later. comm_side_receive(): copies the next message
 * from that machine to `out` (COMM_SIDE_BYTES of room) and returns its size in bytes; 0: none has come. comm_side_sent(): whether all
 * sent messages have left. Other MPI calls of this rank wait while one of these three runs. */
enum { COMM_SIDE_BYTES = 48 << 10 };
bool comm_side_send(struct comm *comm, int machine, const void *message, size_t bytes);
size_t comm_side_receive(struct comm *comm, int machine, void *out);
bool comm_side_sent(struct comm *comm);

/* Device operations that copy and reduce inside collectives, for ranks that keep their segments on devices. An operation may return
 * before the device has done it; mover_finish() waits for it. `reduce` is kernels_reduce() on a device. Without device operations the
 * calling thread copies and reduces in memory. Every rank calls comm_use() before comm_attach(), with the same operations; comm keeps
 * the pointer. device_ops NULL ends their use.
 *
 * pass: for devices that cannot read each other's memory. It does this rank's part of an exchange among all ranks, in stream order
 * with the mover's copies and `reduce`.
 * adds: reductions are sums of the library behind pass, in an order of its own.
 * give_up: ends all waits inside passes, of every rank of the process. Any thread may call it once a rank has failed.
 * look: STATUS_RUN: a device has lost a rank of another process. With look(), comm starts a thread, because all other threads of the
 * process may be waiting for the device. The thread looks about five times a second; it calls give_up() when a rank has failed or died.
 * attach, reach: for processes that read each other's devices in place. attach() is collective: it takes this rank's own segment and
 * sets `peers`, the addresses at which the other ranks' segments begin. reach() is called after all ranks have arrived, before the
 * bytes [from, from + bytes) of another rank's segment are read.
 * stranded: comm_close() calls it ten seconds after a failure if device operations of some rank are still reading. That rank will not
 * close, so this rank's memory cannot be freed. stranded() ends the process, once for all ranks; if it returns, comm_close() waits on.
 *
 * A meeting is a device barrier: a barrier of streams inside a collective. With come() and meet() no thread waits for a device. Each
 * rank calls come(), which records the position of its stream; the threads of all ranks pass a barrier; then each rank calls meet(),
 * which makes its stream wait for the positions that the other ranks recorded. mover_finish() then also waits for the other ranks'
 * streams; collective.c says why this cannot deadlock. come NULL: each thread waits for its own device before the threads' barrier.
 * Meetings have numbers below COMM_MEETINGS, used in turn and alike on all ranks. waited() says how long a rank's stream waited in a
 * meeting that is over. */
enum { COMM_MEETINGS = 64, COMM_MEETINGS_EACH = 3 /* in one collective, at most */ };
struct comm_device_ops {
    const struct mover *mover;
    void *user;
    int (*come)(void *user, int meeting, struct error *err);
    int (*meet)(void *user, int meeting, struct error *err);
    int (*waited)(void *user, int meeting, uint64_t *ns, struct error *err);
    int (*pass)(void *user, const struct transfer *transfers, int count, struct error *err); /* NULL: sources are read in place */
    bool adds; /* pass also adds; then bits depend on how ranges are cut, and comm_room() is not needed */
    void (*give_up)(void *user);
    int (*look)(void *user, struct error *err); /* NULL: threads of one process, or no `pass` */
    /* NULL: ranks are threads, or there is `pass`. peers: by rank; this rank's own element is not set. */
    int (*attach)(void *user, struct comm *comm, void *base, uint64_t bytes, unsigned char **peers, struct error *err);
    int (*reach)(void *user, int rank, uint64_t from, uint64_t bytes, struct error *err);
    void (*stranded)(void *user, const struct error *why); /* NULL: device operations always end */
    int (*reduce)(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                  const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err);
};
void comm_use(struct comm *comm, const struct comm_device_ops *device_ops);

/* Sets peers_ns and arrival_ns of a stat with device barriers; call it once the device operations are done. The time of a barrier is
 * that from the stream's come() to its meet(). For a stream without other work it includes the wait of the threads. With `pass` only
 * the arrival is a device barrier. Any thread may call this function, for the last COMM_MEETINGS device barriers. */
int comm_waited(const struct comm *comm, struct comm_stat *stat, struct error *err);

/* With `pass`: sets the device memory into which the next reduction receives; every rank passes the same `bytes`. Until
 * the first call there is none, and only a run of one rank can reduce. */
void comm_room(struct comm *comm, void *room, uint64_t bytes);

/* Sets the factors of later reductions: each rank's source is multiplied by `before` and rounded to its type; the sum
 * is multiplied by `after`. Defaults: 1 and 1 / ranks. Every rank must pass the same values. */
void comm_scale(struct comm *comm, float before, float after);

/* The group, with this rank in it, that takes part in later collectives on tensors; NULL: all ranks, as at the start. Owners of ranges
 * are members of it. Other groups of its kind may be in another call meanwhile. Not available with devices, whose barriers include all ranks. */
void comm_set_group(struct comm *comm, const struct process_group *group);

/* A gather leaves out a range whose destination is NULL: this rank does not need it. */
int comm_all_gather(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool healthy, struct comm_stat *stat, struct error *err);
/* STATUS_USAGE: a partition of `partition` consecutive ranks spans two nodes; the error names a rank on each. */
int comm_partitions(const struct comm *comm, int partition, struct error *err);
/* Sources are in `dtype`, the owners' results in `to`. accumulate: destination += result, rounded once more. kernels_reduce() describes
 * the rounding. */
int comm_reduce_scatter(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_range *ranges, int count, bool accumulate, bool healthy, struct comm_stat *stat, struct error *err);
/* Reduces every range to its owner, then gathers: afterwards all ranks hold the same bits at `source` (in place;
 * destination is ignored). */
int comm_all_reduce(struct comm *comm, enum dtype dtype, const struct comm_range *ranges, int count, bool healthy, struct comm_stat *stat, struct error *err);

/* An all-gather of control data: every rank passes `bytes` (at most 4096) in `mine` and receives all ranks' in `all`, in rank order. */
int comm_exchange(struct comm *comm, const void *mine, void *all, size_t bytes, struct comm_stat *stat, struct error *err);

/* Returns when all ranks have called it. */
int comm_barrier(struct comm *comm, struct error *err);

/* Broadcasts rank 0's `data` (any size, the same on all ranks). Ranks sleep here without a time limit while rank 0 pauses. */
int comm_broadcast_control(struct comm *comm, void *data, size_t bytes, struct error *err);

/* For a rank that waits outside collectives; only the thread that enters collectives may call it. STATUS_RUN: the run
 * has failed, or a peer has died. Cheap: it looks for dead peers at most a few times a second. */
int comm_check(struct comm *comm, struct error *err);

/* Whether the run is known to have failed. Only reads a flag, so it is safe from any thread. */
bool comm_has_failed(const struct comm *comm);

/* Ends all waits with the failure "rank R: reason"; collectives of all ranks then return reason->status. Safe from any
 * thread; only the first failure of a run counts. */
void comm_abort(struct comm *comm, const struct error *reason);
