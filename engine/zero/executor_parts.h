/* The inside of the executor: executor.c starts threads and runs schedules, lane.c takes an operation through its lane, gate.c
 * stands at the gate, pace.c slows, op_records.c tells the trace. */
#ifndef ENGINE_ZERO_EXECUTOR_PARTS_H
#define ENGINE_ZERO_EXECUTOR_PARTS_H

#include <pthread.h>

#include "engine/zero/executor.h"

struct lane_state {
    struct executor *executor;
    enum lane lane;
    pthread_t thread;
    bool started;
    uint32_t seen; /* runs that it is not to take part in, or has */
    _Atomic uint32_t done
        __attribute__((aligned(64))); /* 1 + number of the last operation that ended; what others wait on */
};

struct executor {
    struct executor_host host;
    struct gate own_gate; /* of a host that has none: always open */
    struct lane_state lanes[LANES];
    uint32_t lanes_started; /* threads running, the compute lane not counted */

    double slow_motion;
    uint64_t least_ns; /* of an operation that is worth looking at */

    /* The run in progress. */
    const struct schedule *schedule;
    uint32_t number, step;
    int agreement;       /* of this schedule */
    unsigned char *held; /* by buffer: taken and not given back */
    int held_room;
    _Atomic int failed, broken, drop_tail;
    struct take_failure take; /* written by the first lane that fails */
    struct error error;       /* written by the first lane that breaks */
    int status;
    uint64_t stood_ns; /* written by the compute lane */

    _Atomic uint32_t generation, running; /* start and end of runs, for the lane threads */
    _Atomic int quit;
};

/* An operation on its way through its lane. */
struct flight {
    const struct op *op;
    struct op_stat stat;
    uint64_t issued_ns, ready_ns, started_ns;
    uint64_t worked_ns; /* by the thread, when it started; in slow motion */
    int64_t waited_on;
};

static inline uint32_t op_number(const struct executor *executor, const struct op *op)
{
    return (uint32_t)(op - executor->schedule->ops);
}

/* Asleep until the operation of that number is behind the word, which counts from 1: lane_state.done. */
static inline bool wait_until_past(_Atomic uint32_t *word, uint32_t number)
{
    bool slept = false;
    for (uint32_t seen; (seen = atomic_load_explicit(word, memory_order_acquire)) <= number; slept = true)
        futex_wait(word, seen, 0);
    return slept;
}

/* lane.c: all operations of the lane, one after the other. */
void lane_run(struct executor *executor, struct lane_state *lane);

/* gate.c: the operation of this number may start when it returns. The number after the last stands for the end of the step. */
void executor_pass_gate(struct executor *executor, enum lane lane, uint32_t number);

/* pace.c: paced links and slow motion. The work is done, the data has moved; the lane only waits before it says so. Returns
 * the time added. */
uint64_t executor_pace(struct executor *executor, const struct flight *flight);

/* op_records.c. */
void executor_record_begin(const struct executor *executor, const struct flight *flight);
void executor_record_end(const struct executor *executor, const struct flight *flight, uint64_t ended_ns, uint64_t paced_ns);
/* How a transfer to or from NVMe went inside, when it has arrived: before what a paced link adds. */
void executor_record_io(const struct executor *executor, const struct flight *flight);

#endif
