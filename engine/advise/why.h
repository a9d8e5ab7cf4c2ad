/* Why a rank's tier is as full as it is: the instant of its peak, who was there, what each is made of, which knob owns it,
 * and what changing that knob would give, computed by building the plan again with the other value.
 *
 *     struct why why = {0};
 *     while (...) if (why_peak(&why, model, rank, TIER_DEVICE, &err) == STATUS_OK) show(&why);
 *
 * The plans are kept in the result and made again only when the run is another or its knobs were changed; measured bytes
 * are read anew each time. */
#ifndef ENGINE_ADVISE_WHY_H
#define ENGINE_ADVISE_WHY_H

#include "engine/base/grouped.h"
#include "engine/observe/questions.h"

enum { WHY_TERMS_MAX = 12, WHY_CHANGES_MAX = 4, WHY_STAGES = 4 };

/* "master weights, 1 shard of 4" | "4 B × 208,576 elements" | 834304 */
struct why_term { char what[72], formula[120]; uint64_t bytes; };

/* What a setting leads to, of each rank: by plan. */
struct why_plan {
    bool known;
    uint64_t peak_bytes, resting_bytes, sent_bytes; /* of the whole tier; sent: in a step */
    uint64_t bus_bytes, nvme_bytes;                 /* a step moves over the bus to the host and back, and over NVMe */
    double recomputed;                              /* products that are made again, as a part of those of forward and backward */
    uint64_t at_peak_bytes[CATEGORIES];             /* at the instant of the tier's peak */
    uint64_t tier_peak_bytes[TIERS];                /* of all tiers: what leaves one may have gone to another */
};

struct why_change {
    char command[160];  /* as it is typed: "stage=3", "set KEY=VALUE", two with "; " between; with `restart`: "--set KEY=VALUE ..." */
    char text[112];     /* for people: "reduce_bucket_size 99,136 instead of 198,272" */
    bool restart;
    struct why_plan plan;
};

struct why_tenant {
    enum category category;
    bool measured;
    uint64_t bytes, planned_bytes;       /* at the peak: measured, and by the plan */
    int term_count;
    struct why_term terms[WHY_TERMS_MAX];/* largest first; they add up to planned_bytes */
    const char *knob, *how;              /* the key that owns it; one sentence */
    int change_count;
    struct why_change changes[WHY_CHANGES_MAX]; /* those that lower the peak first, lowest peak first */
};

struct why {
    uint64_t made_from;                  /* what the plans were made from; 0: nothing yet */
    int rank;
    enum tier tier;
    int stage;
    bool measured;                       /* a whole step of this plan was seen */
    uint64_t peak_bytes;                 /* measured */
    struct why_plan plan;                /* the present one */
    bool other_version;                  /* this version plans the step differently than the one that made the trace */
    uint32_t schedule;
    int peak_op;                         /* of that schedule, where the plan peaks; -1: between steps */
    int tenant_count;
    struct why_tenant tenants[CATEGORIES];      /* most bytes first */
    struct why_change stages[WHY_STAGES];       /* each stage with the other knobs as they are */
};

/* STATUS_INPUT: the trace does not say enough (no configuration, no schedule). */
int why_peak(struct why *why, const struct run_model *model, int rank, enum tier tier, struct error *err);

/* The key that decides how much of a category lies in a tier at its peak, where that is `planned_bytes`; the key of the tier's
 * budget, if no plan has the category there. `how` may be NULL: one sentence. */
const char *why_owner(const char **how, const struct config *config, enum tier tier, enum category category, uint64_t planned_bytes);

/* The answer in one sentence: "stage 2 holds 3.1 MB more at its peak than stage 1 would: buckets (+3.3 MB) outweigh gradients
 * (-0.2 MB)". `bytes` writes an amount in the reader's unit. */
void why_sentence(char *text, size_t room, const struct why *why, int than_stage, bytes_writer *bytes);
/* Of a tier that other knobs than the stage fill: "the host tier holds 1.1 MB at its peak: staging (0.7 MB), gradients (0.4 MB);
 * 0.4 MB of it stay between steps". */
void why_tier_sentence(char *text, size_t room, const struct why *why, bytes_writer *bytes);

/* What a change costs a step beside memory: "bus +15.0 MB a step, matmul FLOPs +22.2 %". "": nothing of that kind. */
void why_cost(char *text, size_t room, const struct why_plan *now, const struct why_plan *then, bytes_writer *bytes);

/* What a switch of stage or knob changed, as measured: the last steps before and the first after. Memory is that of the
 * fullest rank at its fullest instant in these steps; the rest are means, over steps and ranks. */
enum { WHY_SWITCH_STEPS = 5 };
struct why_side {
    int steps;                           /* so many were seen; 0: none, and the rest unknown */
    int stage;
    struct run_fullest memory[TIERS];
    bool has_sent, has_exposed;
    double sent_bytes, step_ns, exposed_ns, tokens_per_s;
};
struct why_switch { uint32_t step; char text[112]; struct why_side before, after; }; /* "stage 2 -> 3" */

/* The last `room` switches, newest first; returns how many. */
int why_switches(const struct run_model *model, struct why_switch out[], int room);

#endif
