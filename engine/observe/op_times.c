/* How one operation of a step went on all ranks. */
#include "engine/observe/op_times.h"

static void add(struct op_times *times, const struct span *span, int rank)
{
    const uint64_t took_ns = span->ended_ns - span->started_ns;
    times->mean_ns += took_ns;
    times->waited_ns += span->ready_ns > span->issued_ns ? span->ready_ns - span->issued_ns : 0;
    times->peers_ns += span->peers_ns;
    times->paced_ns += span->paced_ns;
    if (!times->ranks || took_ns > times->longest_ns) {
        times->longest_ns = took_ns;
        times->slowest = rank;
    }
    if (!times->ranks || span->started_ns < times->first_ns) times->first_ns = span->started_ns;
    if (!times->ranks || span->started_ns > times->last_ns) {
        times->last_ns = span->started_ns;
        times->last_rank = rank;
    }
    times->ranks++;
}

struct op_times op_times_of(const struct history *history, const struct run_schedule *plan, uint32_t step, int op,
                            uint64_t until_ns)
{
    struct op_times times = {0};
    const enum lane lane = plan->ops.ops[op].lane;
    for (int rank = 0; rank < history_ranks(history, 0, UINT64_MAX); rank++) {
        const int64_t number = history_span_of(history, rank, lane, step, (uint32_t)op);
        const struct span *span = number >= 0 ? history_span(history, rank, lane, number) : NULL;
        if (!span || span->schedule != plan->number || !span->ended_ns || span->ended_ns > until_ns) continue;
        add(&times, span, rank);
    }
    if (!times.ranks) return times;
    times.mean_ns /= (uint64_t)times.ranks;
    times.waited_ns /= (uint64_t)times.ranks;
    times.peers_ns /= (uint64_t)times.ranks;
    times.paced_ns /= (uint64_t)times.ranks;
    return times;
}

uint32_t whole_step_of(const struct run_model *model, const struct run_schedule *plan)
{
    for (int i = model->step_count - 1; i >= 0; i--) {
        const struct run_step *step = &model->steps[i];
        if (run_step_is_whole(step) && !step->skipped && step->schedule == plan->number) return step->step;
    }
    return 0;
}
