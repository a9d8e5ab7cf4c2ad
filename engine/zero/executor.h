/* Runs schedules. Every lane runs its operations in order. The compute lane is the caller's thread; each other lane has its own
 * thread, started when the first schedule needs it (executor_host.single_rank: the communication lane has none). Lanes wait for each
 * other on futexes and never spin.
 *
 * Lanes that are streams of a device may run ahead of it: an operation is sent when all its dependencies have been sent, and the
 * device keeps the order. A second thread of the lane follows the device: when an operation starts and ends there, it counts
 * the buffers taken and given, writes the records with the device's times, and wakes waiting lanes. So memory and trace have
 * the same meaning whether a lane runs ahead or not.
 *
 * An operation takes its buffers when it starts. If a take fails before the agreement, the run is marked failed and continues:
 * no operation computes any more, lanes still enter collectives (with healthy false), taken buffers are given back, and
 * executor_run() reports the failure when it returns. Other ranks learn of it in the next collective and do the same. A take
 * that fails after the agreement breaks the run, because the update has begun. */
#pragma once

#include "engine/base/gate.h"
#include "engine/comm/comm.h"
#include "engine/memory/aio.h"
#include "engine/memory/memory.h"
#include "engine/plan/schedule.h"
#include "engine/trace/ring.h"
#include "engine/zero/lane_stream.h"

struct executor;

struct op_stat {
    struct comm_stat moved; /* also of copies between tiers. link_ns all 0: not measured. comm_waited() turns device barriers into times */
    struct aio_flow io; /* of a transfer to or from NVMe; blocks 0: it is no such transfer */
    bool io_direct;     /* the transfer bypassed the page cache */
    double flops;       /* planned floating-point operations */
};

/* A device on which lanes work. Each function may be NULL: then there is nothing to do. */
struct executor_device {
    const struct lane_stream *streams[LANES]; /* of lanes that can run ahead */
    /* Waits for the work that run() has enqueued on the device. Not called on lanes that run ahead. */
    int (*finish)(void *user, const struct op *op, struct error *err);
    /* Called after an operation has ended, on the thread that ends operations of its lane. Adds the times that run() could not know. */
    int (*settle)(void *user, const struct op *op, struct op_stat *stat, struct error *err);
    /* Called once in a broken run, at once and from any lane, because other ranks may wait for work that this one will not do. */
    void (*broke)(void *user, const struct error *err);
};

struct executor_host {
    void *user;
    struct memory *memory;
    struct trace_ring *const *rings; /* by lane; they may change between runs */
    /* Runs one operation; healthy: the run has not failed so far. A status other than OK makes the run broken (a dead rank, an
     * error of the system), which is not the same as failed (no memory). */
    int (*run)(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);
    /* Called after each operation that was not skipped, on the thread that ends operations of its lane. took_ns: its duration. link_ns:
     * how long it used each link. Both include pacing. May be NULL. */
    void (*ended)(void *user, const struct op *op, uint64_t took_ns, const uint64_t link_ns[LINKS]);
    struct executor_device device; /* zeroed: there is no device */
    uint16_t rank;
    bool single_rank; /* one rank and no device: the compute lane's thread runs the communication lane too, which never waits */
    const struct config_link *links; /* by enum link; bandwidth 0: not paced */
    const double *device_flops;      /* floating-point operations per second of a paced device; NULL or 0: not paced */
    /* Stepping by operations, and a held rank. gate NULL: none. The others may be NULL too. */
    struct gate *gate;
    /* Called on the compute lane, instead of sleeping at the closed gate, when this rank has finished all operations before
     * `next`. Returns when the gate may have been raised. */
    void (*at_gate)(void *gate_user, const struct schedule *schedule, uint32_t next);
    void *gate_user;
    /* Called a few times a second on the communication lane while it waits at the gate. False: the run has failed. */
    bool (*alive)(void *user);
    /* Called on a lane when the rank begins to be held, before operation `next` of this lane, and when it goes on. */
    void (*held)(void *user, const struct schedule *schedule, enum lane lane, uint32_t next, bool held);
};

struct zero_shortage { /* why a take failed */
    bool failed;
    int rank, op;        /* rank: known once the ranks have agreed. op -1: not in a step */
    uint64_t also_ranks; /* a bit for each other rank where a take failed; known once the ranks have agreed */
    enum tier tier;
    enum category category;
    uint64_t wanted_bytes, budget_bytes;
    struct memory_snapshot memory; /* of that rank */
    char text[256];
};

/* Describes a failed take of `buffer` by operation `op` (-1: none), with a snapshot of `memory` made now. */
struct zero_shortage take_failure_of(const struct memory *memory, int op, const struct buffer *buffer, const struct error *why);

struct executor_result {
    bool failed;
    struct zero_shortage take; /* take.failed: a take failed on this rank, not (only) on a peer */
    uint64_t gate_ns;        /* time that the compute lane waited at the closed gate */
};

int executor_create(struct executor **out, const struct executor_host *host, struct error *err);
void executor_free(struct executor *executor);

/* Runs the whole schedule; `number` and `step` go into its records. Returns when every lane has ended. ahead: lanes that are
 * streams run ahead. Then no take may fail, the memory of all buffers must be committed before, the gate must be open, and
 * nothing is paced. Errors: the first status of a broken run; STATUS_RUN: no memory, no thread. */
int executor_run(struct executor *executor, const struct schedule *schedule, uint32_t number, uint32_t step, bool ahead, struct executor_result *result, struct error *err);

/* From the next run on, every operation takes `factor` times as long, links included. If an operation
 * moves bytes or uses a unit (op_is_followed()), a time below least_ns first becomes least_ns. Time in which a collective waits for
 * later ranks is not stretched, because those ranks are slowed themselves. */
void executor_slow(struct executor *executor, double factor, uint64_t least_ns);

/* Drops the rest of the step: later operations marked droppable are skipped. Called by an operation. */
void executor_drop_rest(struct executor *executor);
