/* Totals of a window of time, by the definitions of Holistic Trace Analysis (HTA), so that figures can be compared:
 *   overlap   = time in which compute and communication lanes are busy together / time in which communication is busy
 *   temporal  = busy computing | busy with anything else only ("non-compute") | idle, of (last end - first start); what is
 *               hidden under compute counts as compute
 *   exposed   = communication that no compute hides: communication - overlapped
 * Operations that cross an edge of the window are clipped to it. Pure functions of a tape (or of plain intervals). */
#ifndef ENGINE_ANALYZE_TOTALS_H
#define ENGINE_ANALYZE_TOTALS_H

#include "engine/analyze/tape.h"

struct interval { uint64_t from_ns, to_ns; };

/* Plain intervals: any order, may overlap. Sums are over their unions. Reorders its arguments. */
struct temporal { uint64_t window_ns, compute_ns, communication_ns, overlapped_ns, non_compute_ns, idle_ns; };
void temporal_of(struct interval *compute, int compute_count, struct interval *communication, int communication_count, struct temporal *out);

struct collective_totals {
    int64_t count;
    uint64_t bytes;       /* payload: what the operation hands out or reduces, all ranks' parts */
    uint64_t sent_bytes, busy_ns, exposed_ns, peers_ns, paced_ns;
    double algbw, busbw;  /* bytes / s; NCCL's definitions; 0: nothing was timed */
};

/* How a stage-3 step's gathers went. A gather is hidden as far as no compute waited for it. */
struct prefetch_totals {
    int64_t gathers, prefetched;   /* gathers in forward and backward; those issued ahead of need */
    uint64_t early_ns;             /* sum over those that were ready before they were needed: how long before */
    int64_t early_count;
    uint64_t busy_ns, stalled_ns;  /* of all gathers; compute's waits for them */
    int64_t stalls;
};

struct totals {
    int rank;                      /* -1: mean over ranks */
    uint64_t from_ns, to_ns;
    bool known;                    /* false: records of this window are not kept in full, or were lost */
    struct temporal temporal;
    uint64_t phase_ns[PHASES];
    uint64_t stall_ns[STALLS];     /* of the compute lane; STALL_PEERS: of all lanes */
    int64_t stall_count[STALLS];
    struct collective_totals traffic[TRAFFIC_KINDS];
    struct prefetch_totals prefetch;
};

/* Training operations only. `model` for the schedules. */
void totals_of(struct totals *out, const struct tape *tape, const struct run_model *model, int rank, uint64_t from_ns, uint64_t to_ns);

#endif
