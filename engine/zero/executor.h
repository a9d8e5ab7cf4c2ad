/* Runs schedules. Every lane takes its operations in order; the compute lane is the caller's own thread, each other lane a
 * thread of its own, started when the first schedule needs it. Lanes wait for each other on futexes, never spinning.
 *
 * Lanes that are streams of a device may run ahead of it: an operation is sent when all that it depends on has been sent, and
 * the device keeps the rest of the order. A second thread of the lane follows the device: when an operation starts and ends
 * there, it counts the buffers taken and given, writes the records with the device's times, and wakes the lanes that wait. So
 * neither memory nor trace shows whether a lane runs ahead.
 *
 * An operation takes its buffers when it starts. If a take fails, the run is marked failed and goes on: no operation
 * computes any more, collectives are still entered (saying "not healthy"), what was taken is given back, and the caller
 * finds out when executor_run() returns. Other ranks learn of it in the next collective and do the same. */
#ifndef ENGINE_ZERO_EXECUTOR_H
#define ENGINE_ZERO_EXECUTOR_H

#include "engine/base/gate.h"
#include "engine/memory/aio.h"
#include "engine/memory/memory.h"
#include "engine/plan/schedule.h"
#include "engine/trace/ring.h"
#include "engine/zero/lane_stream.h"

struct executor;

struct op_stat {
    uint64_t peers_ns, arrival_ns; /* time waited for other ranks; of it, until the last rank had come */
    uint64_t meeting;              /* on GPUs: the first meeting of the collective, and how many; comm_waited() reads both times */
    int meetings;                  /* by these numbers once the collective is done */
    uint64_t sent_bytes[LINKS];
    struct aio_flow io; /* of an operation that moved something to or from NVMe; without requests: it did not */
    bool io_direct;     /* ... past the page cache */
    double flops;       /* of an operation that computes, by the plan */
    bool healthy;
};

/* A device that lanes work on. Each function may be NULL: then there is nothing to do. */
struct executor_device {
    const struct lane_stream *streams[LANES]; /* of lanes that can run ahead */
    /* Waits until what run() left to the device is done. Not called on lanes that run ahead. */
    int (*finish)(void *user, const struct op *op, struct error *err);
    /* Adds what run() could not know yet of an operation that is done now. On the thread that ends operations of its lane. */
    int (*settle)(void *user, const struct op *op, struct op_stat *stat, struct error *err);
    /* Called once in a run, as soon as it is broken, from any lane: others may wait for what will not be done here. */
    void (*broke)(void *user, const struct error *err);
};

struct executor_host {
    void *user;
    struct memory *memory;
    struct trace_ring *rings[LANES];
    /* Runs one operation; healthy: the run has not failed so far. A status other than OK ends the run as broken (a dead
     * rank, an error of the system), which is not the same as failed (no memory). */
    int (*run)(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);
    /* After each, on the thread that ends operations of its lane: how long it took, time added by pacing included. May be NULL. */
    void (*ended)(void *user, const struct op *op, uint64_t took_ns);
    struct executor_device device; /* zeroed: every lane works on its own thread */
    uint16_t rank;
    const struct config_link *links; /* by enum link; bandwidth 0: not paced */
    const double *device_flops;      /* how many floating-point operations a second are let pass; NULL or 0: all */
    /* Stepping by operations. gate NULL: none. The others may be NULL too. */
    struct gate *gate;
    /* Called instead of sleeping at the closed gate, on the compute lane, once this rank has done all that the gate lets:
     * `next` comes next. Returns when it may have moved. */
    void (*at_gate)(void *user, const struct schedule *schedule, uint32_t next);
    /* Called a few times a second on the communication lane while it waits there. False: the run has failed. */
    bool (*alive)(void *user);
};

struct take_failure { bool failed; int op; enum tier tier; enum category category; uint64_t wanted_bytes; struct memory_snapshot memory; char text[256]; };

struct executor_result {
    bool failed;
    struct take_failure take; /* take.failed: the failure began here, not on a peer */
    uint64_t stood_ns;        /* that the compute lane stood at the closed gate */
};

int executor_create(struct executor **out, const struct executor_host *host, struct error *err);
void executor_free(struct executor *executor);

/* Runs the whole schedule; `number` and `step` go into its records. Returns when every lane has done all it had. ahead: lanes
 * that are streams run ahead. No take of the schedule may fail then, the memory that it names has to be there whether taken or
 * not, and the gate has to be open; nothing is paced. */
int executor_run(struct executor *executor, const struct schedule *schedule, uint32_t number, uint32_t step, bool ahead, struct executor_result *result, struct error *err);

/* From the next run on an operation takes this many times as long as it would, links included; one that moves or uses
 * parameters or gradients as if it had taken at least least_ns. Not stretched is the time in which a collective waits for
 * ranks that come later: they are slowed themselves. */
void executor_slow(struct executor *executor, double factor, uint64_t least_ns);

/* The rings that take the records of later runs. */
void executor_tell(struct executor *executor, struct trace_ring *const rings[LANES]);

/* Drops what is left of the step: operations marked droppable are skipped. Called by an operation, for later ones. */
void executor_drop_rest(struct executor *executor);

#endif
