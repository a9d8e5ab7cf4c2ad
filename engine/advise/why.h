/* Explains a rank's tier at its peak: the categories held, their terms, the key that owns each, and the effect of
 * changing that key, computed by planning again with the other value.
 *
 *     struct why why = {0};
 *     while (...) if (why_peak(&why, model, rank, TIER_DEVICE, &err) == STATUS_OK) show(&why);
 *
 * The result keeps the plans; why_peak() plans again only when the run or its keys change. It reads measured bytes each
 * time. */
#pragma once

#include "engine/base/grouped.h"
#include "engine/observe/questions.h"
#include "engine/observe/totals.h"

enum { WHY_TERMS_MAX = 12, WHY_CHANGES_MAX = 4, WHY_STAGES = 4 };

/* 834304 | "master weights, 1 shard of 4" | "4 B × 208,576 elements" */
struct why_term { uint64_t bytes; char what[72], formula[120]; };

/* Planned results of a configuration, for each rank. */
struct why_plan {
    bool known;
    uint64_t peak_bytes, resting_bytes, sent_bytes; /* of the whole tier; sent: per step */
    uint64_t bus_bytes, nvme_bytes;                 /* per step: over the bus to the host and back; over NVMe */
    uint64_t across_bytes, collectives;             /* per step: the part of sent_bytes to other nodes; operations of the lane comm */
    double recomputed;                              /* recomputed products, as a share of forward's and backward's */
    uint64_t at_peak_bytes[CATEGORIES];             /* at the instant of the tier's peak */
    uint64_t tier_peak_bytes[TIERS];                /* by tier, because bytes that leave one tier may go to another */
};

struct why_change {
    char command[160];  /* as typed: "stage=3", "set KEY=VALUE", joined by "; "; restart: "--set KEY=VALUE ..." */
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
    const char *knob, *how;              /* the key that owns the category; one sentence on how */
    char sizes[48];                      /* of activations: the sizes in formulas, "256 tokens, width 128"; else "" */
    int change_count;
    struct why_change changes[WHY_CHANGES_MAX]; /* changes that lower the peak first, lowest peak first */
};

struct why {
    uint64_t made_from;                  /* hash of the inputs of the plans; 0: nothing planned yet */
    int rank;
    enum tier tier;
    int stage;
    bool measured;                       /* a whole step of this plan was seen */
    uint64_t peak_bytes;                 /* measured */
    struct why_plan plan;                /* the plan of the present configuration */
    bool other_version;                  /* the version that recorded the trace planned the step differently */
    uint32_t schedule;
    int peak_op;                         /* the operation of `schedule` at which the plan peaks; -1: between steps */
    int tenant_count;
    struct why_tenant tenants[CATEGORIES];      /* most bytes first */
    struct why_change stages[WHY_STAGES];       /* each stage with the other knobs as they are */
};

/* STATUS_INPUT: the trace does not say enough (no configuration, no schedule). */
int why_peak(struct why *why, const struct run_model *model, int rank, enum tier tier, struct error *err);

/* The key that decides how many bytes of a category lie in a tier at its peak (planned_bytes of them by plan); the
 * tier's budget key if no plan has the category there. *how is set to one sentence; `how` may be NULL. */
const char *why_owner(const char **how, const struct config *config, enum tier tier, enum category category, uint64_t planned_bytes);

/* The answer in one sentence: "by plan, stage 2 holds 3.1 MB more at its peak than stage 1: buckets (+3.3 MB)
 * outweigh gradients (-0.2 MB)". `bytes` writes an amount in the reader's unit. */
void why_sentence(char *text, size_t room, const struct why *why, int than_stage, bytes_writer *bytes);
/* The sentence for a tier that is filled by other keys than the stage: "by plan, the host tier holds 1.1 MB at its
 * peak: staging (0.7 MB), gradients (0.4 MB); 0.4 MB of it stay between steps". */
void why_tier_sentence(char *text, size_t room, const struct why *why, bytes_writer *bytes);

/* A change's costs per step other than memory: "bus +15.0 MB a step, matmul FLOPs +22.2 %". "": no such cost. */
void why_cost(char *text, size_t room, const struct why_plan *now, const struct why_plan *then, bytes_writer *bytes);

/* ---- what compute waited for ---- */

/* One reason why compute waits (STALL_PEERS: why any lane does), the key that decides how long, and changes that lead to another step. */
struct why_stall {
    enum stall stall;
    double ns, share;               /* ns per step and rank; its share (0 to 1) of the step */
    const char *knob, *how;         /* NULL: no key decides; one sentence */
    int change_count;
    struct why_change changes[WHY_CHANGES_MAX]; /* the most promising first */
};

/* The longest waits first, at most `room`, each at least this share of the step. `totals`: sums over `parts` steps of ranks. */
#define WHY_STALL_LEAST 0.01
int why_stalls(struct why_stall out[], int room, const struct totals *totals, double parts);
/* Plans the changes that are offered against a wait, and keeps those that lead to another step; *now: the present plan. Plans are of
 * rank 0's device tier. Memory and bytes are planned, time is not. STATUS_USAGE, STATUS_RUN: the configuration cannot be planned. */
int why_stall_changes(struct why_stall *stall, struct why_plan *now, const struct config *config, struct error *err);

/* Makes change `number` in `config`; the changes that are offered against waits are numbered from 0 on. 1: made; 0: the change does not
 * apply to this configuration, which may be half changed; -1: no change has this number. */
int why_tune(int number, struct why_change *change, struct config *config);

/* Measured effect of a switch of stage or key: the last steps before it and the first after it. Memory is the fullest
 * rank's at its fullest instant in these steps; the other figures are means over steps and ranks. */
enum { WHY_SWITCH_STEPS = 5 };
struct why_side {
    int steps;                           /* number of steps seen; 0: none, the rest is unknown */
    int stage;
    struct run_fullest memory[TIERS];
    bool has_sent, has_exposed;
    double sent_bytes, step_ns, exposed_ns, tokens_per_s;
};
struct why_switch { uint32_t step; char text[112]; struct why_side before, after; }; /* "stage 2 -> 3" */

/* The last `room` switches, newest first; returns how many. */
int why_switches(const struct run_model *model, struct why_switch out[], int room);

/* ---- shortage.c: an out-of-memory error: bytes by category at that instant, the key that owns each, changes that fit ---- */

struct cJSON;
struct zero_shortage;
/* The detail of the "oom" event; the keys are those that observe/model.h reads. schedule NULL: no step was under way. */
struct cJSON *shortage_json(const struct zero_shortage *shortage, const struct config *config, const struct model *model,
                            const struct schedule *schedule, int ranks);
