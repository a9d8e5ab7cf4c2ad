/* What moves between the tiers of a rank: bytes a step in each direction, how fast, and against which limit. The limit of a
 * link is what it is paced to where it is, else the fastest step of this run: a limit that nobody has set or seen is unknown. */
#ifndef ENGINE_OBSERVE_FLOWS_H
#define ENGINE_OBSERVE_FLOWS_H

#include "engine/observe/questions.h"

enum flow_limit { FLOW_LIMIT_UNKNOWN, FLOW_LIMIT_PACED, FLOW_LIMIT_BEST };

/* Means over the ranks of which something is known. */
struct flow_figures {
    bool known;              /* what moved this way, and be it nothing, was seen whole; else all below is 0 */
    bool so_far;             /* of the step in progress: no whole one is known */
    double count, bytes;     /* a step */
    double bytes_per_s;      /* while it moves; over a paced link with what that adds, never with what slow motion adds; 0: not timed */
    double own_bytes_per_s;  /* ... without either */
    double exposed_ns;       /* a step, of a whole one */
    double slow_motion;      /* that was taken out of the rates, on a slow rank twice; of several ranks the most; 1: real time */
    enum flow_limit limited_by;
    double limit_bytes_per_s;
    double share;             /* of the limit that was used */
    bool has_io, buffered;
    double requests, depth;      /* depth: mean over the time in which any was in flight */
    uint32_t deepest;            /* of any rank */
    double latency_ns;           /* mean of a request */
    uint64_t longest_ns;         /* of any rank */
};

enum traffic flow_traffic(enum flow flow);
const char *flow_name(enum flow flow); /* "device -> host" */

/* Of the last whole step; rank -1: mean over ranks. */
struct flow_figures flow_figures_of(const struct run_model *model, int rank, enum flow flow);

/* Over all whole steps of the present part (a step's mean); the limit is that of the last one. */
struct flow_figures flow_figures_of_run(const struct run_model *model, int rank, enum flow flow);

/* Something moves, or is planned to, in this direction under the schedule that trains. */
bool flow_is_used(const struct run_model *model, enum flow flow);

/* A tier is in use: something lies there, lay there, or is planned to. The device always is. */
bool tier_is_used(const struct run_model *model, enum tier tier);

#endif
