/* The latest record of each kind that holds until a newer one replaces it: run header, schedules, budgets, memory per
 * rank, tier and category, the run's state. A viewer that attaches in mid-run gets these first. */
#pragma once

#include "engine/trace/record.h"

struct latest_records;

struct latest_records *latest_records_new(void); /* NULL: no memory */
void latest_records_free(struct latest_records *latest);

/* Copies one whole encoded record if its kind is kept (TRACE_LATEST). If there is no memory, the older record stays. */
void latest_records_put(struct latest_records *latest, const void *record);

/* Calls visit for each kept record that was put after `since`, in the order in which the records came (run header first). since: a
 * value that latest_records_now() returned; 0: all records. */
typedef void latest_records_visit(void *user, const void *record);
void latest_records_each(const struct latest_records *latest, uint64_t since, latest_records_visit *visit, void *user);
uint64_t latest_records_now(const struct latest_records *latest);

/* The highest step that a rank has begun and not ended; 0: all ranks are between steps. */
uint32_t latest_records_open_step(const struct latest_records *latest);
