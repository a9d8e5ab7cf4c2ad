/* Where the time of a step went, by the names of DeepSpeed's timers. Time belongs to what the compute lane came to next: a
 * wait for gathered parameters is part of forward or backward, a wait for reductions after backward is bwd_allreduce. */
#include "engine/analyze/logs_parts.h"

/* One rank's step while it is walked. */
struct walk {
    struct log_clock *clock;
    uint64_t at_ns;      /* everything before is given to a part */
    uint64_t updated_ns; /* the last update's end; 0: none yet */
    bool in_optimizer;
};

static uint64_t pass(struct walk *walk, uint64_t to_ns)
{
    uint64_t length = to_ns > walk->at_ns ? to_ns - walk->at_ns : 0;
    walk->at_ns += length;
    return length;
}

static void walk_optimizer(struct walk *walk, const struct span *span)
{
    struct log_clock *clock = walk->clock;
    if (!walk->in_optimizer) clock->reduce += pass(walk, span->started_ns);
    walk->in_optimizer = true;
    if (span->kind == OP_UPDATE) {
        if (!walk->updated_ns) clock->gradients += pass(walk, span->started_ns);
        walk->updated_ns = span->ended_ns;
    }
    if (walk->updated_ns) clock->update += pass(walk, span->ended_ns);
    else clock->gradients += pass(walk, span->ended_ns);
}

static void walk_span(struct walk *walk, const struct span *span)
{
    if (span->phase == PHASE_FORWARD) walk->clock->forward += pass(walk, span->ended_ns);
    else if (span->phase == PHASE_BACKWARD) walk->clock->inner += pass(walk, span->ended_ns);
    else walk_optimizer(walk, span);
}

static void add_rank(struct log_clock *clock, const struct tape *tape, const struct tape_step *step, int rank)
{
    struct walk walk = {.clock = clock, .at_ns = step->begun_ns};
    int64_t first, end;
    log_spans(tape, step, rank, LANE_COMPUTE, &first, &end);
    for (int64_t number = first; number < end; number++) {
        const struct span *span = log_span(tape, step, rank, LANE_COMPUTE, number);
        if (span) walk_span(&walk, span);
    }
    if (walk.updated_ns) clock->allgather += pass(&walk, step->ended_ns);
    else if (walk.in_optimizer) clock->gradients += pass(&walk, step->ended_ns);
    else clock->reduce += pass(&walk, step->ended_ns);
}

bool log_clock_add(struct log_clock *clock, const struct tape *tape, const struct run_model *model,
                   const struct tape_step *step)
{
    const struct run_step *told = run_step_numbered(model, step->step);
    if (!told || !log_step_whole(tape, step)) return false;
    clock->ranks = model->ranks;
    for (int rank = 0; rank < model->ranks; rank++) add_rank(clock, tape, step, rank);
    clock->steps++;
    clock->micro_steps += told->micro_steps;
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
    print_times(out, micro, sums_ns, 5, (double)clock->micro_steps * clock->ranks);
    print_times(out, step, sums_ns, 5, (double)clock->steps * clock->ranks);
    print_times(out, optimizer, optimizer_ns, 3, (double)clock->steps * clock->ranks);
}
