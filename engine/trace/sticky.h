/* The last record of each thing that holds until it is replaced: run header, schedules, budgets, memory per rank, tier and
 * category, the state of the run. A viewer that attaches in mid-run gets these first and has the whole picture at once. */
#ifndef ENGINE_TRACE_STICKY_H
#define ENGINE_TRACE_STICKY_H

#include "engine/base/bytes.h"
#include "engine/trace/record.h"

struct sticky;

/* Kinds that a reader needs before anything of a step can be understood. */
bool sticky_is_standing(uint16_t kind);

struct sticky *sticky_new(void); /* NULL: no memory */
void sticky_free(struct sticky *sticky);

/* Takes a copy of one whole encoded record, if it is of a kind that is kept. Without memory the older one stays. */
void sticky_put(struct sticky *sticky, const void *record);

/* Calls visit for each kept record, in the order in which they came (run header first). */
typedef void sticky_visit(void *user, const void *record);
void sticky_each(const struct sticky *sticky, sticky_visit *visit, void *user);

/* The same for those that came after a moment; sticky_now() names the present one. */
uint64_t sticky_now(const struct sticky *sticky);
void sticky_each_since(const struct sticky *sticky, uint64_t moment, sticky_visit *visit, void *user);

/* The step that a rank is in the middle of, the highest of all ranks; 0: between steps. */
uint32_t sticky_open_step(const struct sticky *sticky);

#endif
