/* The executor's trace records of an operation, on the ring of its lane. */
#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

static void emit(const struct executor *executor, const struct flight *flight, const struct trace_record *record)
{
    trace_emit(executor->host.rings[flight->op->lane], record);
}

void executor_record_begin(const struct executor *executor, const struct flight *flight)
{
    struct trace_record record = {.kind = TRACE_OP_BEGIN, .rank = executor->host.rank, .time_ns = flight->started_ns};
    record.op_begin = (struct trace_of_op_begin){executor->number, executor->step, op_number(executor, flight->op),
                                                 flight->issued_ns};
    emit(executor, flight, &record);
}

void executor_record_end(const struct executor *executor, const struct flight *flight, uint64_t ended_ns,
                         uint64_t paced_ns)
{
    const uint64_t *sent_bytes = flight->stat.sent_bytes;
    struct trace_record record = {.kind = TRACE_OP_END, .rank = executor->host.rank, .time_ns = ended_ns};
    record.op_end = (struct trace_of_op_end){.schedule = executor->number,
                                             .step = executor->step,
                                             .op = op_number(executor, flight->op),
                                             .issued_ns = flight->issued_ns,
                                             .ready_ns = flight->ready_ns,
                                             .started_ns = flight->started_ns,
                                             .waited_on = flight->waited_on,
                                             .peers_ns = flight->stat.peers_ns,
                                             .paced_ns = paced_ns,
                                             .sent_bytes = sent_bytes[LINK_INTRA] + sent_bytes[LINK_INTER] +
                                                           sent_bytes[LINK_PCIE] + sent_bytes[LINK_NVME]};
    emit(executor, flight, &record);
}

void executor_record_io(const struct executor *executor, const struct flight *flight)
{
    const struct op_stat *stat = &flight->stat;
    if (stat->io.blocks == 0) return;
    struct trace_record record = {.kind = TRACE_IO, .rank = executor->host.rank, .time_ns = clock_ns()};
    record.io = (struct trace_of_io){.schedule = executor->number,
                                     .step = executor->step,
                                     .op = op_number(executor, flight->op),
                                     .direct = stat->io_direct,
                                     .requests = (uint32_t)stat->io.blocks,
                                     .bytes = stat->io.bytes,
                                     .busy_ns = stat->io.busy_ns,
                                     .latency_ns = stat->io.latency_ns,
                                     .longest_ns = stat->io.longest_ns,
                                     .deepest = stat->io.deepest};
    emit(executor, flight, &record);
}
