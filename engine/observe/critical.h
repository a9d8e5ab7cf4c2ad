/* The critical path of a step: the chain of operations, over all ranks, that determines when the step ends. The search goes backwards
 * from the step's last operation. The predecessor of an operation is the operation of the same rank that ended last before it; of a
 * collective the search goes on at the rank that arrived last. Where nothing had ended just before, the time between is idle. (Yang and Miller, Critical Path
 * Analysis for the Execution of Parallel and Distributed Programs, 1988.) */
#pragma once

#include "engine/observe/history.h"

enum { CRITICAL_RANKS = 64 };

/* Sums in ns; all of them together are window_ns. sums_add() adds several. */
struct critical {
    uint64_t window_ns;                   /* from the step's begin to the end of its last operation */
    uint64_t phase_ns[PHASES];            /* compute */
    uint64_t traffic_ns[TRAFFIC_KINDS];   /* moving bytes: collectives from when the last rank had come, copies */
    uint64_t host_ns;                     /* of the host: updates, threads that launch */
    uint64_t idle_ns;
    uint64_t hops;                        /* from one rank to another */
    uint64_t rank_ns[CRITICAL_RANKS];     /* of what is not idle: on which rank; of ranks from CRITICAL_RANKS - 1 on together */
};

/* False: the step has not ended, or its operations are not all kept. */
bool critical_path_of(struct critical *out, const struct history *history, const struct history_step *step);
