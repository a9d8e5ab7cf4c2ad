/* The latest record of each kind that holds until a newer one replaces it: run header, schedules, budgets, memory per rank, tier and
 * category, the state of the run. A viewer that attaches in mid-run gets these first, and so knows the present state at once. */
#ifndef ENGINE_TRACE_LATEST_RECORDS_H
#define ENGINE_TRACE_LATEST_RECORDS_H

#include "engine/base/bytes.h"
#include "engine/trace/record.h"

struct latest_records;

struct latest_records *latest_records_new(void); /* NULL: no memory */
void latest_records_free(struct latest_records *latest);

/* Takes a copy of one whole encoded record, if it is of a kind that is kept. Without memory the older one stays. */
void latest_records_put(struct latest_records *latest, const void *record);

/* Calls visit for each kept record, in the order in which they came (run header first). */
typedef void latest_records_visit(void *user, const void *record);
void latest_records_each(const struct latest_records *latest, latest_records_visit *visit, void *user);

/* The same for those that came after a moment; latest_records_now() names the present one. */
uint64_t latest_records_now(const struct latest_records *latest);
void latest_records_each_since(const struct latest_records *latest, uint64_t moment, latest_records_visit *visit, void *user);

/* The step that a rank is in the middle of, the highest of all ranks; 0: between steps. */
uint32_t latest_records_open_step(const struct latest_records *latest);

#endif
