/* States in a finished trace, from which a reader can begin in place of the first record (chunks: engine/trace/format.h).
 * A state is a run model just before a step: the records that every reader folds (header, schedules, news), the steps
 * before it, and the numbers that folding the other records would give. A file holds a state for each fifty thousand
 * records or so. The numbers are stored as they lie in memory: a program whose structs differ ignores them and reads all
 * records.
 *
 *     run_states_write("run.zlt", 0, &err)                                         after its writer has closed it
 *     if (run_state_load(model, source, 500, UINT64_MAX, &step)) source_resume_step(source, step, &err) */
#pragma once

#include "engine/observe/model.h"
#include "engine/trace/source.h"

/* Reads a finished trace and appends its states; does nothing for a short trace, one without END, one that has states, or
 * one that would be longer than most_bytes (0: no limit). STATUS_INPUT, STATUS_RUN: the trace stays as it was. */
int run_states_write(const char *path, uint64_t most_bytes, struct error *err);

/* Fills an empty model with the state before step *from_step. The state is later than after_ns, at most time_ns, and early enough
 * before `step` for the past that views show by default. step UINT32_MAX and time_ns UINT64_MAX: the latest
 * such state. False: there is none, or it is damaged; the model may then hold anything, and the caller frees it. */
bool run_state_load(struct run_model *model, struct source *source, uint64_t after_ns, uint32_t step, uint64_t time_ns,
                    uint32_t *from_step);
