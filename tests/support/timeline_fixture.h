/* A run folded for a test: a recorded one, up to a step, or one that never was (tests/support/synthetic.h). */
#pragma once

#include "engine/trace/source.h"
#include "tests/support/synthetic.h"
#include "tui/screen/screen.h"
#include "tui/timeline/timeline.h"

struct folded { struct run_model *model; struct history *history; };

static inline struct folded folded_new(void)
{
    return (struct folded){run_model_new(&(struct run_model_options){0}), history_new(0)};
}

static inline void folded_free(struct folded *run)
{
    history_free(run->history);
    run_model_free(run->model);
}

static inline void folded_fold(void *user, const struct trace_record *record)
{
    struct folded *run = user;
    run_model_fold(run->model, record);
    history_fold(run->history, run->model, record);
}

/* The committed recording, until rank 0 has ended so many operations of `step`; 0 operations: until every rank has ended it. */
static inline struct folded folded_until(uint32_t step, int ops)
{
    struct folded run = folded_new();
    struct source *source;
    struct trace_record record;
    struct error err;
    int ended = 0;
    assert_int_equal(source_open_file(&source, "docs/example.zlt", &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD) {
        folded_fold(&run, &record);
        const struct run_step *last = run_last_step(run.model);
        ended += record.kind == TRACE_OP_END && record.rank == 0 && record.op_end.step == step;
        if (ops ? ended == ops : step && last && last->step >= step) break;
    }
    source_close(source);
    return run;
}

/* step 0: all of the recording. */
static inline struct folded folded_example(uint32_t step)
{
    return folded_until(step, 0);
}

static inline struct folded folded_story(int ranks, enum synthetic_place until)
{
    struct folded run = folded_new();
    struct synthetic story;
    synthetic_story(&story, ranks, until, folded_fold, &run);
    return run;
}
