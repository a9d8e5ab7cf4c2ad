/* Internals of the executor: executor.c starts threads and runs schedules, lane.c runs the operations of a lane, ahead.c those of
 * a lane that runs ahead, pace.c adds time, records.c writes trace records. */
#pragma once

#include <pthread.h>

#include "engine/zero/executor.h"

/* One operation in flight on its lane. */
struct flight {
    const struct op *op;
    struct op_stat stat;
    uint64_t issued_ns, ready_ns, started_ns;
    uint64_t worked_ns; /* CPU time of the thread when the operation started; only in slow motion */
    int64_t waited_on;
    bool skipped; /* only lanes that run ahead: the operation is not run */
};

struct lane_state {
    enum lane lane;
    const struct lane_stream *stream; /* the device's stream if the lane runs ahead in this run; else NULL */
    uint64_t ended_ns;                /* end of its last operation, or start of the run */
    struct flight flights[LANE_FLIGHTS]; /* operations sent and not ended, by op_state.place */
    /* Held while another lane makes its stream wait for a mark of this one: the mark must not be recorded again meanwhile. */
    pthread_mutex_t marks;
};

/* One thread of a lane. A lane that runs ahead has two: one sends operations, the other waits for their ends. The caller is the compute
 * lane's first thread. */
struct worker {
    struct executor *executor;
    struct lane_state *lane;
    void (*work)(struct executor *executor, struct lane_state *lane);
    pthread_t thread;
    bool started;
    uint32_t seen; /* generation of the last run that the thread has seen */
};

/* Values of op_state.sent and op_state.done. A thread sleeps on the word of one operation, so only that operation wakes it. */
enum { NOT_YET, AWAITED, REACHED };

struct op_state {
    uint64_t ended_ns; /* once it is done */
    _Atomic uint32_t sent, done;
    unsigned char place; /* index among the flights of its lane */
};

struct executor {
    struct executor_host host;
    struct gate own_gate; /* used if the host has none: always open */
    struct lane_state lanes[LANES];
    struct worker workers[LANES][2];
    uint32_t workers_started;

    double slow_motion;
    uint64_t least_ns; /* executor_slow() */

    /* The run in progress. */
    const struct schedule *schedule;
    uint32_t number, step;
    int agreement;       /* number of the operation `agree` */
    unsigned char *held;  /* by buffer: 1 if taken and not given back */
    struct op_state *ops; /* by operation */
    int held_room, ops_room;
    _Atomic int failed, broken, drop_rest;
    _Atomic int is_held;      /* this rank was reported as held (gate.h), and has not been reported as released */
    struct zero_shortage take; /* written by the first lane that fails; empty if another rank failed first */
    struct error error;       /* written by the first lane that breaks */
    int status;
    uint64_t gate_ns; /* written by the compute lane */

    _Atomic uint32_t generation, running; /* start and end of runs, for the lane threads */
    _Atomic int quit;
};

static inline uint32_t op_index(const struct executor *executor, const struct op *op)
{
    return (uint32_t)(op - executor->schedule->ops);
}

/* `word` is op_state.sent or .done. say_reached() wakes the waiting threads; wait_until_reached() returns whether it slept. */
static inline void say_reached(_Atomic uint32_t *word)
{
    if (atomic_exchange_explicit(word, REACHED, memory_order_acq_rel) == AWAITED) futex_wake_all(word);
}

static inline bool is_reached(_Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire) == REACHED;
}

static inline bool wait_until_reached(_Atomic uint32_t *word)
{
    uint32_t seen = NOT_YET;
    if (is_reached(word) || (!atomic_compare_exchange_strong(word, &seen, AWAITED) && seen == REACHED)) return false;
    while (!is_reached(word)) futex_wait(word, AWAITED, 0);
    return true;
}

/* Whether the lane's operations run on the thread of the compute lane. */
static inline bool is_callers(const struct executor *executor, enum lane lane)
{
    return lane == LANE_COMPUTE || (lane == LANE_COMM && executor->host.single_rank);
}

/* lane.c: runs all operations of the lane, one after the other. */
void lane_run(struct executor *executor, struct lane_state *lane);
/* True: `op` is not to be run. Call it when all dependencies of `op` have ended or, on a lane that runs ahead, were sent. */
bool lane_skips(struct executor *executor, const struct op *op);
void lane_work(struct executor *executor, struct flight *flight, bool healthy);
void lane_break(struct executor *executor, const struct error *err);
/* lane_take() takes the operation's buffers; lane_conclude() gives its buffers back and marks it done. when_ns: the time of their
 * memory records; 0: now. */
void lane_take(struct executor *executor, const struct op *op, uint64_t when_ns);
void lane_conclude(struct executor *executor, struct lane_state *lane, const struct op *op, uint64_t ended_ns, uint64_t when_ns);

/* ahead.c: waits for the work that the operation enqueued on a device, if there is one. */
void lane_finish(struct executor *executor, struct flight *flight);
/* The two halves of lane_run() for a lane that runs ahead. For any other lane, lane_end() returns at once. */
void lane_send(struct executor *executor, struct lane_state *lane);
void lane_end(struct executor *executor, struct lane_state *lane);

/* pace.c: paced links and slow motion. The work has ended; the lane sleeps before it reports the end. Returns the time added. */
uint64_t executor_pace(struct executor *executor, const struct flight *flight);
void executor_tell_ended(const struct executor *executor, const struct flight *flight, uint64_t took_ns);

/* records.c */
void executor_record_begin(const struct executor *executor, const struct flight *flight);
void executor_record_end(const struct executor *executor, const struct flight *flight, uint64_t ended_ns, uint64_t paced_ns);
/* Records the I/O counts of a transfer to or from NVMe, before a paced link adds time. */
void executor_record_io(const struct executor *executor, const struct flight *flight);
