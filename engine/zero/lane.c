/* Runs one operation on its lane: waits for the gate and the dependencies, takes buffers, runs, and gives buffers back. */
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

/* ---- the gate (engine/base/gate.h): stepping by operations, and a held rank ---- */

static const uint64_t look_ns = 200000000;

/* Waits until this rank has finished all operations before the limit, on its other lanes too. */
static void finish_before(struct executor *executor, uint32_t limit)
{
    const struct schedule *schedule = executor->schedule;
    bool settled[LANES] = {false};
    for (int lane = 0; lane < LANES; lane++) settled[lane] = is_callers(executor, (enum lane)lane);
    for (int i = (int)limit < schedule->op_count ? (int)limit - 1 : schedule->op_count - 1; i >= 0; i--) {
        const enum lane lane = schedule->ops[i].lane;
        if (settled[lane]) continue; /* lanes are in order, so waiting for the last is enough */
        settled[lane] = true;
        wait_until_reached(&executor->ops[i].done);
    }
}

static void pass_gate(struct executor *executor, enum lane lane, uint32_t number)
{
    const struct executor_host *host = &executor->host;
    const uint64_t since_ns = gate_lets(host->gate, number) ? 0 : clock_ns();
    for (uint32_t limit; number >= (limit = gate_limit(host->gate));) {
        if (is_callers(executor, lane) && host->at_gate) {
            finish_before(executor, limit);
            if (gate_limit(host->gate) == limit) host->at_gate(host->gate_user, executor->schedule, limit);
        } else {
            bool watches = lane == LANE_COMM && host->alive;
            gate_wait(host->gate, number, watches ? look_ns : 0);
            if (watches && !host->alive(host->user)) gate_raise(host->gate, GATE_OPEN); /* so that lanes find the failure */
        }
    }
    if (since_ns && is_callers(executor, lane)) executor->gate_ns += clock_ns() - since_ns;
}

/* The first lane that stands reports it; the first that goes on reports that. */
static void stand_held(struct executor *executor, enum lane lane, uint32_t number)
{
    const struct executor_host *host = &executor->host;
    const bool watches = lane == LANE_COMM && host->alive;
    while (gate_holds(host->gate, host->rank)) {
        if (!atomic_exchange(&executor->is_held, 1) && host->held)
            host->held(host->user, executor->schedule, lane, number, true);
        gate_wait_held(host->gate, host->rank, watches ? look_ns : 0);
        if (watches && !host->alive(host->user)) gate_hold(host->gate, -1);
    }
    if (atomic_exchange(&executor->is_held, 0) && host->held)
        host->held(host->user, executor->schedule, lane, number, false);
}

/* ---- dependencies, and failure ---- */

static void wait_for_dependencies(struct executor *executor, struct flight *flight)
{
    const struct op *op = flight->op;
    flight->waited_on = -1;
    for (int d = 0; d < op->dependency_count; d++) {
        const int on = op->dependency[d].op;
        if (wait_until_reached(&executor->ops[on].done)) flight->waited_on = on;
    }
    flight->ready_ns = clock_ns();
}

void lane_break(struct executor *executor, const struct error *err)
{
    if (atomic_exchange(&executor->broken, 1)) return;
    executor->error = *err;
    executor->status = err->status;
    gate_raise(executor->host.gate, GATE_OPEN);
    gate_hold(executor->host.gate, -1);
    if (executor->host.device.broke) executor->host.device.broke(executor->host.user, err);
}

/* ---- memory ---- */

struct zero_shortage take_failure_of(const struct memory *memory, int op, const struct buffer *buffer,
                                     const struct error *why)
{
    struct zero_shortage failure = {.failed = true,
                                    .op = op,
                                    .tier = buffer->tier,
                                    .category = buffer->category,
                                    .wanted_bytes = (uint64_t)buffer->bytes};
    memory_snapshot(memory, &failure.memory);
    failure.budget_bytes = failure.memory.budget_bytes[buffer->tier];
    snprintf(failure.text, sizeof failure.text, "%.255s", why->text);
    return failure;
}

/* After the agreement a step cannot be dropped; zero_update_fits() has checked before that the update fits. */
static void take_failed(struct executor *executor, const struct op *op, const struct buffer *buffer, struct error *err)
{
    const int number = (int)op_index(executor, op);
    if (number > executor->agreement) {
        error_prefix(err, "step %u, in the midst of the update, whose state is lost", executor->step);
        lane_break(executor, err);
        return;
    }
    if (atomic_exchange(&executor->failed, 1)) return;
    executor->take = take_failure_of(executor->host.memory, number, buffer, err);
}

void lane_take(struct executor *executor, const struct op *op, uint64_t when_ns)
{
    const struct schedule *schedule = executor->schedule;
    for (int t = 0; t < op->take_count && !atomic_load(&executor->failed) && !atomic_load(&executor->broken); t++) {
        int b = schedule->effects[op->first_take + t];
        const struct buffer *buffer = &schedule->buffers[b];
        struct error err;
        if (memory_take_at(executor->host.memory, when_ns, buffer->tier, buffer->category, buffer->offset,
                           (uint64_t)buffer->bytes, &err))
            take_failed(executor, op, buffer, &err);
        else executor->held[b] = 1;
    }
}

static void give_buffers(struct executor *executor, const struct op *op, uint64_t when_ns)
{
    for (int g = 0; g < op->give_count; g++) {
        int b = executor->schedule->effects[op->first_give + g];
        const struct buffer *buffer = &executor->schedule->buffers[b];
        if (!executor->held[b]) continue; /* its take failed */
        memory_give_at(executor->host.memory, when_ns, buffer->tier, buffer->category, buffer->offset,
                       (uint64_t)buffer->bytes);
        executor->held[b] = 0;
    }
}

/* ---- one operation, all of it ---- */

bool lane_skips(struct executor *executor, const struct op *op)
{
    return (op->droppable && atomic_load(&executor->drop_rest)) || atomic_load(&executor->broken);
}

void lane_work(struct executor *executor, struct flight *flight, bool healthy)
{
    struct error err = {0};
    if (!healthy && flight->op->lane != LANE_COMM) return;
    if (executor->host.run(executor->host.user, executor->schedule, flight->op, healthy, &flight->stat, &err))
        lane_break(executor, &err);
    if (!flight->stat.moved.healthy) atomic_store(&executor->failed, 1);
}

/* Returns the time at which it ended. */
static uint64_t run_and_record(struct executor *executor, struct flight *flight)
{
    lane_take(executor, flight->op, 0);
    const bool healthy = !atomic_load(&executor->failed);
    flight->worked_ns = executor->slow_motion > 1 ? clock_worked_ns() : 0;
    flight->started_ns = clock_ns();
    executor_record_begin(executor, flight);
    lane_work(executor, flight, healthy);
    lane_finish(executor, flight);
    executor_record_io(executor, flight);
    const uint64_t paced_ns = healthy ? executor_pace(executor, flight) : 0, ended_ns = clock_ns();
    executor_record_end(executor, flight, ended_ns, paced_ns);
    executor_tell_ended(executor, flight, ended_ns - flight->started_ns);
    return ended_ns;
}

void lane_conclude(struct executor *executor, struct lane_state *lane, const struct op *op, uint64_t ended_ns,
                   uint64_t when_ns)
{
    const uint32_t number = op_index(executor, op);
    give_buffers(executor, op, when_ns);
    executor->ops[number].ended_ns = lane->ended_ns = ended_ns;
    say_reached(&executor->ops[number].done);
}

static void lane_run_op(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    pass_gate(executor, lane->lane, op_index(executor, op));
    if (gate_holds(executor->host.gate, executor->host.rank)) stand_held(executor, lane->lane, op_index(executor, op));
    struct flight flight = {.op = op, .stat.moved.healthy = true, .issued_ns = clock_ns()};
    wait_for_dependencies(executor, &flight);
    lane_conclude(executor, lane, op, lane_skips(executor, op) ? clock_ns() : run_and_record(executor, &flight), 0);
}

void lane_run(struct executor *executor, struct lane_state *lane)
{
    if (lane->stream) return lane_send(executor, lane);
    for (int i = 0; i < executor->schedule->op_count; i++) {
        const struct op *op = &executor->schedule->ops[i];
        const bool also = lane->lane == LANE_COMPUTE && is_callers(executor, op->lane);
        if (op->lane == lane->lane || also) lane_run_op(executor, &executor->lanes[op->lane], op);
    }
    pass_gate(executor, lane->lane, (uint32_t)executor->schedule->op_count);
}
