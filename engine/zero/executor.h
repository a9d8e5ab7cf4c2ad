/* Runs schedules. Every lane takes its operations in order; the compute lane is the caller's own thread, each other lane a
 * thread of its own, started when the first schedule needs it. Lanes wait for each other on futexes, never spinning.
 *
 * An operation takes its buffers when it starts. If a take fails, the run is marked failed and goes on: no operation
 * computes any more, collectives are still entered (saying "not healthy"), what was taken is given back, and the caller
 * finds out when executor_run() returns. Other ranks learn of it in the next collective and do the same. */
#ifndef ENGINE_ZERO_EXECUTOR_H
#define ENGINE_ZERO_EXECUTOR_H

#include "engine/memory/memory.h"
#include "engine/plan/schedule.h"
#include "engine/trace/ring.h"

struct executor;

struct op_stat { uint64_t peers_ns, sent_bytes[2]; bool healthy; };

struct executor_host {
    void *user;
    struct memory *memory;
    struct trace_ring *rings[LANES];
    /* Runs one operation; healthy: the run has not failed so far. A status other than OK ends the run as broken (a dead
     * rank, an error of the system), which is not the same as failed (no memory). */
    int (*run)(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);
    uint16_t rank;
    double slow_motion;                           /* every operation takes at least this many times as long */
    const struct config_link *links;              /* by enum link; bandwidth 0: not paced */
};

struct take_failure { bool failed; int op; enum tier tier; enum category category; uint64_t wanted_bytes; struct memory_snapshot memory; char text[256]; };

struct executor_result { bool failed; struct take_failure take; /* take.failed: the failure began here, not on a peer */ };

int executor_create(struct executor **out, const struct executor_host *host, struct error *err);
void executor_free(struct executor *executor);

/* Runs the whole schedule; `number` and `step` go into its records. Returns when every lane has done all it had. */
int executor_run(struct executor *executor, const struct schedule *schedule, uint32_t number, uint32_t step, struct executor_result *result, struct error *err);

/* Drops what is left of the step: operations marked in_tail are skipped. Called by an operation, for later ones. */
void executor_drop_tail(struct executor *executor);

#endif
