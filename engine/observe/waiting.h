/* Which ranks wait in a collective, and for which ranks: pure functions of the run's state. A collective ends when its last rank has
 * begun it, so the rank to look for is the one that does not wait. */
#ifndef ENGINE_OBSERVE_WAITING_H
#define ENGINE_OBSERVE_WAITING_H

#include "engine/observe/model.h"

struct run_waiting {
    uint32_t schedule, step, op;
    uint64_t since_ns;         /* when the last of the waiting ranks began it */
    uint64_t waiting, missing; /* a bit for each rank */
};

/* The earliest collective that some ranks of the step are in and others have not begun. False: there is none. */
bool run_waiting(const struct run_model *model, struct run_waiting *found);

/* Whether a rank is held (the command `fault`) and no other rank can start or finish an operation before it is released. */
bool run_is_stuck(const struct run_model *model);

/* "rank 2 has not come to gather block 2; 3 ranks wait there in step 4" */
void run_waiting_text(char *text, size_t room, const struct run_model *model, const struct run_waiting *waiting);

#endif
