/* Where the time of a step goes, as it is folded: operations of the compute lane by phase, and exposed communication, by the
 * definition of totals.h: the communication lane works and the compute lane does not; of copies between tiers the same, by kind.
 * What is left of the step is neither: starting, bookkeeping, waiting while nothing moves. */
#include <string.h>

#include "engine/observe/fold.h"
#include "engine/plan/footprint.h"

void timing_begin_step(struct run_rank *rank, uint32_t step, uint64_t time_ns)
{
    uint32_t attempt = rank->open.step == step ? rank->open.attempt + 1 : 0;
    memset(&rank->open, 0, sizeof rank->open);
    memset(rank->lane, 0, sizeof rank->lane); /* nothing of this attempt has begun */
    rank->open.begun = true;
    rank->open.step = step;
    rank->open.attempt = attempt;
    rank->open.idle_since_ns = rank->open.io_since_ns = rank->open.observed_since_ns = time_ns;
}

bool timing_end_step(struct run_rank *rank, uint32_t step, struct run_split *split)
{
    bool whole =
        rank->open.begun && !rank->open.lost && !rank->open.unplaced && rank->open.step == step && rank->open.computed;
    if (whole) *split = rank->open.split;
    rank->open.begun = false;
    rank->open.step = step; /* also if its beginning was not seen */
    return whole;
}

/* Adds the time until now in which lanes were busy and compute was not. */
static void expose_until(struct run_rank *rank, uint64_t now_ns, bool busy, uint64_t *since_ns, uint64_t *exposed_ns)
{
    if (!rank->open.begun || now_ns <= *since_ns) return;
    if (busy && !rank->lane[LANE_COMPUTE].busy) *exposed_ns += now_ns - *since_ns;
    *since_ns = now_ns;
}

/* NVMe is read and written at the same time; communication of another program is on several lanes. */
static void expose_several(struct run_rank *rank, uint32_t schedule, uint64_t now_ns)
{
    const struct run_lane *lane = rank->lane;
    const bool io = lane[LANE_NVME_READ].busy || lane[LANE_NVME_WRITE].busy;
    const bool moves = lane[LANE_COMM].busy || lane[LANE_COMM_2].busy || lane[LANE_COMM_3].busy;
    expose_until(rank, now_ns, io, &rank->open.io_since_ns, &rank->open.split.io_exposed_ns);
    if (schedule != TRACE_OBSERVED) return;
    expose_until(rank, now_ns, moves, &rank->open.observed_since_ns, &rank->open.split.exposed_ns);
}

/* An operation of another lane ran from `from_ns` until now; before `idle_since_ns` compute went on beside it. */
static void expose(struct run_rank *rank, const struct op *op, bool observed, uint64_t from_ns, uint64_t now_ns)
{
    if (from_ns < rank->open.idle_since_ns) from_ns = rank->open.idle_since_ns;
    if (now_ns <= from_ns) return;
    if (op->kind == OP_HOST_WORK || lane_kind(op->lane) == LANE_COMPUTE) return;
    if (op->lane == LANE_HOST) {
        rank->open.split.host_exposed_ns += now_ns - from_ns;
        return;
    }
    rank->open.split.exposed_by_ns[traffic_of_op(op->kind)] += now_ns - from_ns;
    if (op->lane == LANE_COMM && !observed) rank->open.split.exposed_ns += now_ns - from_ns;
}

/* What runs on the other lanes was exposed until now, and is hidden from now on. */
static void compute_begins(struct run_model *model, struct run_rank *rank, uint64_t now_ns)
{
    for (int lane = 0; lane < LANES; lane++) {
        const struct run_lane *other = &rank->lane[lane];
        const struct op *op = lane != LANE_COMPUTE && other->busy
                                  ? run_op(run_schedule_numbered(model, other->schedule), other->op)
                                  : NULL;
        if (op) expose(rank, op, other->schedule == TRACE_OBSERVED, other->started_ns, now_ns);
    }
}

void fold_op_begin(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_op_begin *from = &record->op_begin;
    struct run_rank *rank = model_rank(model, record->rank);
    const struct op *op = run_op(run_schedule_numbered(model, from->schedule), from->op);
    if (!rank || !op) return;
    expose_several(rank, from->schedule, record->time_ns);
    /* An evaluation runs its schedule for one batch after the other, under one step number. */
    const struct run_lane *last = &rank->lane[op->lane];
    const bool again =
        last->started_ns && last->schedule == from->schedule && last->step == from->step && from->op <= last->op;
    if (again && from->schedule != TRACE_OBSERVED) memset(rank->lane, 0, sizeof rank->lane);
    if (op->lane == LANE_COMPUTE) compute_begins(model, rank, record->time_ns);
    rank->lane[op->lane] =
        (struct run_lane){true, from->schedule, from->step, from->op, from->issued_ns, record->time_ns};
}

void fold_op_end(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_op_end *from = &record->op_end;
    struct run_rank *rank = model_rank(model, record->rank);
    if (!rank) return;
    const struct run_schedule *schedule = run_schedule_numbered(model, from->schedule);
    const struct op *op = run_op(schedule, from->op);
    if (!op || record->time_ns < from->started_ns) {
        if (schedule && schedule->has_ops) rank->open.lost = true;
        else rank->open.unplaced = true;
        return;
    }
    expose_several(rank, from->schedule, record->time_ns);
    rank->lane[op->lane] =
        (struct run_lane){false, from->schedule, from->step, from->op, from->issued_ns, from->started_ns};
    if (schedule->purpose != PURPOSE_TRAIN || !rank->open.begun || rank->open.step != from->step) return;
    rank->open.finished++;
    if (traffic_is_copy(op_traffic(op->kind))) flows_add(rank, op, record);
    if (op->lane == LANE_HOST && op->kind != OP_HOST_WORK) rank->open.split.host_ns += record->time_ns - from->started_ns;
    if (op->lane == LANE_COMPUTE) {
        rank->open.split.phase_ns[op->phase] += record->time_ns - from->started_ns;
        rank->open.computed = true;
        rank->open.idle_since_ns = record->time_ns;
    } else if (!rank->lane[LANE_COMPUTE].busy) {
        expose(rank, op, from->schedule == TRACE_OBSERVED, from->started_ns, record->time_ns);
    }
}
