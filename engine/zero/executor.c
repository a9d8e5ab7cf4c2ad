#include "engine/zero/executor.h"

#include <stdlib.h>
#include <string.h>

#include "engine/zero/executor_parts.h"

/* ---- threads ---- */

static void *lane_thread(void *argument)
{
    struct lane_state *lane = argument;
    struct executor *executor = lane->executor;
    for (;;) {
        while (atomic_load_explicit(&executor->generation, memory_order_acquire) == lane->seen)
            futex_wait(&executor->generation, lane->seen, 0);
        lane->seen++;
        if (atomic_load(&executor->quit)) return NULL;
        lane_run(executor, lane);
        if (atomic_fetch_sub(&executor->running, 1) == 1) futex_wake_all(&executor->running);
    }
}

/* Between runs: the threads of lanes that a schedule uses for the first time. */
static int start_lanes(struct executor *executor, const struct schedule *schedule, struct error *err)
{
    for (int i = 0; i < schedule->op_count; i++) {
        struct lane_state *lane = &executor->lanes[schedule->ops[i].lane];
        if (lane->lane == LANE_COMPUTE || lane->started) continue;
        lane->seen = atomic_load(&executor->generation);
        if (pthread_create(&lane->thread, NULL, lane_thread, lane))
            return error_set(err, STATUS_RUN, "cannot start the thread of lane %s", lane_name(lane->lane));
        lane->started = true;
        executor->lanes_started++;
    }
    return STATUS_OK;
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
    for (int lane = 0; lane < LANES; lane++)
        executor->lanes[lane] = (struct lane_state){.executor = executor, .lane = (enum lane)lane};
    *out = executor;
    return STATUS_OK;
}

void executor_free(struct executor *executor)
{
    if (!executor) return;
    atomic_store(&executor->quit, 1);
    atomic_fetch_add_explicit(&executor->generation, 1, memory_order_release);
    futex_wake_all(&executor->generation);
    for (int lane = 0; lane < LANES; lane++)
        if (executor->lanes[lane].started) pthread_join(executor->lanes[lane].thread, NULL);
    free(executor->held);
    free(executor);
}

/* ---- a run ---- */

static int prepare(struct executor *executor, const struct schedule *schedule, struct error *err)
{
    if (executor->held_room < schedule->buffer_count) {
        unsigned char *larger = realloc(executor->held, (size_t)schedule->buffer_count);
        if (!larger) return error_set(err, STATUS_RUN, "no memory for a step's table of buffers");
        executor->held = larger;
        executor->held_room = schedule->buffer_count;
    }
    memset(executor->held, 0, (size_t)schedule->buffer_count);
    executor->schedule = schedule;
    executor->agreement = schedule_agreement(schedule);
    executor->take.failed = false;
    executor->status = STATUS_OK;
    executor->stood_ns = 0;
    atomic_store(&executor->failed, 0);
    atomic_store(&executor->broken, 0);
    atomic_store(&executor->drop_tail, 0);
    for (int lane = 0; lane < LANES; lane++) atomic_store(&executor->lanes[lane].done, 0);
    return STATUS_OK;
}

int executor_run(struct executor *executor, const struct schedule *schedule, uint32_t number, uint32_t step,
                 struct executor_result *result, struct error *err)
{
    if (prepare(executor, schedule, err) || start_lanes(executor, schedule, err)) return STATUS_RUN;
    executor->number = number;
    executor->step = step;
    atomic_store(&executor->running, executor->lanes_started);
    atomic_fetch_add_explicit(&executor->generation, 1, memory_order_release);
    futex_wake_all(&executor->generation);
    lane_run(executor, &executor->lanes[LANE_COMPUTE]);
    for (uint32_t left; (left = atomic_load(&executor->running)) > 0;) futex_wait(&executor->running, left, 0);
    result->failed = atomic_load(&executor->failed);
    result->take = executor->take;
    result->stood_ns = executor->stood_ns;
    if (executor->status && err) *err = executor->error;
    return executor->status;
}

void executor_drop_tail(struct executor *executor)
{
    atomic_store(&executor->drop_tail, 1);
}

void executor_slow(struct executor *executor, double factor, uint64_t least_ns)
{
    executor->slow_motion = factor;
    executor->least_ns = least_ns;
}
