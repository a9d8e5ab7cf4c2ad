/* Prints DeepSpeed's log lines from the records of a run: progress (steps_per_print), where the time of a step went
 * (wall_clock_breakdown), memory between the phases (memory_breakdown), collectives by size (comms_logger), floating
 * point operations of one step (flops_profiler). docs/LOGS.md defines each figure and its differences.
 *
 *     struct logs *logs = logs_new(&config);          NULL: no log is asked for
 *     run_model_fold(model, &record);
 *     logs_fold(logs, model, &record);
 *     if (logs_due(logs)) logs_print(logs, out);      after each record; lines of the steps that ended
 *     logs_finish(logs, model), logs_print(logs, out);  the rest, and the table of collectives
 *     logs_free(logs);
 *
 * Figures come from records; the configuration only chooses logs and gives the momenta. A step with lost records is in
 * no mean; an unknown figure prints as "n/a". */
#pragma once

#include <stdio.h>

#include "engine/observe/history.h"

struct logs;

struct logs *logs_new(const struct config *config); /* NULL: config asks for none of them, or no memory */
void logs_free(struct logs *logs);                  /* NULL is fine */

/* After run_model_fold() of the same record. */
void logs_fold(struct logs *logs, const struct run_model *model, const struct trace_record *record);
void logs_finish(struct logs *logs, const struct run_model *model); /* the run has ended, or its trace has */

bool logs_due(const struct logs *logs);
void logs_print(struct logs *logs, FILE *out); /* prints the lines that are due, once */

/* flops_profiler.output_file: writes the profiler's output to `path` instead. STATUS_RUN: it cannot be written. */
int logs_write_profile(const struct logs *logs, const char *path, struct error *err);
