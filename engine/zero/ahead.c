/* A lane that runs ahead of its device (executor.h), in two halves with a thread each: one sends operations, one follows their ends.
 * An operation may be sent before its dependencies have ended, because the device keeps the order: within the lane by its stream,
 * between streams by marks. For dependencies between this lane and a lane without a stream, host threads wait for the end.
 *
 * Both halves skip or run the same operations, because the first half decides and the second follows. The decision is final:
 * droppable operations depend on the agreement, directly or through earlier operations, and it runs before it counts as sent. */
#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

static int begin_of(const struct executor *executor, const struct op *op)
{
    return 2 * executor->ops[op_index(executor, op)].place;
}

static int end_of(const struct executor *executor, const struct op *op)
{
    return begin_of(executor, op) + 1;
}

static struct flight *flight_of(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    return &lane->flights[executor->ops[op_index(executor, op)].place];
}

/* ---- the device ---- */

/* A failed device reports an error for every request, also for operations that ended well. So the message does not blame this one. */
static void device_failed(struct executor *executor, const struct op *op, struct error *err)
{
    error_prefix(err, "lane %s, operation %u (%s)%s", lane_name(op->lane), op_index(executor, op), op_name(op->kind, op->use),
                 executor->lanes[op->lane].stream ? " or what was sent after it" : "");
    lane_break(executor, err);
}

/* The device's clock measured the wait, the host's clock the operation. So the wait is cut to the operation's time. */
static void settle(struct executor *executor, struct flight *flight, uint64_t ended_ns)
{
    const struct executor_device *device = &executor->host.device;
    struct comm_stat *stat = &flight->stat.moved;
    struct error err;
    if (!device->settle) return;
    if (device->settle(executor->host.user, flight->op, &flight->stat, &err)) device_failed(executor, flight->op, &err);
    const uint64_t most_ns = ended_ns - flight->started_ns;
    if (stat->peers_ns > most_ns) stat->peers_ns = most_ns;
    if (stat->arrival_ns > stat->peers_ns) stat->arrival_ns = stat->peers_ns;
}

void lane_finish(struct executor *executor, struct flight *flight)
{
    const struct executor_device *device = &executor->host.device;
    struct error err;
    if (device->finish && device->finish(executor->host.user, flight->op, &err))
        device_failed(executor, flight->op, &err);
    if (device->settle) settle(executor, flight, clock_ns());
}

/* ---- sent ---- */

/* Does not wait for an operation that has ended: its mark may already belong to another. */
static int await(struct executor *executor, struct lane_state *lane, struct lane_state *other, int on,
                 struct error *err)
{
    int status = STATUS_OK;
    wait_until_reached(&executor->ops[on].sent);
    pthread_mutex_lock(&other->marks);
    if (!is_reached(&executor->ops[on].done))
        status =
            lane->stream->await(lane->stream->user, other->stream, end_of(executor, &executor->schedule->ops[on]), err);
    pthread_mutex_unlock(&other->marks);
    return status;
}

/* For operations of the host: it reads the mailbox and reports failures, so all earlier operations must have ended. */
static void wait_for_all_before(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    const struct schedule *schedule = executor->schedule;
    int before = (int)op_index(executor, op) - 1; /* of this lane */
    while (before >= 0 && schedule->ops[before].lane != lane->lane) before--;
    if (before >= 0) wait_until_reached(&executor->ops[before].done);
    for (int d = 0; d < op->dependency_count; d++) wait_until_reached(&executor->ops[op->dependency[d].op].done);
}

static int await_dependencies(struct executor *executor, struct lane_state *lane, const struct op *op,
                              struct error *err)
{
    int status = STATUS_OK;
    if (op_is_hosts(op->kind)) wait_for_all_before(executor, lane, op);
    for (int d = 0; d < op->dependency_count && !status; d++) {
        const int on = op->dependency[d].op;
        struct lane_state *other = &executor->lanes[executor->schedule->ops[on].lane];
        if (other == lane) continue;
        if (other->stream) status = await(executor, lane, other, on, err);
        else wait_until_reached(&executor->ops[on].done);
    }
    return status;
}

/* Sends an operation between its two marks. */
static int send(struct executor *executor, struct lane_state *lane, struct flight *flight, struct error *err)
{
    const struct lane_stream *stream = lane->stream;
    int status = stream->mark(stream->user, begin_of(executor, flight->op), err);
    if (status) return status;
    lane_work(executor, flight, !atomic_load(&executor->failed));
    pthread_mutex_lock(&lane->marks);
    status = stream->mark(stream->user, end_of(executor, flight->op), err);
    pthread_mutex_unlock(&lane->marks);
    return status;
}

static void send_op(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    struct flight *flight = flight_of(executor, lane, op);
    struct error err;
    if (flight->op) wait_until_reached(&executor->ops[op_index(executor, flight->op)].done);
    *flight = (struct flight){.op = op, .stat.moved.healthy = true, .waited_on = -1};
    int status = await_dependencies(executor, lane, op, &err);
    flight->skipped = lane_skips(executor, op);
    if (!status && !flight->skipped) status = send(executor, lane, flight, &err);
    if (status) {
        flight->skipped = true;
        device_failed(executor, op, &err);
    }
    say_reached(&executor->ops[op_index(executor, op)].sent);
}

void lane_send(struct executor *executor, struct lane_state *lane)
{
    for (int i = 0; i < executor->schedule->op_count; i++)
        if (executor->schedule->ops[i].lane == lane->lane) send_op(executor, lane, &executor->schedule->ops[i]);
}

/* ---- ended ---- */

/* The operation was issued when its predecessor on the lane ended, and waited for each dependency that ended later. */
static void meet_dependencies(struct executor *executor, const struct lane_state *lane, struct flight *flight)
{
    flight->issued_ns = flight->ready_ns = lane->ended_ns;
    for (int d = 0; d < flight->op->dependency_count; d++) {
        const int on = flight->op->dependency[d].op;
        wait_until_reached(&executor->ops[on].done);
        if (executor->ops[on].ended_ns <= flight->ready_ns) continue;
        flight->ready_ns = executor->ops[on].ended_ns;
        flight->waited_on = on;
    }
}

/* The time at which the device reached the mark. Its clock differs a little, so the time is cut to [least_ns, now]. */
static uint64_t reach(struct executor *executor, struct lane_state *lane, const struct op *op, int mark,
                      uint64_t least_ns)
{
    struct error err;
    uint64_t at_ns = UINT64_MAX;
    if (lane->stream->reach(lane->stream->user, mark, &at_ns, &err)) device_failed(executor, op, &err);
    const uint64_t now_ns = clock_ns();
    if (at_ns > now_ns) at_ns = now_ns;
    return at_ns < least_ns ? least_ns : at_ns;
}

static uint64_t follow(struct executor *executor, struct lane_state *lane, struct flight *flight)
{
    const struct op *op = flight->op;
    flight->started_ns = reach(executor, lane, op, begin_of(executor, op), flight->ready_ns);
    lane_take(executor, op, flight->started_ns);
    executor_record_begin(executor, flight);
    const uint64_t ended_ns = reach(executor, lane, op, end_of(executor, op), flight->started_ns);
    settle(executor, flight, ended_ns);
    executor_record_end(executor, flight, ended_ns, 0);
    executor_tell_ended(executor, flight, ended_ns - flight->started_ns);
    return ended_ns;
}

static void end_op(struct executor *executor, struct lane_state *lane, const struct op *op)
{
    struct flight *flight = flight_of(executor, lane, op);
    wait_until_reached(&executor->ops[op_index(executor, op)].sent);
    meet_dependencies(executor, lane, flight);
    const uint64_t ended_ns = flight->skipped ? flight->ready_ns : follow(executor, lane, flight);
    lane_conclude(executor, lane, op, ended_ns, ended_ns);
}

void lane_end(struct executor *executor, struct lane_state *lane)
{
    if (!lane->stream) return;
    for (int i = 0; i < executor->schedule->op_count; i++)
        if (executor->schedule->ops[i].lane == lane->lane) end_op(executor, lane, &executor->schedule->ops[i]);
}
