#include "engine/zero/executor.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"
#include "engine/plan/paced.h"

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

/* ---- one operation ---- */

struct timing {
    uint64_t issued_ns, ready_ns, started_ns;
    uint64_t worked_ns; /* by the thread, when it started; in slow motion */
    int64_t waited_on;
};

static void wait_for_dependencies(struct executor *executor, const struct op *op, struct timing *timing)
{
    timing->waited_on = -1;
    for (int d = 0; d < op->dependency_count; d++) {
        int on = op->dependency[d].op;
        struct lane_state *other = &executor->lanes[executor->schedule->ops[on].lane];
        for (uint32_t seen; (seen = atomic_load_explicit(&other->done, memory_order_acquire)) <= (uint32_t)on;) {
            timing->waited_on = on;
            futex_wait(&other->done, seen, 0);
        }
    }
    timing->ready_ns = clock_ns();
}

static void break_run(struct executor *executor, const struct error *err)
{
    if (atomic_exchange(&executor->broken, 1)) return;
    executor->error = *err;
    executor->status = err->status;
    gate_raise(executor->host.gate, GATE_OPEN);
}

/* Below the agreement it is too late to give the step up; that the budget suffices was foreseen. */
static void take_failed(struct executor *executor, const struct op *op, const struct buffer *buffer, struct error *err)
{
    if ((int)(op - executor->schedule->ops) > executor->agreement) {
        error_prefix(err, "step %u, in the midst of the update, whose state is lost", executor->step);
        break_run(executor, err);
        return;
    }
    if (atomic_exchange(&executor->failed, 1)) return;
    executor->take = (struct take_failure){.failed = true,
                                           .op = (int)(op - executor->schedule->ops),
                                           .tier = buffer->tier,
                                           .category = buffer->category,
                                           .wanted_bytes = (uint64_t)buffer->bytes};
    memory_snapshot(executor->host.memory, &executor->take.memory);
    snprintf(executor->take.text, sizeof executor->take.text, "%.255s", err->text);
}

static void take_buffers(struct executor *executor, const struct op *op)
{
    const struct schedule *schedule = executor->schedule;
    for (int t = 0; t < op->take_count && !atomic_load(&executor->failed) && !atomic_load(&executor->broken); t++) {
        int b = schedule->effects[op->first_take + t];
        const struct buffer *buffer = &schedule->buffers[b];
        struct error err;
        if (memory_take(executor->host.memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes,
                        &err))
            take_failed(executor, op, buffer, &err);
        else executor->held[b] = 1;
    }
}

static void give_buffers(struct executor *executor, const struct op *op)
{
    for (int g = 0; g < op->give_count; g++) {
        int b = executor->schedule->effects[op->first_give + g];
        const struct buffer *buffer = &executor->schedule->buffers[b];
        if (!executor->held[b]) continue; /* its take failed */
        memory_give(executor->host.memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes);
        executor->held[b] = 0;
    }
}

/* Unless the run is to end. */
static void sleep_until(struct gate *gate, uint64_t when_ns)
{
    for (uint64_t now_ns; !atomic_load(&gate->haste) && (now_ns = clock_ns()) < when_ns;)
        futex_wait(&gate->haste, 0, when_ns - now_ns);
}

/* What the bytes take over a paced link: the slower of the links they took. */
static double link_ns(const struct executor *executor, const struct op_stat *stat)
{
    double most_ns = 0;
    for (int link = 0; link < LINKS; link++) {
        const struct config_link *paced = &executor->host.links[link];
        if (stat->sent_bytes[link] == 0) continue;
        double seconds = paced->latency_s;
        if (paced->bandwidth_bytes_per_s > 0) seconds += (double)stat->sent_bytes[link] / paced->bandwidth_bytes_per_s;
        if (seconds * 1e9 > most_ns) most_ns = seconds * 1e9;
    }
    return most_ns;
}

/* What the products would take on a paced device. */
static double device_ns(const struct executor *executor, const struct op_stat *stat)
{
    const double *flops = executor->host.device_flops;
    return flops && *flops > 0 ? (double)stat->flops / *flops * 1e9 : 0;
}

/* How long an operation counts for: the time it had a processor, because what ranks that share processors take from each
 * other is not to be stretched as well. Only between nodes, where a network does the work, it is the time that passed since
 * all ranks had come; those who came late were stretched themselves. */
static double counted_ns(const struct executor *executor, const struct op *op, const struct op_stat *stat,
                         uint64_t took_ns, uint64_t worked_ns)
{
    const double paced_ns = fmax(link_ns(executor, stat), device_ns(executor, stat));
    double counted = (double)(stat->sent_bytes[LINK_INTER] ? took_ns : worked_ns);
    if (counted < paced_ns) counted = paced_ns;
    if (counted < (double)executor->least_ns && op_is_followed(op)) counted = (double)executor->least_ns;
    return counted;
}

/* Paced links and slow motion: the work is done, the data has moved; the lane only waits before it says so. Returns the
 * time added. */
static uint64_t pace(struct executor *executor, const struct op *op, const struct op_stat *stat,
                     const struct timing *timing)
{
    const uint64_t now_ns = clock_ns(), began_ns = timing->started_ns + stat->arrival_ns, took_ns = now_ns - began_ns;
    const uint64_t worked_ns = executor->slow_motion > 1 ? clock_worked_ns() - timing->worked_ns : 0;
    const double slowed_ns = counted_ns(executor, op, stat, took_ns, worked_ns) * executor->slow_motion;
    if (slowed_ns <= (double)took_ns) return 0;
    sleep_until(executor->host.gate, began_ns + (uint64_t)slowed_ns);
    return clock_ns() - now_ns;
}

static void record_begin(const struct executor *executor, const struct op *op, const struct timing *timing)
{
    struct trace_record record = {.kind = TRACE_OP_BEGIN, .rank = executor->host.rank, .time_ns = timing->started_ns};
    record.op_begin = (struct trace_of_op_begin){executor->number, executor->step,
                                                 (uint32_t)(op - executor->schedule->ops), timing->issued_ns};
    trace_emit(executor->host.rings[op->lane], &record);
}

static void record_end(const struct executor *executor, const struct op *op, const struct timing *timing,
                       const struct op_stat *stat, uint64_t paced_ns)
{
    struct trace_record record = {.kind = TRACE_OP_END, .rank = executor->host.rank, .time_ns = clock_ns()};
    record.op_end = (struct trace_of_op_end){.schedule = executor->number,
                                             .step = executor->step,
                                             .op = (uint32_t)(op - executor->schedule->ops),
                                             .issued_ns = timing->issued_ns,
                                             .ready_ns = timing->ready_ns,
                                             .started_ns = timing->started_ns,
                                             .waited_on = timing->waited_on,
                                             .peers_ns = stat->peers_ns,
                                             .paced_ns = paced_ns,
                                             .sent_bytes = stat->sent_bytes[LINK_INTRA] + stat->sent_bytes[LINK_INTER] +
                                                           stat->sent_bytes[LINK_PCIE] + stat->sent_bytes[LINK_NVME]};
    trace_emit(executor->host.rings[op->lane], &record);
}

/* How a transfer to or from NVMe went inside, when it has arrived: before what a paced link adds. */
static void record_io(const struct executor *executor, const struct op *op, const struct op_stat *stat)
{
    struct trace_record record = {.kind = TRACE_IO, .rank = executor->host.rank, .time_ns = clock_ns()};
    if (stat->io.blocks == 0) return;
    record.io = (struct trace_of_io){.schedule = executor->number,
                                     .step = executor->step,
                                     .op = (uint32_t)(op - executor->schedule->ops),
                                     .direct = stat->io_direct,
                                     .requests = (uint32_t)stat->io.blocks,
                                     .bytes = stat->io.bytes,
                                     .busy_ns = stat->io.busy_ns,
                                     .latency_ns = stat->io.latency_ns,
                                     .longest_ns = stat->io.longest_ns,
                                     .deepest = stat->io.deepest};
    trace_emit(executor->host.rings[op->lane], &record);
}

/* ---- the gate ---- */

/* Until this rank has done, on its other lanes too, all that the gate lets. */
static void settle(struct executor *executor, uint32_t limit)
{
    const struct schedule *schedule = executor->schedule;
    bool settled[LANES] = {[LANE_COMPUTE] = true};
    for (int i = (int)limit < schedule->op_count ? (int)limit - 1 : schedule->op_count - 1; i >= 0; i--) {
        struct lane_state *lane = &executor->lanes[schedule->ops[i].lane];
        if (settled[lane->lane]) continue; /* lanes are in order: its last one stands for all */
        settled[lane->lane] = true;
        for (uint32_t seen; (seen = atomic_load_explicit(&lane->done, memory_order_acquire)) <= (uint32_t)i;)
            futex_wait(&lane->done, seen, 0);
    }
}

/* The operation of this number may start when this returns. The number after the last stands for the end of the step. */
static void pass_gate(struct executor *executor, enum lane lane, uint32_t number)
{
    const struct executor_host *host = &executor->host;
    const uint64_t since_ns = gate_lets(host->gate, number) ? 0 : clock_ns(), look_ns = 200000000;
    for (uint32_t limit; number >= (limit = gate_limit(host->gate));) {
        if (lane == LANE_COMPUTE && host->at_gate) {
            settle(executor, limit);
            if (gate_limit(host->gate) == limit) host->at_gate(host->user, executor->schedule, limit);
        } else {
            bool watches = lane == LANE_COMM && host->alive;
            gate_wait(host->gate, number, watches ? look_ns : 0);
            if (watches && !host->alive(host->user)) gate_raise(host->gate, GATE_OPEN); /* to meet the failure */
        }
    }
    if (since_ns && lane == LANE_COMPUTE) executor->stood_ns += clock_ns() - since_ns;
}

/* ---- one operation, all of it ---- */

static void run_op(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    pass_gate(executor, lane->lane, (uint32_t)(op - executor->schedule->ops));
    struct timing timing = {.issued_ns = clock_ns()};
    wait_for_dependencies(executor, op, &timing);
    if (!(op->in_tail && atomic_load(&executor->drop_tail)) && !atomic_load(&executor->broken)) {
        struct op_stat stat = {.healthy = true};
        struct error err = {0};
        take_buffers(executor, op);
        bool healthy = !atomic_load(&executor->failed);
        timing.worked_ns = executor->slow_motion > 1 ? clock_worked_ns() : 0;
        timing.started_ns = clock_ns();
        record_begin(executor, op, &timing);
        if (healthy || op->lane == LANE_COMM) {
            if (executor->host.run(executor->host.user, executor->schedule, op, healthy, &stat, &err))
                break_run(executor, &err);
            if (!stat.healthy) atomic_store(&executor->failed, 1);
        }
        record_io(executor, op, &stat);
        uint64_t paced_ns = healthy ? pace(executor, op, &stat, &timing) : 0;
        record_end(executor, op, &timing, &stat, paced_ns);
        if (executor->host.ended) executor->host.ended(executor->host.user, op, clock_ns() - timing.started_ns);
    }
    give_buffers(executor, op);
    atomic_store_explicit(&lane->done, (uint32_t)(op - executor->schedule->ops) + 1, memory_order_release);
    futex_wake_all(&lane->done);
}

/* ---- lanes ---- */

static void run_lane(struct executor *executor, struct lane_state *lane)
{
    for (int i = 0; i < executor->schedule->op_count; i++)
        if (executor->schedule->ops[i].lane == lane->lane) run_op(executor, lane, &executor->schedule->ops[i]);
    pass_gate(executor, lane->lane, (uint32_t)executor->schedule->op_count);
}

static void *lane_thread(void *argument)
{
    struct lane_state *lane = argument;
    struct executor *executor = lane->executor;
    for (;;) {
        while (atomic_load_explicit(&executor->generation, memory_order_acquire) == lane->seen)
            futex_wait(&executor->generation, lane->seen, 0);
        lane->seen++;
        if (atomic_load(&executor->quit)) return NULL;
        run_lane(executor, lane);
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
    run_lane(executor, &executor->lanes[LANE_COMPUTE]);
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
