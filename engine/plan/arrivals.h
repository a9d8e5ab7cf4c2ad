/* Room for what other ranks send of a reduction, where ranks have a device each and cannot read one another's (topology.collectives
 * nccl): a strip for each of them, all of one size. */
#ifndef ENGINE_PLAN_ARRIVALS_H
#define ENGINE_PLAN_ARRIVALS_H

#include "engine/plan/schedule.h"

/* All strips together at most: a larger bucket comes in rounds. At 8 ranks a strip is 4.5 MiB, which a link between two GPUs is
 * some 20 us busy with, several times what a round costs beside that. */
enum { ARRIVALS_BYTES = 32 << 20, ARRIVALS_ALIGN = 64 /* where in a strip a part begins */ };

/* For a reduction of these pieces; 0: none is needed. Every rank the same. */
int64_t arrivals_bytes(const struct schedule *schedule, const struct model *model, const struct piece *pieces, int count);

#endif
