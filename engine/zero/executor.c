/* The executor's threads, and the run of one schedule. */
#include "engine/zero/executor.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

/* ---- threads ---- */

static void *worker_thread(void *argument)
{
    struct worker *worker = argument;
    struct executor *executor = worker->executor;
    for (;;) {
        while (atomic_load_explicit(&executor->generation, memory_order_acquire) == worker->seen)
            futex_wait(&executor->generation, worker->seen, 0);
        worker->seen++;
        if (atomic_load(&executor->quit)) return NULL;
        worker->work(executor, worker->lane);
        if (atomic_fetch_sub(&executor->running, 1) == 1) futex_wake_all(&executor->running);
    }
}

static int start_worker(struct executor *executor, struct worker *worker, struct error *err)
{
    if (worker->started) return STATUS_OK;
    worker->seen = atomic_load(&executor->generation);
    if (pthread_create(&worker->thread, NULL, worker_thread, worker))
        return error_set(err, STATUS_RUN, "cannot start the thread of lane %s", lane_name(worker->lane->lane));
    worker->started = true;
    executor->workers_started++;
    return STATUS_OK;
}

/* Between runs: the threads of lanes that a schedule uses for the first time. */
static int start_lanes(struct executor *executor, struct error *err)
{
    bool used[LANES] = {false};
    int status = STATUS_OK;
    for (int i = 0; i < executor->schedule->op_count; i++) used[executor->schedule->ops[i].lane] = true;
    for (int lane = 0; lane < LANES && !status; lane++) {
        struct worker *worker = executor->workers[lane];
        if (!used[lane]) continue;
        if (!is_callers(executor, (enum lane)lane)) status = start_worker(executor, &worker[0], err);
        if (!status && executor->lanes[lane].stream) status = start_worker(executor, &worker[1], err);
    }
    return status;
}

int executor_create(struct executor **out, const struct executor_host *host, struct error *err)
{
    struct executor *executor = aligned_alloc(64, (sizeof *executor + 63) / 64 * 64);
    if (!executor) return error_set(err, STATUS_RUN, "no memory for the executor");
    memset(executor, 0, sizeof *executor);
    executor->host = *host;
    executor->slow_motion = 1;
    executor->own_gate.limit = GATE_OPEN;
    if (!host->gate) executor->host.gate = &executor->own_gate;
    for (int lane = 0; lane < LANES; lane++) {
        struct lane_state *state = &executor->lanes[lane];
        state->lane = (enum lane)lane;
        pthread_mutex_init(&state->marks, NULL);
        executor->workers[lane][0] = (struct worker){.executor = executor, .lane = state, .work = lane_run};
        executor->workers[lane][1] = (struct worker){.executor = executor, .lane = state, .work = lane_end};
    }
    *out = executor;
    return STATUS_OK;
}

void executor_free(struct executor *executor)
{
    if (!executor) return;
    atomic_store(&executor->quit, 1);
    atomic_fetch_add_explicit(&executor->generation, 1, memory_order_release);
    futex_wake_all(&executor->generation);
    for (int lane = 0; lane < LANES; lane++) {
        for (int w = 0; w < 2; w++)
            if (executor->workers[lane][w].started) pthread_join(executor->workers[lane][w].thread, NULL);
        pthread_mutex_destroy(&executor->lanes[lane].marks);
    }
    free(executor->held);
    free(executor->ops);
    free(executor);
}

/* ---- a run ---- */

static void *room_for(void *array, int *room, int wanted, size_t item_bytes)
{
    void *larger = wanted > *room ? realloc(array, (size_t)wanted * item_bytes) : array;
    if (larger && wanted > *room) *room = wanted;
    return larger;
}

static int make_tables(struct executor *executor, const struct schedule *schedule, struct error *err)
{
    unsigned char *held = room_for(executor->held, &executor->held_room, schedule->buffer_count, sizeof *held);
    if (held) executor->held = held;
    struct op_state *ops = room_for(executor->ops, &executor->ops_room, schedule->op_count, sizeof *ops);
    if (ops) executor->ops = ops;
    if (!held || !ops) return error_set(err, STATUS_RUN, "no memory for a step's tables");
    memset(held, 0, (size_t)schedule->buffer_count);
    int count[LANES] = {0};
    for (int i = 0; i < schedule->op_count; i++)
        ops[i] = (struct op_state){.place = (unsigned char)(count[schedule->ops[i].lane]++ % LANE_FLIGHTS)};
    return STATUS_OK;
}

static int prepare(struct executor *executor, const struct schedule *schedule, bool ahead, struct error *err)
{
    if (make_tables(executor, schedule, err)) return STATUS_RUN;
    executor->schedule = schedule;
    executor->agreement = schedule_agreement(schedule);
    executor->take.failed = false;
    executor->status = STATUS_OK;
    executor->gate_ns = 0;
    atomic_store(&executor->failed, 0);
    atomic_store(&executor->broken, 0);
    atomic_store(&executor->drop_rest, 0);
    for (int l = 0; l < LANES; l++) {
        struct lane_state *lane = &executor->lanes[l];
        lane->stream = ahead ? executor->host.device.streams[l] : NULL;
        lane->ended_ns = clock_ns();
        for (int f = 0; f < LANE_FLIGHTS; f++) lane->flights[f].op = NULL;
    }
    return start_lanes(executor, err);
}

int executor_run(struct executor *executor, const struct schedule *schedule, uint32_t number, uint32_t step, bool ahead,
                 struct executor_result *result, struct error *err)
{
    if (prepare(executor, schedule, ahead, err)) return STATUS_RUN;
    executor->number = number;
    executor->step = step;
    atomic_store(&executor->running, executor->workers_started);
    atomic_fetch_add_explicit(&executor->generation, 1, memory_order_release);
    futex_wake_all(&executor->generation);
    lane_run(executor, &executor->lanes[LANE_COMPUTE]);
    for (uint32_t left; (left = atomic_load(&executor->running)) > 0;) futex_wait(&executor->running, left, 0);
    result->failed = atomic_load(&executor->failed);
    result->take = executor->take;
    result->gate_ns = executor->gate_ns;
    if (executor->status && err) *err = executor->error;
    return executor->status;
}

void executor_drop_rest(struct executor *executor)
{
    atomic_store(&executor->drop_rest, 1);
}

void executor_slow(struct executor *executor, double factor, uint64_t least_ns)
{
    executor->slow_motion = factor;
    executor->least_ns = least_ns;
}
