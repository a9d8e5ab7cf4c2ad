/* Totals of a window of time, by the definitions of Holistic Trace Analysis (HTA), so that figures can be compared:
 *   overlap   = time in which compute and communication lanes are busy together / time in which communication is busy
 *   temporal  = compute busy | only other work ("non-compute") | idle, of (last end - first start); work hidden under
 *               compute counts as compute
 *   exposed   = communication that no compute hides: communication - overlapped
 * Operations that cross an edge of the window are clipped to it. Pure functions of a history or of intervals. */
#pragma once

#include "engine/observe/history.h"

struct interval { uint64_t from_ns, to_ns; };

struct intervals { struct interval *at; int count; };

void intervals_unite(struct intervals *all); /* sorts them, and merges those that touch */

/* Plain intervals: any order, may overlap. Sums are over their unions; the window is from the first start to the last
 * end. `moving`: all work other than compute: communication, copies between tiers, the host lane. Sorts the lists. */
struct temporal { uint64_t window_ns, compute_ns, communication_ns, overlapped_ns, non_compute_ns, idle_ns; };
void temporal_of(struct temporal *out, struct intervals compute, struct intervals communication, struct intervals moving);

/* Operations that ended in the window; times are clipped to it. */
struct collective_totals {
    int64_t count;
    /* bytes: the payload gathered or reduced, over all ranks of the group. bus_bytes: bytes x bus_share() of the group. By the
     * definitions of nccl-tests, algbw is per_second(bytes, busy_ns) and busbw is per_second(bus_bytes, busy_ns). */
    uint64_t bytes, bus_bytes;
    uint64_t sent_bytes;
    uint64_t busy_ns, exposed_ns; /* exposed: no compute at the same time */
    uint64_t peers_ns, paced_ns;  /* in busy_ns: the wait for the slowest rank; pacing and slow motion */
    uint64_t io_bytes, requests, io_ns, latency_ns; /* NVMe only, from the IO records (struct run_flow) */
};

/* NVMe only: the slowest request; the most in flight at once. A sum or mean of several has the highest of each. */
struct io_most { uint64_t longest_ns, deepest; };

/* Totals of the gathers that a stage-3 step needs in forward and backward. hidden: while compute ran. */
struct prefetch_totals {
    int64_t gathers, prefetched;   /* prefetched: issued ahead of need */
    uint64_t early_ns;             /* sum over gathers that ended before their use: how long before */
    int64_t early_count;
    uint64_t busy_ns, hidden_ns;   /* of all gathers */
    uint64_t stalled_ns;           /* compute's waits for gathers, also while they queued behind other transfers */
    int64_t stalls;
};

struct totals {
    int rank;                      /* -1: mean over ranks */
    uint64_t from_ns, to_ns;
    bool known;                    /* false: records of this window are not kept in full, or were lost */
    struct io_most most[TRAFFIC_KINDS];
    struct temporal temporal;      /* this and the fields below are sums, of 64 bits each */
    uint64_t phase_ns[PHASES];     /* of the compute lane */
    uint64_t busy_ns[LANES];       /* a lane at work */
    uint64_t host_exposed_ns;      /* the host lane (sums, norms, updates) with no compute at the same time */
    uint64_t stall_ns[STALLS];     /* of the compute lane; STALL_PEERS: of all lanes */
    int64_t stall_count[STALLS];
    uint64_t done_ns;              /* after the compute lane's last operation, until other lanes have ended theirs */
    uint64_t lane_stall_ns[LANES][STALLS]; /* the lanes between tiers and the host lane */
    struct collective_totals traffic[TRAFFIC_KINDS];
    struct prefetch_totals prefetch;
};

/* Training operations only. `model` has the schedules; rank -1: mean over all. step: only operations of this ended step (ranks do not
 * begin and end a step together, so the windows of two steps overlap); 0: all steps. */
void totals_of(struct totals *out, const struct history *history, const struct run_model *model, int rank, uint64_t from_ns, uint64_t to_ns, uint32_t step);

/* Adds totals of several steps or ranks; the caller sets `known`. */
void totals_add(struct totals *sum, const struct totals *one);
void totals_share(struct totals *sum, uint64_t parts); /* divides every sum, rounding */

/* Adds `part` to `sum`: structs of `bytes` bytes that hold 64-bit integers only. */
void sums_add(void *sum, const void *part, size_t bytes);

double per_second(uint64_t bytes, uint64_t ns); /* 0: nothing was timed */

/* busbw / algbw of a collective among `ranks`, by nccl-tests (doc/PERFORMANCE.md): the share of the payload that a rank's link carries. */
double bus_share(enum traffic kind, int ranks);

/* Share of the gathers' time that was hidden; negative: no gathers. */
double prefetch_hidden_share(const struct prefetch_totals *prefetch);

/* The operation that a gather was made for: the first of the compute lane on its unit. -1: none. */
int gather_user(const struct schedule *schedule, uint32_t gather);

double percent(uint64_t part, uint64_t whole); /* 0 of nothing */

/* ---- one operation of a step on all ranks ---- */

struct op_times {
    int ranks;                                /* ranks that ended it; 0: nothing is known */
    uint64_t mean_ns, longest_ns;             /* started to ended */
    int slowest;                              /* the rank of `longest` */
    uint64_t waited_ns, peers_ns, paced_ns;   /* means over ranks: waited before it (ready - issued), the others inside it */
    uint64_t first_ns, last_ns;               /* first and last start */
    int last_rank;                            /* the rank that started last: the others of a collective waited for it */
};

/* The times of operation `op` over the ranks that ended it by `until_ns`: all ranks (of -1), or those in rank `of`'s process group. */
struct op_times op_times_of(const struct history *history, const struct run_schedule *plan, uint32_t step, int op, uint64_t until_ns, int of);

/* ---- critical.c: the critical path of a step ---- */

/* The chain of operations, over all ranks, that determines when the step ends. The search goes backwards from the step's last operation.
 * The predecessor of an operation is the operation of the same rank that ended last before it; for a collective, that of the last rank to
 * arrive. A gap between the two is idle time, except for work of host threads in it. (Yang and Miller, Critical Path Analysis for the
 * Execution of Parallel and Distributed Programs, 1988.) */

enum { CRITICAL_RANKS = 64 };

/* Sums in ns; all of them together are window_ns. sums_add() adds several. */
struct critical {
    uint64_t window_ns;                   /* from the step's begin to the end of its last operation */
    uint64_t phase_ns[PHASES];            /* compute */
    uint64_t traffic_ns[TRAFFIC_KINDS];   /* moving bytes: copies, and collectives after their last rank arrived */
    uint64_t host_ns;                     /* work of the host: updates, threads that launch */
    uint64_t idle_ns;
    uint64_t hops;                        /* how often the path goes from one rank to another */
    uint64_t rank_ns[CRITICAL_RANKS];     /* time that is not idle, by rank; the last sum is for ranks from CRITICAL_RANKS - 1 on */
};

/* False: the step has not ended, or its operations are not all kept. */
bool critical_path_of(struct critical *out, const struct history *history, const struct history_step *step);
