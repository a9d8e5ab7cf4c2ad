/* Where the time of a step went, by the names of DeepSpeed's timers. Time belongs to what the compute lane came to next: a
 * wait for gathered parameters is part of forward or backward, a wait for reductions after backward is bwd_allreduce. */
#include "engine/advise/logs_parts.h"

/* One rank's step while it is walked. The step end is what follows the last backward; UINT64_MAX and 0: no time seen. */
struct walk {
    const struct history *history;
    const struct history_step *step;
    int rank;
    uint64_t at_ns;                  /* everything before is given to a part */
    uint64_t begins_ns;              /* the first operation of the optimizer that begins in the step end */
    uint64_t updates_ns, updated_ns; /* from the first update at work in the step end to the end of the last */
};

static uint64_t pass(struct walk *walk, uint64_t to_ns)
{
    if (to_ns > walk->step->ended_ns) to_ns = walk->step->ended_ns;
    uint64_t length = to_ns > walk->at_ns ? to_ns - walk->at_ns : 0;
    walk->at_ns += length;
    return length;
}

static void walk_forward_and_backward(struct walk *walk, struct log_clock *clock)
{
    int64_t first, end;
    log_spans(walk->history, walk->step, walk->rank, LANE_COMPUTE, &first, &end);
    for (int64_t number = first; number < end; number++) {
        const struct span *span = log_span(walk->history, walk->step, walk->rank, LANE_COMPUTE, number);
        if (span && span->phase == PHASE_FORWARD) clock->forward += pass(walk, span->ended_ns);
        if (span && span->phase == PHASE_BACKWARD) clock->inner += pass(walk, span->ended_ns);
    }
}

/* The optimizer works on the device or on the host; what of it runs beside backward is hidden, and no time of the step. */
static void look_at_tail(struct walk *walk, enum lane lane)
{
    int64_t first, end;
    log_spans(walk->history, walk->step, walk->rank, lane, &first, &end);
    for (int64_t number = first; number < end; number++) {
        const struct span *span = log_span(walk->history, walk->step, walk->rank, lane, number);
        if (!span || span->phase != PHASE_OPTIMIZER || span->ended_ns <= walk->at_ns) continue;
        if (span->started_ns < walk->begins_ns) walk->begins_ns = span->started_ns;
        if (span->kind != OP_UPDATE && span->kind != OP_HOST_UPDATE) continue;
        if (span->started_ns < walk->updates_ns) walk->updates_ns = span->started_ns;
        if (span->ended_ns > walk->updated_ns) walk->updated_ns = span->ended_ns;
    }
}

static void add_rank(struct log_clock *clock, const struct history *history, const struct history_step *step, int rank)
{
    struct walk walk = {history, step, rank, step->begun_ns, UINT64_MAX, UINT64_MAX, 0};
    walk_forward_and_backward(&walk, clock);
    for (int lane = 0; lane < LANES; lane++)
        if (lane_computes((enum lane)lane)) look_at_tail(&walk, (enum lane)lane);
    const bool begins = walk.begins_ns != UINT64_MAX, updates = walk.updated_ns > 0;
    clock->reduce += pass(&walk, begins ? walk.begins_ns : step->ended_ns);
    clock->gradients += pass(&walk, updates ? walk.updates_ns : step->ended_ns);
    clock->update += pass(&walk, walk.updated_ns);
    clock->allgather += pass(&walk, step->ended_ns);
}

bool log_clock_add(struct log_clock *clock, const struct history *history, const struct run_model *model,
                   const struct history_step *step)
{
    const struct run_step *told = run_step_numbered(model, step->step);
    if (!told || !log_step_whole(history, step)) return false;
    for (int rank = 0; rank < model->ranks; rank++) add_rank(clock, history, step, rank);
    clock->steps += (uint32_t)model->ranks;
    clock->micro_steps += (uint32_t)model->ranks * told->micro_steps;
    return true;
}

/* ---- printing ---- */

static void print_times(FILE *out, const char *const *names, const uint64_t *sums_ns, int count, double parts)
{
    fputs("time (ms)", out);
    for (int i = 0; i < count; i++) {
        if (parts > 0) fprintf(out, " | %s: %.2f", names[i], (double)sums_ns[i] / 1e6 / parts);
        else fprintf(out, " | %s: n/a", names[i]);
    }
    fputc('\n', out);
}

void log_clock_print(const struct log_clock *clock, FILE *out)
{
    static const char *const micro[] = {"fwd_microstep", "bwd_microstep", "bwd_inner_microstep",
                                        "bwd_allreduce_microstep", "step_microstep"};
    static const char *const step[] = {"fwd", "bwd", "bwd_inner", "bwd_allreduce", "step"};
    static const char *const optimizer[] = {"optimizer_gradients", "optimizer_step", "optimizer_allgather"};
    const uint64_t sums_ns[] = {clock->forward, clock->inner + clock->reduce, clock->inner, clock->reduce,
                                clock->gradients + clock->update + clock->allgather};
    const uint64_t optimizer_ns[] = {clock->gradients, clock->update, clock->allgather};
    print_times(out, micro, sums_ns, 5, (double)clock->micro_steps);
    print_times(out, step, sums_ns, 5, (double)clock->steps);
    print_times(out, optimizer, optimizer_ns, 3, (double)clock->steps);
}
