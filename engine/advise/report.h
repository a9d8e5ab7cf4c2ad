/* The JSON report of a run, for scripts: its names are a promise (docs/JSON.md). An unknown value is null.
 * traffic[].count is the operations of one rank over the run; *_per_step are means over steps and ranks. parts[] lists
 * the parts of a relaunched run with their first steps and ranks; steps[].sent_bytes has one element per rank of that
 * step; ranks, memory, peak, traffic and processes are those of the last part. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "engine/observe/questions.h"

/* Frames and bytes drawn on the terminal. frames 0: the run was not shown; bytes -1: unknown. */
struct report_screen { int64_t frames, bytes; };

/* Adds "hosts" if the run is on several machines: each host with its ranks and its clock. */
void report_hosts(cJSON *report, const struct run_model *model);

/* Writes a step that has ended as an element of the report's "steps", followed by a comma; writes nothing for a step that has not ended.
 * False: `out` cannot be written. */
bool report_step(FILE *out, const struct run_step *step);

/* Writes the report. Steps go out one by one, so memory does not grow with the run. past: steps that the model has dropped
 * (run_model_options.on_step_dropped), as report_step() wrote them, oldest first; NULL: they were not kept, and the report says in
 * steps_left_out how many are missing. False: no memory, or `out` cannot be written. */
bool report_write(FILE *out, const struct run_model *model, const struct report_screen *screen, FILE *past);
