#include "tui/app/record_reader.h"

#include <stdio.h>
#include <string.h>

#include "engine/observe/states.h"

struct run_model *record_reader_model(void)
{
    return run_model_new(&(struct run_model_options){.steps = RUN_STEPS_KEPT, .notices = RUN_NOTICES_KEPT});
}

void record_reader_release(struct record_reader *reader, bool with_model)
{
    source_close(reader->source);
    if (with_model) run_model_free(reader->model);
    history_free(reader->history);
    memset(reader, 0, sizeof *reader);
}

bool record_reader_skip(struct record_reader *reader, uint64_t after_ns, uint32_t step, uint64_t time_ns)
{
    struct run_model *model = record_reader_model();
    uint32_t from_step;
    if (!model || !run_state_load(model, reader->source, after_ns, step, time_ns, &from_step) ||
        source_resume_step(reader->source, from_step, NULL))
        return run_model_free(model), false;
    run_model_free(reader->model);
    reader->model = model;
    reader->has_next = false;
    if (reader->history) history_begin(reader->history, model->first_ns, model->now_ns);
    return true;
}

static void end(struct record_reader *reader, enum source_result result)
{
    reader->over = true;
    if (result == SOURCE_BAD) snprintf(reader->trouble, sizeof reader->trouble, "%s", source_error(reader->source));
    else if (source_torn(reader->source))
        snprintf(reader->trouble, sizeof reader->trouble, "the file ends in the middle of a chunk; all before it is shown");
    else if (!reader->model->ended)
        snprintf(reader->trouble, sizeof reader->trouble, "%s",
                 source_fd(reader->source) >= 0 ? "the engine closed the connection"
                                              : "the trace ends here, without the run's own end");
}

bool record_reader_peek(struct record_reader *reader)
{
    if (reader->has_next || reader->over) return reader->has_next;
    enum source_result result = source_next(reader->source, &reader->next);
    reader->has_next = result == SOURCE_RECORD;
    if (result == SOURCE_BAD || (result == SOURCE_END && !reader->grows)) end(reader, result);
    return reader->has_next;
}

bool record_reader_fold(struct record_reader *reader)
{
    if (!record_reader_peek(reader)) return false;
    run_model_fold(reader->model, &reader->next);
    if (reader->history) history_fold(reader->history, reader->model, &reader->next);
    reader->has_next = false;
    return true;
}

uint32_t record_reader_steps_done(const struct record_reader *reader)
{
    const struct run_step *step = run_last_step(reader->model);
    return step ? step->step : 0;
}

void record_reader_until_time(struct record_reader *reader, uint64_t time_ns)
{
    while (record_reader_peek(reader) && reader->next.time_ns <= time_ns) record_reader_fold(reader);
}

/* Whether the next record no longer belongs to the end of a step: a run may pause there, and commands that follow are
 * later. */
static bool ends_boundary(const struct record_reader *reader)
{
    bool stands = reader->model->state == RUN_PAUSED || reader->model->state == RUN_OUT_OF_MEMORY;
    switch (reader->next.kind) {
    case TRACE_STEP_BEGIN:
    case TRACE_END: return true;
    case TRACE_STATE:
        if (reader->next.state.state == RUN_RELAUNCHING) return true; /* what follows is of other ranks */
        return stands;
    case TRACE_COMMAND: return stands; /* the event of the pause itself comes after its state */
    default: return false;
    }
}

void record_reader_until_step_ends(struct record_reader *reader, uint32_t step)
{
    while (!step && record_reader_peek(reader) &&
           !(reader->next.kind == TRACE_STEP_BEGIN && reader->next.step_begin.step))
        record_reader_fold(reader);
    while (record_reader_steps_done(reader) < step && record_reader_fold(reader)) {}
    while (record_reader_peek(reader) && !ends_boundary(reader)) record_reader_fold(reader);
}

static bool is_moment(const struct trace_record *record, uint32_t step, struct record_moment *moment)
{
    const bool begins = record->kind == TRACE_OP_BEGIN && record->op_begin.step == step;
    const bool ends = record->kind == TRACE_OP_END && record->op_end.step == step;
    *moment = (struct record_moment){.ends = ends, .time_ns = record->time_ns};
    if (begins) moment->op = record->op_begin.op;
    if (ends) moment->op = record->op_end.op;
    return (begins || ends) && record->rank == 0;
}

bool record_reader_until_moment(struct record_reader *reader, uint32_t step, struct record_moment *moment)
{
    bool found = false;
    while (!found && record_reader_peek(reader)) {
        if (reader->next.kind == TRACE_STEP_BEGIN && reader->next.step_begin.step > step) return false;
        found = is_moment(&reader->next, step, moment);
        record_reader_fold(reader);
    }
    while (found && record_reader_peek(reader) && reader->next.kind == TRACE_MEMORY && reader->next.rank == 0) record_reader_fold(reader);
    return found;
}

bool record_reader_until_op(struct record_reader *reader, uint32_t step, uint32_t op, bool ends)
{
    struct record_moment at;
    while (record_reader_until_moment(reader, step, &at))
        if (at.op == op && at.ends == ends) return true;
    return false;
}

bool record_reader_until_shortage(struct record_reader *reader)
{
    const struct run_model *model = reader->model;
    while (!(model->shortage.known && model->state == RUN_OUT_OF_MEMORY) && record_reader_fold(reader)) {}
    return model->shortage.known;
}
