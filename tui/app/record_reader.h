/* Folds the records of a source into a run model, and into a history beside it. It reads one record ahead, so that it can stop
 * before a moment instead of after it. To go back, feed.h opens another record reader. */
#pragma once

#include "engine/observe/history.h"
#include "engine/observe/questions.h"
#include "engine/trace/source.h"

struct record_reader {
    struct source *source;
    struct run_model *model;
    struct history *history;        /* NULL: none */
    struct trace_record next; /* read, not folded yet */
    bool has_next, over;      /* over: the source has ended */
    bool grows;               /* the source's end is not final */
    char trouble[256];        /* why the source ended badly; "": it did not */
};

struct run_model *record_reader_model(void); /* an empty one, with the bounds that a screen needs; NULL: no memory */
void record_reader_release(struct record_reader *reader, bool with_model); /* frees the source, too, and zeroes *reader */

/* Call at the start of a file. Continues from a state stored in the file, which run_state_load() (engine/observe/states.h) chooses: later
 * than after_ns, not later than time_ns, and early enough before `step` for the past that views show. False: there is no such state,
 * and nothing has changed. */
bool record_reader_skip(struct record_reader *reader, uint64_t after_ns, uint32_t step, uint64_t time_ns);

bool record_reader_peek(struct record_reader *reader); /* reads a record into `next`; false: none has arrived, or the source has ended */
bool record_reader_fold(struct record_reader *reader); /* folds the next record; false: there is none */

/* Folds all records up to and including that time. */
void record_reader_until_time(struct record_reader *reader, uint64_t time_ns);

/* Folds until all ranks have ended the step, then all records before the next step begins or a paused run continues. So a replay shows the
 * same as a live run that pauses after this step. */
void record_reader_until_step_ends(struct record_reader *reader, uint32_t step);

/* Folds up to the next begin or end of an operation of rank 0 in that step, with the memory records that follow. False: there is
 * none before a later step begins. */
struct record_moment { uint32_t op; bool ends; uint64_t time_ns; };
bool record_reader_until_moment(struct record_reader *reader, uint32_t step, struct record_moment *moment);

/* Folds until an operation of rank 0 has ended (or begun), with the memory records that follow. False: it never did. */
bool record_reader_until_op(struct record_reader *reader, uint32_t step, uint32_t op, bool ends);

/* Folds until the run is out of memory. False: it never was. */
bool record_reader_until_shortage(struct record_reader *reader);

uint32_t record_reader_steps_done(const struct record_reader *reader);
