/* The files of DeepSpeed's csv_monitor, which rank 0 writes: output_path/job_name/Train_Samples_lr.csv and the like, a line
 * "samples,value" after each step. Names, heads and line ends are those of deepspeed/monitor/csv_monitor.py (0.19); a file that is
 * there is continued, with another head. docs/LOGS.md says what differs. */
#pragma once

#include <stdio.h>

#include "engine/config/config.h"
#include "engine/zero/zero.h"

enum { CSV_MONITOR_FILES = 3 };

struct csv_monitor { FILE *file[CSV_MONITOR_FILES]; }; /* all NULL: it is off */

/* Makes the folders and opens the files. begins: the run does, so that the files get heads. STATUS_USAGE: they cannot be
 * written; nothing is open then. */
int csv_monitor_open(struct csv_monitor *monitor, const struct config *config, bool begins, struct error *err);

/* Writes the loss of a step and, as DeepSpeed does, learning rate and loss scale of the step after it. updates: made until now.
 * STATUS_RUN: a write failed; then the monitor is off. */
int csv_monitor_step(struct csv_monitor *monitor, const struct config *config, const struct zero_result *result, int64_t updates, struct error *err);
void csv_monitor_close(struct csv_monitor *monitor);
