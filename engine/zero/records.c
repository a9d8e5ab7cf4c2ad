/* Writes a rank's trace records: schedules on the ring of schedules, changes of memory on the memory ring, operations on the ring of
 * their lane; steps, traffic and the rest of the plan on the control ring. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/plan/schedule_io.h"
#include "engine/zero/executor_parts.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

static struct trace_record record_of(const struct zero *zero, enum trace_kind kind)
{
    return (struct trace_record){.kind = kind, .rank = (uint16_t)zero->rank, .time_ns = clock_ns()};
}

static void emit(struct zero *zero, const struct trace_record *record)
{
    trace_emit(zero->trace.rings[ZERO_RING_CONTROL], record);
}

/* Called under the allocator's lock, so this ring has one writer at a time. */
void zero_record_memory(void *user, uint64_t when_ns, enum tier tier, enum category category,
                        const struct memory_count *count)
{
    struct zero *zero = user;
    atomic_store_explicit(&zero->trace.held[tier][category], true, memory_order_relaxed);
    if (!zero->trace.rings[ZERO_RING_MEMORY]) return;
    struct trace_record record = record_of(zero, TRACE_MEMORY);
    if (when_ns) record.time_ns = when_ns;
    if (record.time_ns < zero->trace.memory_ns)
        record.time_ns = zero->trace.memory_ns; /* lanes that run ahead report late */
    zero->trace.memory_ns = record.time_ns;
    record.memory = (struct trace_of_memory){(uint8_t)tier, (uint8_t)category, count->live_bytes, count->reserved_bytes,
                                             count->peak_bytes};
    trace_emit(zero->trace.rings[ZERO_RING_MEMORY], &record);
}

void zero_record_quantized(struct zero *zero, const struct piece *piece, bool gradient, int64_t elems,
                           const struct quantize_error *error)
{
    struct trace_record record = record_of(zero, TRACE_QUANTIZED);
    if (!elems) return;
    record.quantized = (struct trace_of_quantized){
        (uint32_t)zero->progress.steps_done + 1, (uint32_t)piece->unit, gradient,       (uint64_t)elems,
        (uint64_t)error->not_finite,        error->largest,        error->squares, error->of_squares};
    trace_emit(zero->trace.rings[LANE_COMPUTE], &record);
}

void zero_log(const struct zero *zero, int ring, const char *text)
{
    struct trace_record record = record_of(zero, TRACE_LOG);
    record.log = (struct trace_of_log){.level = 1, .text = {text, strlen(text)}};
    trace_emit(zero->trace.rings[ring], &record);
}

void zero_record_held(void *user, const struct schedule *schedule, enum lane lane, uint32_t next, bool is_held)
{
    const struct zero *zero = user;
    char what[64], said[160];
    op_describe(what, sizeof what, &schedule->ops[next], &zero->model);
    if (is_held)
        snprintf(said, sizeof said, "injected: rank %d is held before operation %u, %s", zero->rank, next, what);
    else snprintf(said, sizeof said, "injected fault ended: rank %d is released", zero->rank);
    cJSON *json = json_object(TEXT("kind", "fault"));
    cJSON_AddItemToObject(
        json, "detail",
        json_object(TEXT("text", said), TEXT("fault", is_held ? "held" : "none"), NUMBER("rank", zero->rank)));
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    struct trace_record record = record_of(zero, TRACE_EVENT);
    record.event = (struct trace_of_event){(uint32_t)zero->progress.steps_done + 1, {text, text ? strlen(text) : 0}};
    if (text) trace_emit(zero->trace.rings[lane], &record);
    free(text);
}

void zero_record_budgets(struct zero *zero)
{
    struct memory_snapshot snapshot;
    memory_snapshot(zero->memory, &snapshot);
    for (int tier = 0; tier < TIERS; tier++) {
        struct trace_record record = record_of(zero, TRACE_BUDGET);
        record.budget = (struct trace_of_budget){(uint8_t)tier, snapshot.budget_bytes[tier]};
        emit(zero, &record);
    }
}

static void emit_here(void *user, struct trace_record *record)
{
    struct zero *zero = user;
    record->rank = (uint16_t)zero->rank;
    record->time_ns = clock_ns();
    emit(zero, record);
}

static void emit_schedule(void *user, struct trace_record *record)
{
    const struct zero *zero = user;
    record->time_ns = clock_ns();
    trace_emit(zero->trace.rings[ZERO_RING_SCHEDULES], record);
}

void zero_record_plan(struct zero *zero)
{
    if (!zero->trace.rings[ZERO_RING_CONTROL]) return;
    const struct record_output output = {emit_here, zero}, schedules = {emit_schedule, zero};
    /* Training last: of the two training schedules, readers keep the usual one. */
    for (int which = SCHEDULES - 1; which >= 0; which--) {
        const struct planned_step step = {&zero->plan.schedules[which], &zero->model,
                                          zero->plan.number + (uint32_t)which};
        if (step.schedule->op_count == 0) continue;
        if (zero->rank == 0) records_of_schedule(&step, &schedules);
        if (which != PURPOSE_TRAIN && which != SCHEDULE_NOTHING_PENDING) continue;
        records_of_traffic(&step, zero->rank, comm_layout(zero->comm)->ranks_per_node, &output); /* differs by rank */
        if (zero->rank == 0) records_of_memory(&step, &output);
    }
    zero_record_budgets(zero);
}

/* Peaks are recorded only when they change, so new rings need all of them once. */
void zero_set_rings(struct zero *zero, struct trace_ring *const rings[ZERO_RINGS], bool anew)
{
    static struct trace_ring *const nobody[ZERO_RINGS];
    memcpy(zero->trace.rings, rings ? rings : nobody, sizeof zero->trace.rings);
    memset(zero->trace.peak_bytes, 0, sizeof zero->trace.peak_bytes);
    if (anew) zero_record_plan(zero);
}

/* Records every category that ever held bytes, also empty ones, because their peaks may have been reset. */
static void record_holdings(struct zero *zero, const struct memory_snapshot *snapshot)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int c = 0; c < CATEGORIES; c++) {
            const struct memory_count *count = &snapshot->category[tier][c];
            if (!atomic_load_explicit(&zero->trace.held[tier][c], memory_order_relaxed)) continue;
            struct trace_record record = record_of(zero, TRACE_MEMORY);
            record.memory = (struct trace_of_memory){(uint8_t)tier, (uint8_t)c, count->live_bytes,
                                                     count->reserved_bytes, count->peak_bytes};
            emit(zero, &record);
        }
}

void zero_record_step_begin(struct zero *zero, uint32_t schedule)
{
    struct memory_snapshot snapshot;
    if (!zero->trace.rings[ZERO_RING_CONTROL]) return;
    struct trace_record record = record_of(zero, TRACE_STEP_BEGIN);
    record.step_begin = (struct trace_of_step_begin){(uint32_t)zero->progress.steps_done + 1, schedule,
                                                     (uint8_t)zero->plan.schedules[PURPOSE_TRAIN].stage};
    emit(zero, &record);
    memory_snapshot(zero->memory, &snapshot);
    record_holdings(zero, &snapshot);
}

void zero_record_step_end(struct zero *zero, const struct zero_result *result, uint32_t number, uint64_t paused_ns)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    if (!zero->trace.rings[ZERO_RING_CONTROL]) return;
    records_of_sent(zero->trace.traffic, (uint32_t)result->step, &(struct record_output){emit_here, zero});
    struct memory_snapshot snapshot;
    memory_snapshot(zero->memory, &snapshot);
    record_holdings(zero, &snapshot);
    records_of_peaks(&snapshot, zero->trace.peak_bytes, &(struct record_output){emit_here, zero});
    struct trace_record record = record_of(zero, TRACE_STEP_END);
    record.step_end = (struct trace_of_step_end){
        .step = (uint32_t)result->step,
        .schedule = number,
        .stage = (uint8_t)schedule->stage,
        .skipped = result->outcome != ZERO_DONE || result->skipped,
        .loss = result->loss,
        .grad_norm = result->grad_norm,
        .learning_rate = result->learning_rate,
        .loss_scale = (float)result->loss_scale,
        .tokens = (uint32_t)(schedule->B * schedule->T * schedule->micro_steps * zero->ranks),
        .micro_steps = (uint32_t)schedule->micro_steps,
        .total_ns = result->total_ns,
        .paused_ns = paused_ns};
    emit(zero, &record);
}

/* ---- operations, on the ring of their lane ---- */

static void emit_op(const struct executor *executor, const struct flight *flight, const struct trace_record *record)
{
    trace_emit(executor->host.rings[flight->op->lane], record);
}

void executor_record_begin(const struct executor *executor, const struct flight *flight)
{
    struct trace_record record = {.kind = TRACE_OP_BEGIN, .rank = executor->host.rank, .time_ns = flight->started_ns};
    record.op_begin = (struct trace_of_op_begin){executor->number, executor->step, op_index(executor, flight->op),
                                                 flight->issued_ns};
    emit_op(executor, flight, &record);
}

void executor_record_end(const struct executor *executor, const struct flight *flight, uint64_t ended_ns,
                         uint64_t paced_ns)
{
    const uint64_t *sent_bytes = flight->stat.moved.sent_bytes;
    struct trace_record record = {.kind = TRACE_OP_END, .rank = executor->host.rank, .time_ns = ended_ns};
    record.op_end = (struct trace_of_op_end){.schedule = executor->number,
                                             .step = executor->step,
                                             .op = op_index(executor, flight->op),
                                             .issued_ns = flight->issued_ns,
                                             .ready_ns = flight->ready_ns,
                                             .started_ns = flight->started_ns,
                                             .waited_on = flight->waited_on,
                                             .peers_ns = flight->stat.moved.peers_ns,
                                             .paced_ns = paced_ns,
                                             .sent_bytes = sent_bytes[LINK_INTRA] + sent_bytes[LINK_INTER] +
                                                           sent_bytes[LINK_PCIE] + sent_bytes[LINK_NVME]};
    emit_op(executor, flight, &record);
}

void executor_record_io(const struct executor *executor, const struct flight *flight)
{
    const struct op_stat *stat = &flight->stat;
    if (stat->io.blocks == 0) return;
    struct trace_record record = {.kind = TRACE_IO, .rank = executor->host.rank, .time_ns = clock_ns()};
    record.io = (struct trace_of_io){.schedule = executor->number,
                                     .step = executor->step,
                                     .op = op_index(executor, flight->op),
                                     .direct = stat->io_direct,
                                     .requests = (uint32_t)stat->io.blocks,
                                     .bytes = stat->io.bytes,
                                     .busy_ns = stat->io.busy_ns,
                                     .latency_ns = stat->io.latency_ns,
                                     .longest_ns = stat->io.longest_ns,
                                     .deepest = stat->io.deepest};
    emit_op(executor, flight, &record);
}
