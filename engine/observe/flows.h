/* Transfers between the tiers of a rank: bytes per step in each direction, the rate, and the link's limit. The limit is
 * the paced bandwidth if the link is paced, else the rate of the fastest step of this run, else unknown. */
#pragma once

#include "engine/observe/questions.h"

enum flow_limit { FLOW_LIMIT_UNKNOWN, FLOW_LIMIT_PACED, FLOW_LIMIT_BEST };

/* Means over the ranks with known figures. */
struct flow_figures {
    bool known;              /* every transfer of the step (so_far: of its part until now) was seen; false: all fields below are 0 */
    bool so_far;             /* figures of the step in progress: no whole step is known */
    double count, bytes;     /* per step */
    double bytes_per_s;      /* while transfers run; includes the time of a paced link, excludes slow motion; 0: not timed */
    double own_bytes_per_s;  /* the same without the time of a paced link */
    double exposed_ns;       /* per step; 0 until a step is complete */
    double slow_motion;      /* the highest factor of all ranks, x SLOW_RANK_FACTOR on a slow rank; 1: none */
    enum flow_limit limited_by;
    double limit_bytes_per_s;
    double share;             /* the rate as a part of the limit */
    bool has_io, buffered;
    double requests, depth;      /* depth: mean over the time with a request in flight */
    uint32_t deepest;            /* of any rank */
    double latency_ns;           /* mean of a request */
    uint64_t longest_ns;         /* of any rank */
};

enum traffic flow_traffic(enum flow flow);
const char *flow_name(enum flow flow); /* "device -> host" */

/* Figures of the last whole step; rank -1: mean over ranks. run: means per step over all whole steps of the present part, with the limit
 * of the last step. */
struct flow_figures flow_figures_of(const struct run_model *model, int rank, enum flow flow, bool run);

/* Whether the training schedule moves bytes in this direction, measured or planned. */
bool flow_is_used(const struct run_model *model, enum flow flow);

/* Whether a tier holds, held or is planned to hold bytes. The device tier is always in use. */
bool tier_is_used(const struct run_model *model, enum tier tier);
