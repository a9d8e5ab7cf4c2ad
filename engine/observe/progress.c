/* How far a rank is in its step, from the last record of each lane and the schedule. */
#include "engine/observe/progress.h"

static const struct run_lane *newest_lane(const struct run_rank *rank)
{
    const struct run_lane *newest = &rank->lane[0];
    for (int lane = 1; lane < LANES; lane++)
        if (rank->lane[lane].started_ns > newest->started_ns) newest = &rank->lane[lane];
    return newest;
}

static const struct run_schedule *with_ops(const struct run_schedule *plan)
{
    return plan && plan->has_ops && plan->ops.op_count > 0 && !schedule_is_observed(&plan->ops) ? plan : NULL;
}

/* An evaluation or sampling goes on until its last operation has ended. */
static bool unfinished(const struct run_rank *rank, const struct run_schedule *plan)
{
    if (!with_ops(plan)) return false;
    const int last = plan->ops.op_count - 1;
    const struct run_lane *lane = &rank->lane[plan->ops.ops[last].lane];
    return lane->busy || lane->schedule != plan->number || (int)lane->op != last;
}

/* Which schedule the rank runs, or ran last. Evaluation and sampling count while they go on; between steps the last
 * training step stands. A step whose beginning was not seen (a viewer came in the middle) is known by its operations. */
static void find_plan(struct progress *at, const struct run_model *model, const struct run_rank *rank)
{
    const struct run_lane *newest = newest_lane(rank);
    const struct run_schedule *newest_plan = newest->started_ns ? run_schedule_numbered(model, newest->schedule) : NULL;
    const bool training = newest_plan && newest_plan->purpose == PURPOSE_TRAIN;
    if (!rank->open.begun && newest_plan &&
        (training ? newest->step > rank->open.step : unfinished(rank, newest_plan))) {
        at->step = newest->step;
        at->open = true;
        at->plan = with_ops(newest_plan);
        return;
    }
    const struct run_step *step = run_step_numbered(model, rank->open.step);
    at->step = rank->open.step;
    at->open = rank->open.begun;
    at->lost = rank->open.begun && rank->open.lost;
    at->plan = with_ops(at->step && step ? run_schedule_numbered(model, step->schedule) : run_training(model));
}

/* The number of operations that a lane has ended in a step whose records are no longer kept (an evaluation ran after
 * it): all of them; of a dropped step, those before the first skipped one. */
static int end_of_lane(const struct schedule *ops, bool dropped)
{
    for (int op = 0; dropped && op < ops->op_count; op++)
        if (ops->ops[op].droppable) return op;
    return ops->op_count;
}

struct progress progress_of(const struct run_model *model, int rank)
{
    struct progress at = {0};
    if (rank < 0 || rank >= model->ranks) return at; /* one of another part of the run */
    const struct run_rank *of = &model->rank[rank];
    find_plan(&at, model, of);
    if (!at.plan) return at;
    const struct run_step *step = run_step_numbered(model, at.step);
    for (int lane = 0; lane < LANES; lane++) {
        const struct run_lane *last = &of->lane[lane];
        if (last->started_ns && last->step == at.step && last->schedule == at.plan->number) {
            at.begun[lane] = (int)last->op + 1;
            at.ended[lane] = at.begun[lane] - last->busy;
        } else if (at.step && !at.open) {
            at.begun[lane] = at.ended[lane] = end_of_lane(&at.plan->ops, step && step->skipped);
        }
    }
    return at;
}

enum progress_state progress_state(const struct progress *at, int op)
{
    const enum lane lane = at->plan->ops.ops[op].lane;
    if (op < at->ended[lane]) return PROGRESS_ENDED;
    if (op < at->begun[lane]) return PROGRESS_RUNNING;
    if (at->step && !at->open) return PROGRESS_DROPPED;
    return op == progress_next(at, lane) ? PROGRESS_WAITING : PROGRESS_TO_COME;
}

int progress_running(const struct progress *at, enum lane lane)
{
    return at->begun[lane] > at->ended[lane] ? at->begun[lane] - 1 : -1;
}

int progress_next(const struct progress *at, enum lane lane)
{
    if (!at->open || at->begun[lane] > at->ended[lane]) return -1;
    for (int op = at->begun[lane]; op < at->plan->ops.op_count; op++)
        if (at->plan->ops.ops[op].lane == lane) return op;
    return -1;
}

const struct dependency *progress_wait(const struct progress *at, int op)
{
    const struct op *of = &at->plan->ops.ops[op];
    for (int d = 0; d < of->dependency_count; d++) {
        const int on = of->dependency[d].op;
        if (on >= at->ended[at->plan->ops.ops[on].lane]) return &of->dependency[d];
    }
    return NULL;
}

int progress_missing(const struct run_model *model, const struct progress *at, int of, int op, int *rank)
{
    const struct process_group group = schedule_group(&at->plan->ops, at->plan->ops.ops[op].group, of);
    int missing = 0;
    for (int r = model->ranks - 1; r >= 0; r--) {
        const struct progress other = progress_of(model, r);
        if (!other.plan || other.plan != at->plan || other.step != at->step || !group_has(&group, r)) continue;
        if (op < other.begun[at->plan->ops.ops[op].lane]) continue;
        missing++;
        *rank = r;
    }
    return missing;
}
