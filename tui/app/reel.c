#include "tui/app/reel.h"

#include <stdio.h>
#include <string.h>

struct run_model *reel_model(void)
{
    return run_model_new(&(struct run_model_options){.steps = RUN_STEPS_KEPT, .notices = RUN_NOTICES_KEPT});
}

void reel_release(struct reel *reel, bool with_model)
{
    source_close(reel->source);
    if (with_model) run_model_free(reel->model);
    tape_free(reel->tape);
    memset(reel, 0, sizeof *reel);
}

static void end(struct reel *reel, enum source_result result)
{
    reel->over = true;
    if (result == SOURCE_BAD) snprintf(reel->trouble, sizeof reel->trouble, "%s", source_error(reel->source));
    else if (source_torn(reel->source))
        snprintf(reel->trouble, sizeof reel->trouble, "the file ends in the middle of a chunk; all before it is shown");
    else if (!reel->model->ended)
        snprintf(reel->trouble, sizeof reel->trouble, "%s",
                 source_fd(reel->source) >= 0 ? "the engine closed the connection"
                                              : "the trace ends here, without the run's own end");
}

bool reel_peek(struct reel *reel)
{
    if (reel->has_next || reel->over) return reel->has_next;
    enum source_result result = source_next(reel->source, &reel->next);
    reel->has_next = result == SOURCE_RECORD;
    if (result == SOURCE_BAD || (result == SOURCE_END && !reel->grows)) end(reel, result);
    return reel->has_next;
}

bool reel_fold(struct reel *reel)
{
    if (!reel_peek(reel)) return false;
    run_model_fold(reel->model, &reel->next);
    if (reel->tape) tape_fold(reel->tape, reel->model, &reel->next);
    reel->has_next = false;
    return true;
}

uint32_t reel_steps_done(const struct reel *reel)
{
    const struct run_step *step = run_last_step(reel->model);
    return step ? step->step : 0;
}

void reel_until_time(struct reel *reel, uint64_t time_ns)
{
    while (reel_peek(reel) && reel->next.time_ns <= time_ns) reel_fold(reel);
}

void reel_until_step_begins(struct reel *reel, uint32_t step)
{
    while (reel_peek(reel) && !(reel->next.kind == TRACE_STEP_BEGIN && reel->next.step_begin.step >= step))
        reel_fold(reel);
}

/* Between two steps a run may stop; what it hears then is no part of the step before any more. */
static bool ends_boundary(const struct reel *reel)
{
    bool stands = reel->model->state == RUN_PAUSED || reel->model->state == RUN_OUT_OF_MEMORY;
    switch (reel->next.kind) {
    case TRACE_STEP_BEGIN:
    case TRACE_END: return true;
    case TRACE_STATE:
        if (reel->next.state.state == RUN_RELAUNCHING) return true; /* what follows is of other ranks */
        return stands;
    case TRACE_COMMAND: return stands; /* the event of the pause itself comes after its state */
    default: return false;
    }
}

void reel_until_step_ends(struct reel *reel, uint32_t step)
{
    if (!step) reel_until_step_begins(reel, 1);
    while (reel_steps_done(reel) < step && reel_fold(reel)) {}
    while (reel_peek(reel) && !ends_boundary(reel)) reel_fold(reel);
}

bool reel_until_op_ends(struct reel *reel, uint32_t step, uint32_t op)
{
    bool found = false;
    while (!found && reel_peek(reel)) {
        const struct trace_record *next = &reel->next;
        if (next->kind == TRACE_OP_END && next->rank == 0 && next->op_end.step == step) found = next->op_end.op == op;
        if (next->kind == TRACE_STEP_BEGIN && next->step_begin.step > step) return false;
        reel_fold(reel);
    }
    while (found && reel_peek(reel) && reel->next.kind == TRACE_MEMORY && reel->next.rank == 0) reel_fold(reel);
    return found;
}

bool reel_until_shortage(struct reel *reel)
{
    const struct run_model *model = reel->model;
    while (!(model->shortage.known && model->state == RUN_OUT_OF_MEMORY) && reel_fold(reel)) {}
    return model->shortage.known;
}
