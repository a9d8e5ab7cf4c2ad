
#include <string.h>

#include "engine/base/words.h"
#include "engine/observe/questions.h"

/* Whether the lane has begun (ended) this operation, or a later one of its step. */
static bool has_begun(const struct run_lane *lane, const struct run_waiting *at, uint32_t op)
{
    return lane->started_ns && lane->schedule == at->schedule && lane->step == at->step && lane->op >= op;
}

static bool has_ended(const struct run_lane *lane, const struct run_waiting *at, uint32_t op)
{
    return has_begun(lane, at, op) && !(lane->busy && lane->op == op);
}

bool run_waiting(const struct run_model *model, struct run_waiting *found)
{
    const struct run_lane *first = NULL;
    int rank = 0;
    for (int r = 0; r < model->ranks && r < 64; r++) {
        const struct run_lane *lane = &model->rank[r].lane[LANE_COMM];
        if (lane->busy && (!first || lane->step < first->step || (lane->step == first->step && lane->op < first->op)))
            first = lane, rank = r;
    }
    const struct run_schedule *plan = first ? run_schedule_numbered(model, first->schedule) : NULL;
    const struct op *op = first ? run_op(plan, first->op) : NULL;
    if (!op || schedule_is_observed(&plan->ops)) return false;
    const struct process_group group = schedule_group(&plan->ops, op->group, rank);
    *found = (struct run_waiting){.schedule = first->schedule, .step = first->step, .op = first->op};
    for (int r = 0; r < model->ranks && r < 64; r++) {
        const struct run_lane *lane = &model->rank[r].lane[LANE_COMM];
        if (!group_has(&group, r)) continue;
        if (!has_begun(lane, found, found->op)) found->missing |= UINT64_C(1) << r;
        else if (!has_ended(lane, found, found->op)) found->waiting |= UINT64_C(1) << r;
        else continue;
        if (lane->busy && lane->started_ns > found->since_ns) found->since_ns = lane->started_ns;
    }
    return found->missing != 0;
}

/* Whether the lane is in a collective, or its next operation waits for another one. */
static bool stands(const struct run_rank *rank, enum lane lane, const struct run_waiting *at,
                   const struct schedule *plan)
{
    const struct run_lane *now = &rank->lane[lane];
    if (now->busy) return lane == LANE_COMM && has_begun(now, at, at->op);
    for (int i = 0; i < plan->op_count; i++) {
        const struct op *op = &plan->ops[i];
        if (op->lane != lane || has_begun(now, at, (uint32_t)i)) continue;
        for (int d = 0; d < op->dependency_count; d++) {
            const int on = op->dependency[d].op;
            if (!has_ended(&rank->lane[plan->ops[on].lane], at, (uint32_t)on)) return true;
        }
        return false;
    }
    return true;
}

bool run_is_stuck(const struct run_model *model)
{
    struct run_waiting at;
    const int held = model->fault.rank;
    if (model->fault.kind != FAULT_HELD || !run_waiting(model, &at) || held >= 64) return false;
    const struct schedule *plan = &run_schedule_numbered(model, at.schedule)->ops;
    bool stuck = at.missing == UINT64_C(1) << held;
    for (int r = 0; r < model->ranks; r++)
        for (int lane = 0; lane < LANES && r != held; lane++)
            stuck &= stands(&model->rank[r], (enum lane)lane, &at, plan);
    return stuck;
}

/* The host of these ranks, if all are of one. */
static void append_host(char *text, size_t room, const struct trace_machines *machines, uint64_t ranks)
{
    const char *host = trace_host_of(machines, __builtin_ctzll(ranks));
    for (int r = 0; r < 64; r++)
        if (ranks >> r & 1 && strcmp(trace_host_of(machines, r), host) != 0) return;
    if (*host) text_append(text, room, " on host %s", host);
}

void run_waiting_text(char *text, size_t room, const struct run_model *model, const struct run_waiting *waiting)
{
    const struct op *op = run_op(run_schedule_numbered(model, waiting->schedule), waiting->op);
    const bool one = !(waiting->missing & (waiting->missing - 1));
    char rank[RANK_TEXT_ROOM];
    text[0] = '\0';
    if (one) text_append(text, room, "%s", run_rank_text(rank, model, __builtin_ctzll(waiting->missing)));
    else append_ranks(text, room, waiting->missing);
    if (!one) append_host(text, room, &model->machines, waiting->missing);
    text_append(text, room, " %s not come to %s", one ? "has" : "have", op_name(op->kind, op->use));
    if (op->unit >= 0 && op->unit < model->header.unit_count)
        text_append(text, room, " %s", model->header.units[op->unit].name);
    else if (op->bucket >= 0) text_append(text, room, " bucket %d", op->bucket);
    const int waiting_ranks = __builtin_popcountll(waiting->waiting);
    text_append(text, room, "; %d rank%s there in step %u", waiting_ranks, waiting_ranks == 1 ? " waits" : "s wait",
                waiting->step);
}
