/* How one operation of a step went on all ranks, from the history. */
#ifndef ENGINE_OBSERVE_OP_TIMES_H
#define ENGINE_OBSERVE_OP_TIMES_H

#include "engine/observe/history.h"

struct op_times {
    int ranks;                                /* that ended it; 0: nothing is known */
    uint64_t mean_ns, longest_ns;             /* started to ended */
    int slowest;                              /* the rank of `longest` */
    uint64_t waited_ns, peers_ns, paced_ns;   /* means: before it (ready - issued), inside it */
    uint64_t first_ns, last_ns;               /* first and last start */
    int last_rank;                            /* who came last: of a collective, whom the others waited for */
};

/* Of what had ended at `until_ns`. */
struct op_times op_times_of(const struct history *history, const struct run_schedule *plan, uint32_t step, int op, uint64_t until_ns);

/* The newest step that ran `plan` and that every rank ended with an update; 0: none. */
uint32_t whole_step_of(const struct run_model *model, const struct run_schedule *plan);

#endif
