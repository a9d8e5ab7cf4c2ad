/* The inside of the executor: executor.c starts threads and runs schedules, lane.c takes an operation through its lane, ahead.c
 * does so in two halves, pace.c slows, op_records.c tells the trace. */
#ifndef ENGINE_ZERO_EXECUTOR_PARTS_H
#define ENGINE_ZERO_EXECUTOR_PARTS_H

#include <pthread.h>

#include "engine/zero/executor.h"

/* An operation on its way through its lane. */
struct flight {
    const struct op *op;
    struct op_stat stat;
    uint64_t issued_ns, ready_ns, started_ns;
    uint64_t worked_ns; /* by the thread, when it started; in slow motion */
    int64_t waited_on;
    bool skipped; /* not run; of a lane that runs ahead */
};

struct lane_state {
    enum lane lane;
    const struct lane_stream *stream; /* that it runs ahead of, in this run; else NULL */
    uint64_t ended_ns;                /* of its last operation, or when the run began */
    struct flight flights[LANE_FLIGHTS]; /* sent and not ended, where op_state.place says */
    pthread_mutex_t marks; /* held while another lane is told to await the end of one: it is not made anew meanwhile */
    /* 1 + number of the last operation that was sent, and that ended; what others wait on. */
    _Atomic uint32_t sent __attribute__((aligned(64))), done __attribute__((aligned(64)));
};

/* A lane has one thread, or two: one that sends, one that ends. The compute lane's first one is the caller's. */
struct worker {
    struct executor *executor;
    struct lane_state *lane;
    void (*work)(struct executor *executor, struct lane_state *lane);
    pthread_t thread;
    bool started;
    uint32_t seen; /* runs that it is not to take part in, or has */
};

struct op_state {
    uint64_t ended_ns;   /* once it is done */
    unsigned char place; /* among the flights of its lane */
};

struct executor {
    struct executor_host host;
    struct gate own_gate; /* of a host that has none: always open */
    struct lane_state lanes[LANES];
    struct worker workers[LANES][2];
    uint32_t workers_started;

    double slow_motion;
    uint64_t least_ns; /* of an operation that is worth looking at */

    /* The run in progress. */
    const struct schedule *schedule;
    uint32_t number, step;
    int agreement;       /* of this schedule */
    unsigned char *held;  /* by buffer: taken and not given back */
    struct op_state *ops; /* by operation */
    int held_room, ops_room;
    _Atomic int failed, broken, drop_rest;
    struct take_failure take; /* written by the first lane that fails */
    struct error error;       /* written by the first lane that breaks */
    int status;
    uint64_t stood_ns; /* written by the compute lane */

    _Atomic uint32_t generation, running; /* start and end of runs, for the lane threads */
    _Atomic int quit;
};

static inline uint32_t op_number(const struct executor *executor, const struct op *op)
{
    return (uint32_t)(op - executor->schedule->ops);
}

/* The word is lane_state.sent or .done. say_past() sets it behind the operation of this number and wakes the sleepers;
 * wait_until_past() sleeps until it is there, and returns whether it slept. */
static inline void say_past(_Atomic uint32_t *word, uint32_t number)
{
    atomic_store_explicit(word, number + 1, memory_order_release);
    futex_wake_all(word);
}

static inline bool wait_until_past(_Atomic uint32_t *word, uint32_t number)
{
    bool slept = false;
    for (uint32_t seen; (seen = atomic_load_explicit(word, memory_order_acquire)) <= number; slept = true)
        futex_wait(word, seen, 0);
    return slept;
}

/* lane.c: all operations of the lane, one after the other. */
void lane_run(struct executor *executor, struct lane_state *lane);
bool lane_skips(struct executor *executor, const struct op *op); /* when all it depends on is done, or was sent */
void lane_work(struct executor *executor, struct flight *flight, bool healthy);
void lane_break(struct executor *executor, const struct error *err);
/* when_ns 0: now. */
void lane_take(struct executor *executor, const struct op *op, uint64_t when_ns);
void lane_conclude(struct executor *executor, struct lane_state *lane, const struct op *op, uint64_t ended_ns, uint64_t when_ns);

/* ahead.c: waits for what the operation left to a device, if there is one. */
void lane_finish(struct executor *executor, struct flight *flight);
/* ... the two halves of lane_run() where the lane runs ahead. lane_end() returns at once where it does not. */
void lane_send(struct executor *executor, struct lane_state *lane);
void lane_end(struct executor *executor, struct lane_state *lane);

/* pace.c: paced links and slow motion. The work is done, the data has moved; the lane only waits before it says so. Returns
 * the time added. */
uint64_t executor_pace(struct executor *executor, const struct flight *flight);

/* op_records.c. */
void executor_record_begin(const struct executor *executor, const struct flight *flight);
void executor_record_end(const struct executor *executor, const struct flight *flight, uint64_t ended_ns, uint64_t paced_ns);
/* How a transfer to or from NVMe went inside, when it has arrived: before what a paced link adds. */
void executor_record_io(const struct executor *executor, const struct flight *flight);

#endif
