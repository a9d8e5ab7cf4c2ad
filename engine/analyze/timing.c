/* Where the time of a step goes, seen from the compute lane of each rank: its operations by phase; the time it stood
 * waiting for an operation of another lane (exposed communication); and the tail, when it was done and others were not.
 * What is left of the step is neither: starting, bookkeeping, waiting for its own lane's memory. */
#include <string.h>

#include "engine/analyze/fold.h"

enum traffic traffic_of_op(enum op_kind kind)
{
    switch (kind) {
    case OP_GATHER:
    case OP_REFRESH: return TRAFFIC_ALL_GATHER;
    case OP_REDUCE_SCATTER: return TRAFFIC_REDUCE_SCATTER;
    case OP_ALL_REDUCE: return TRAFFIC_ALL_REDUCE;
    default: return TRAFFIC_CONTROL;
    }
}

void split_add(struct run_split *sum, const struct run_split *split)
{
    for (int phase = 0; phase < PHASES; phase++) sum->phase_ns[phase] += split->phase_ns[phase];
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) sum->exposed_by_ns[kind] += split->exposed_by_ns[kind];
    sum->exposed_ns += split->exposed_ns;
}

void timing_begin_step(struct run_rank *rank, uint32_t step, uint64_t time_ns)
{
    uint32_t attempt = rank->open.step == step ? rank->open.attempt + 1 : 0;
    memset(&rank->open, 0, sizeof rank->open);
    memset(rank->lane, 0, sizeof rank->lane); /* nothing of this attempt has begun */
    rank->open.begun = true;
    rank->open.step = step;
    rank->open.attempt = attempt;
    rank->open.idle_since_ns = rank->open.covered_ns = time_ns;
}

bool timing_end_step(struct run_rank *rank, uint32_t step, struct run_split *split)
{
    bool whole = rank->open.begun && !rank->open.lost && rank->open.step == step && rank->open.computed;
    if (whole) {
        *split = rank->open.split;
        for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
            split->exposed_ns += rank->open.beside_ns[kind];
            split->exposed_by_ns[kind] += rank->open.beside_ns[kind];
        }
    }
    rank->open.begun = false;
    rank->open.step = step; /* also if its beginning was not seen */
    return whole;
}

static const struct op *find_op(const struct run_schedule *schedule, int64_t number)
{
    if (!schedule || !schedule->has_ops || number < 0 || number >= schedule->ops.op_count) return NULL;
    return &schedule->ops.ops[number];
}

/* An evaluation runs its schedule for one batch after the other, under one step number. */
static bool begins_again(const struct run_lane *last, const struct trace_of_op_begin *from)
{
    return last->started_ns && last->schedule == from->schedule && last->step == from->step && from->op <= last->op;
}

void fold_op_begin(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_op_begin *from = &record->op_begin;
    struct run_rank *rank = model_rank(model, record->rank);
    const struct op *op = find_op(run_schedule_numbered(model, from->schedule), from->op);
    if (!rank || !op) return;
    if (begins_again(&rank->lane[op->lane], from)) memset(rank->lane, 0, sizeof rank->lane);
    rank->lane[op->lane] =
        (struct run_lane){true, from->schedule, from->step, from->op, from->issued_ns, record->time_ns};
    if (op->lane == LANE_COMPUTE) memcpy(rank->open.awaited_ns, rank->open.beside_ns, sizeof rank->open.awaited_ns);
}

/* A wait belongs to the operations that the other lanes ran meanwhile, each by its share; what rounding leaves, and waits
 * in which nothing was seen to run, to the operation that was awaited. */
static void waited(struct run_rank *rank, uint64_t wait_ns, enum traffic awaited)
{
    uint64_t seen_ns = 0, left_ns = wait_ns;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) seen_ns += rank->open.awaited_ns[kind];
    for (int kind = 0; seen_ns && kind < TRAFFIC_KINDS; kind++) {
        uint64_t share_ns = (uint64_t)((double)wait_ns * (double)rank->open.awaited_ns[kind] / (double)seen_ns);
        if (share_ns > left_ns) share_ns = left_ns;
        rank->open.split.exposed_by_ns[kind] += share_ns;
        left_ns -= share_ns;
    }
    rank->open.split.exposed_by_ns[awaited] += left_ns;
    rank->open.split.exposed_ns += wait_ns;
}

static void compute_ended(struct run_rank *rank, const struct trace_record *record, const struct op *op,
                          const struct op *awaited)
{
    const struct trace_of_op_end *from = &record->op_end;
    rank->open.split.phase_ns[op->phase] += record->time_ns - from->started_ns;
    if (awaited && awaited->lane != LANE_COMPUTE && from->ready_ns > from->issued_ns)
        waited(rank, from->ready_ns - from->issued_ns, traffic_of_op(awaited->kind));
    rank->open.computed = true;
    rank->open.idle_since_ns = record->time_ns;
    memset(rank->open.beside_ns, 0, sizeof rank->open.beside_ns); /* what ran meanwhile was hidden after all */
}

static void other_ended(struct run_rank *rank, const struct trace_record *record, const struct op *op)
{
    uint64_t from_ns =
        rank->open.idle_since_ns > rank->open.covered_ns ? rank->open.idle_since_ns : rank->open.covered_ns;
    if (record->time_ns <= from_ns) return;
    rank->open.beside_ns[traffic_of_op(op->kind)] += record->time_ns - from_ns;
    rank->open.covered_ns = record->time_ns;
}

void fold_op_end(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_op_end *from = &record->op_end;
    struct run_rank *rank = model_rank(model, record->rank);
    if (!rank) return;
    const struct run_schedule *schedule = run_schedule_numbered(model, from->schedule);
    const struct op *op = find_op(schedule, from->op);
    if (!op || record->time_ns < from->started_ns) {
        rank->open.lost = true;
        return;
    }
    rank->lane[op->lane] =
        (struct run_lane){false, from->schedule, from->step, from->op, from->issued_ns, from->started_ns};
    if (schedule->purpose != PURPOSE_TRAIN || !rank->open.begun || rank->open.step != from->step) return;
    if (op->lane == LANE_COMPUTE) compute_ended(rank, record, op, find_op(schedule, from->waited_on));
    else other_ended(rank, record, op);
}
