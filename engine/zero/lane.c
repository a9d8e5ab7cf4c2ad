/* One operation on its lane: it passes the gate, waits for what it depends on, takes its buffers, runs, and gives back. */
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

static void wait_for_dependencies(struct executor *executor, struct flight *flight)
{
    const struct op *op = flight->op;
    flight->waited_on = -1;
    for (int d = 0; d < op->dependency_count; d++) {
        const int on = op->dependency[d].op;
        if (wait_until_past(&executor->lanes[executor->schedule->ops[on].lane].done, (uint32_t)on))
            flight->waited_on = on;
    }
    flight->ready_ns = clock_ns();
}

static void break_run(struct executor *executor, const struct error *err)
{
    if (atomic_exchange(&executor->broken, 1)) return;
    executor->error = *err;
    executor->status = err->status;
    gate_raise(executor->host.gate, GATE_OPEN);
}

/* ---- memory ---- */

/* Below the agreement it is too late to give the step up; that the budget suffices was foreseen. */
static void take_failed(struct executor *executor, const struct op *op, const struct buffer *buffer, struct error *err)
{
    const int number = (int)op_number(executor, op);
    if (number > executor->agreement) {
        error_prefix(err, "step %u, in the midst of the update, whose state is lost", executor->step);
        break_run(executor, err);
        return;
    }
    if (atomic_exchange(&executor->failed, 1)) return;
    executor->take = (struct take_failure){.failed = true,
                                           .op = number,
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

/* ---- one operation, all of it ---- */

static bool is_skipped(struct executor *executor, const struct op *op)
{
    return (op->in_tail && atomic_load(&executor->drop_tail)) || atomic_load(&executor->broken);
}

static void work(struct executor *executor, struct flight *flight, bool healthy)
{
    struct error err = {0};
    if (!healthy && flight->op->lane != LANE_COMM) return;
    if (executor->host.run(executor->host.user, executor->schedule, flight->op, healthy, &flight->stat, &err))
        break_run(executor, &err);
    if (!flight->stat.healthy) atomic_store(&executor->failed, 1);
}

static void carry_out(struct executor *executor, struct flight *flight)
{
    take_buffers(executor, flight->op);
    const bool healthy = !atomic_load(&executor->failed);
    flight->worked_ns = executor->slow_motion > 1 ? clock_worked_ns() : 0;
    flight->started_ns = clock_ns();
    executor_record_begin(executor, flight);
    work(executor, flight, healthy);
    executor_record_io(executor, flight);
    const uint64_t paced_ns = healthy ? executor_pace(executor, flight) : 0, ended_ns = clock_ns();
    executor_record_end(executor, flight, ended_ns, paced_ns);
    if (executor->host.ended) executor->host.ended(executor->host.user, flight->op, ended_ns - flight->started_ns);
}

static void run_op(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    executor_pass_gate(executor, lane->lane, op_number(executor, op));
    struct flight flight = {.op = op, .stat = {.healthy = true}, .issued_ns = clock_ns()};
    wait_for_dependencies(executor, &flight);
    if (!is_skipped(executor, op)) carry_out(executor, &flight);
    give_buffers(executor, op);
    atomic_store_explicit(&lane->done, op_number(executor, op) + 1, memory_order_release);
    futex_wake_all(&lane->done);
}

void lane_run(struct executor *executor, struct lane_state *lane)
{
    for (int i = 0; i < executor->schedule->op_count; i++)
        if (executor->schedule->ops[i].lane == lane->lane) run_op(executor, lane, &executor->schedule->ops[i]);
    executor_pass_gate(executor, lane->lane, (uint32_t)executor->schedule->op_count);
}
