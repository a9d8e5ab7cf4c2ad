/* Collectives between ranks: one interface in elements and a dtype, never bare bytes.
 *
 * Ranks of a node meet in shared memory: each maps the symmetric segment of every other (memory.h), so a collective is
 * "wait until all are here, read what is theirs, wait until all have read". Ranks that one process of ours started share
 * memory with all others, whatever their virtual nodes. Ranks that mpirun started use MPI between (virtual) nodes.
 * Reductions add in fp32 in rank order, divide by the number of ranks (or as comm_scale() says), and round once; an
 * element's bits never depend on its position or on how the parts were cut.
 *
 * A collective moves *parts*: ranges that have one owner each. A gather of a unit has one part per rank (its shard); a
 * bucket that holds pieces of several tensors has more, of unequal size. All ranks pass the same parts in the same order.
 *
 *     struct comm *comm;                                     // every rank:
 *     comm_group_create + comm_open_thread, or comm_group_create_shared + comm_open_process, or comm_open_mpi(&comm, ...)
 *     comm_attach(comm, memory)                              // peers map each other's symmetric segment
 *     comm_reduce_scatter(comm, DTYPE_BF16, DTYPE_BF16, parts, n, 0, true, &stat, err)
 *     comm_close(comm)
 *
 * Only one thread of a rank (its communication lane) may be inside a collective at a time. Waiting sleeps on a futex.
 *
 * Failure: a rank that lacks a buffer still takes part, with healthy = false; then nobody moves data in that collective,
 * everybody learns of it (stat.healthy), and nobody is left waiting. When a rank has died, collectives return STATUS_RUN
 * naming it: at once where our own process started the ranks, within about a second under MPI. */
#ifndef ENGINE_COMM_COMM_H
#define ENGINE_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/tier.h"
#include "engine/base/transfer.h"

struct comm;
struct comm_group; /* what the ranks share that one process started */
struct memory;
struct mover;
struct reduce_factors;

struct comm_part {
    int owner;         /* rank that holds it (gather) or receives it (reduce) */
    int64_t elems;
    uint64_t source;   /* offset in the symmetric segment: of the owner (gather), of every rank (reduce) */
    void *destination; /* local: every rank's copy (gather; may be the source itself), the owner's result (reduce; may be its source) */
};

enum comm_flags {
    COMM_ACCUMULATE = 1, /* reduce: destination += result, rounded once more */
};

struct comm_stat {
    uint64_t sent_bytes[2]; /* by link (LINK_INTRA, LINK_INTER): what others copied or reduced from this rank */
    uint64_t peers_ns;      /* spent waiting for other ranks; where device operations meet, comm_waited() says it */
    uint64_t arrival_ns;    /* ... of it until all had come: a tensor collective then begins to move data */
    uint64_t meeting;       /* where device operations meet: the first time that they did in this collective, */
    int meetings;           /* ... and how often */
    bool healthy;           /* every rank took part with its data */
};

struct comm_layout { int rank, ranks, node, nodes, ranks_per_node; };

/* Ranks as threads of one process. Each thread opens its rank once. */
int comm_group_create(struct comm_group **out, int ranks, int ranks_per_node, struct error *err);
void comm_group_free(struct comm_group *group);
int comm_open_thread(struct comm **out, struct comm_group *group, int rank, struct error *err);

/* Ranks as children of the process that makes the group: it forks, and each child opens its rank. Collective: each rank
 * learns the process numbers of the others. The child may free its copy of the group at any time afterwards.
 * comm_group_fail() is for the parent, which sees a rank die: it ends all waits of all ranks, with that reason. */
int comm_group_create_shared(struct comm_group **out, int ranks, int ranks_per_node, struct error *err);
int comm_open_process(struct comm **out, struct comm_group *group, int rank, struct error *err);
void comm_group_fail(struct comm_group *group, const struct error *reason);

/* Ranks as processes under MPI (mpirun, srun): initialises MPI with MPI_THREAD_SERIALIZED. Afterwards MPI is called only
 * inside calls of this interface. To let survivors of a death name it, start mpirun with --enable-recovery. ranks_per_node
 * 0: as the machine is; less: virtual nodes. */
int comm_open_mpi(struct comm **out, int ranks_per_node, struct error *err);
bool comm_have_mpi(void); /* built with MPI? */
void comm_mpi_version(char *text, size_t room); /* "Open MPI v4.1.4", as the library says; "": none */

/* Collective when all is well; after a failure it does not wait, and leaves MPI unfinalised. Before the memory's end. */
void comm_close(struct comm *comm);

const struct comm_layout *comm_layout(const struct comm *comm);

/* Collective: maps the symmetric segments of the node's other ranks. Once per comm. */
int comm_attach(struct comm *comm, struct memory *memory, struct error *err);

/* Memory of `bytes` that all ranks of the node share, zeroed (rings, command words); each rank gets one for itself, and
 * comm_segment_of() is that of another rank of this machine (also of another virtual node; NULL beyond). Call
 * collectively, once; valid until comm_close(). */
int comm_share(struct comm *comm, size_t bytes, struct error *err);
void *comm_segment_of(struct comm *comm, int rank);

/* Device operations that copy and reduce inside collectives, for ranks that are threads of one process and keep their segments on
 * devices. An operation may return before the device has done it; mover_finish() waits for it. `reduce` is kernels_reduce(). Without
 * device operations the calling thread copies and reduces in memory. Call comm_use() before comm_attach(), alike on every rank; the
 * struct is kept by reference.
 *
 * pass: for devices that cannot read each other's memory. It does this rank's part of an exchange among all ranks, in stream order
 * with the mover's copies and `reduce`.
 * give_up: ends all waits inside passes, of every rank. Any thread may call it once a rank has failed.
 * stranded: comm_close() calls it when, ten seconds after a failure, device operations of some rank are still reading: that rank will
 * not close, so this rank's memory cannot be freed. It ends the process, once for all ranks; if it returns, the wait continues.
 *
 * A meeting is a barrier inside a collective. With come() and meet() the devices keep the barrier among themselves, and no thread
 * waits for a device: each rank calls come(), which records how far its stream has come; then the threads of all ranks meet; then
 * each rank calls meet(), which makes its stream wait for what the others recorded. mover_finish() afterwards waits for the other
 * ranks' streams as well; meet.c says why that ends. come NULL: a thread waits for its own device before it meets the others.
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
    void (*give_up)(void *user);
    void (*stranded)(void *user, const struct error *why); /* NULL: they always come to an end */
    int (*reduce)(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                  const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err);
};
void comm_use(struct comm *comm, const struct comm_device_ops *device_ops);

/* Sets peers_ns and arrival_ns of a stat with meetings, which are known only once the device operations are done. Each is the time
 * between a stream's come() and its meet(); for a stream with nothing else to do that includes the threads' own wait. With `pass` only
 * the arrival is a meeting. Any thread may call it, for the last COMM_MEETINGS meetings. */
int comm_waited(const struct comm *comm, struct comm_stat *stat, struct error *err);

/* With `pass`: device memory into which the next reduction may receive. Every rank gives as much. At first there is none, and then
 * only a run of one rank can reduce. */
void comm_room(struct comm *comm, void *room, uint64_t bytes);

/* From here on reductions multiply each rank's part by `before`, rounded to its type, and the sum by `after`. At first 1 and
 * 1 / ranks. Every rank alike. */
void comm_scale(struct comm *comm, float before, float after);

int comm_all_gather(struct comm *comm, enum dtype dtype, const struct comm_part *parts, int count, bool healthy, struct comm_stat *stat, struct error *err);
/* Sources in dtype, what owners receive in `to`: kernels_reduce() says how it is rounded. */
int comm_reduce_scatter(struct comm *comm, enum dtype dtype, enum dtype to, const struct comm_part *parts, int count, int flags, bool healthy, struct comm_stat *stat, struct error *err);
/* Reduces every part to its owner, then gathers: afterwards all ranks hold the same bits at `source` (in place;
 * destination is ignored). */
int comm_all_reduce(struct comm *comm, enum dtype dtype, const struct comm_part *parts, int count, bool healthy, struct comm_stat *stat, struct error *err);

/* Control data, not tensors: every rank gives `bytes` (at most 4096) and receives those of all, in rank order. */
int comm_exchange(struct comm *comm, const void *mine, void *all, size_t bytes, struct comm_stat *stat, struct error *err);

/* After it all ranks have reached the same place. */
int comm_barrier(struct comm *comm, struct error *err);

/* Rank 0's bytes (any size, known to all) reach everyone. Waits as long as it takes, asleep (pauses live here). */
int comm_broadcast_control(struct comm *comm, void *data, size_t bytes, struct error *err);

/* For a rank that waits outside of any collective, on the thread that enters them: STATUS_RUN once the run has failed or a
 * peer was found dead. Costs little, and looks for the dead at most a few times a second. */
int comm_check(struct comm *comm, struct error *err);

/* Whether the run is known to have failed. Looks for nobody, so it is safe from any thread. */
bool comm_has_failed(const struct comm *comm);

/* Wakes every waiter with a failure, "rank R: reason", and its status, which then is that of all ranks. Safe from any thread,
 * once is enough. */
void comm_abort(struct comm *comm, const struct error *reason);

#endif
