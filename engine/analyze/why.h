/* Why a rank's tier is as full as it is: the instant of its peak, who was there, what each is made of, which knob owns it,
 * and what changing that knob would give, computed by building the plan again with the other value. */
#ifndef ENGINE_ANALYZE_WHY_H
#define ENGINE_ANALYZE_WHY_H

#include "engine/analyze/model.h"

enum { WHY_TERMS_MAX = 12, WHY_CHANGES_MAX = 4 };

struct why_term { char text[96]; uint64_t bytes; };       /* "master weights, 4 B x 208,576 of its own elements" */
struct why_change {
    char command[80];                                     /* as keys and --at would send it; "": needs a restart ... */
    char text[120];                                       /* ... and for people: "stage 3 instead of 2" */
    bool restart;
    uint64_t peak_bytes, at_peak_bytes;                   /* of the whole tier; of this category at the tier's peak */
    uint64_t sent_bytes;                                  /* per rank and step, to be held against the present's */
};
struct why_tenant {
    enum category category;
    uint64_t bytes, planned_bytes;                        /* at the peak: measured, and by the plan */
    int term_count;
    struct why_term terms[WHY_TERMS_MAX];                 /* largest first; they add up to planned_bytes */
    const char *knob, *how;                               /* the key that owns it, "": none; one sentence */
    int change_count;
    struct why_change changes[WHY_CHANGES_MAX];           /* that would help, best first */
};
struct why {
    int rank;
    enum tier tier;
    bool known;                                           /* a peak was recorded */
    uint64_t peak_bytes, planned_bytes, sent_bytes;       /* sent: by plan, per rank and step */
    char at_op[64];                                       /* the planned operation of the peak, "block' 3"; "": unknown */
    int tenant_count;
    struct why_tenant tenants[CATEGORIES];                /* most bytes first */
    struct why_change stages[4];                          /* the other stages (and this one), by stage */
};

/* Milliseconds of work (plans are built): callers keep the result until the schedule or the peak changes. STATUS_INPUT: the
 * trace does not say enough (no configuration, no schedule). */
int why_peak(struct why *out, const struct run_model *model, int rank, enum tier tier, struct error *err);

/* What a switch of stage or knob changed: means over the last steps before and the first after, of one rank. */
struct why_side { bool known; int steps; uint64_t peak_bytes[CATEGORIES], tier_peak_bytes, resting_bytes, sent_bytes; double step_ns, exposed_ns; };
struct why_switch { uint32_t step; char text[96]; struct why_side before, after; }; /* "stage 2 -> 3" */
/* The last `room` switches, newest first; returns how many. */
int why_switches(const struct run_model *model, int rank, struct why_switch out[], int room);

#endif
