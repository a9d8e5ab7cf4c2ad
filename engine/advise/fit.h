/* `zerolab plan --fit`: which setups train a model within the budgets, and how deep a model of its width could be. The
 * engine runs by the same plans: a take fails when a tier's live bytes would pass its budget, and the plan counts
 * the same bytes. */
#pragma once

#include <stdio.h>

#include "engine/plan/footprint.h"
#include "engine/plan/setup.h"
#include "engine/plan/sizes.h"

enum { FIT_LAYERS_MAX = 1000 }; /* the most layers that a search tries; the search then takes tenths of a second */

/* The first three limit one rank's tier. The others limit this machine, for all ranks: MEMORY its host tiers (on the
 * CPU backend also its device tiers), DISK its NVMe tiers. */
enum fit_limit { FIT_DEVICE, FIT_HOST, FIT_NVME, FIT_MEMORY, FIT_DISK, FIT_LIMITS };

struct fit_limits {
    uint64_t bytes[FIT_LIMITS]; /* 0: none */
    const char *folder;         /* a folder on the NVMe disk, if the configuration names none */
    bool keep_sets;             /* what --set gave stays in every setup */
};

const char *fit_limit_name(enum fit_limit limit);

/* A setup: the stage, the tier of optimizer states and of parameters, what backward recomputes, the number of MLP tiles
 * (0: as configured), and the sizes of buckets and prefetch. */
struct fit_setup { int stage; enum offload optimizer, param; enum recompute recompute; int tiles; enum sizes sizes; bool keep_sets; };

/* All setups that the engine supports; recomputation, tiles and sizes are varied in addition. */
enum { FIT_SETUPS = 14, FIT_RECOMPUTES = 3, FIT_TILES_MAX = 16 };
extern const struct fit_setup fit_setups[FIT_SETUPS];

/* Planned needs of a step. */
struct fit_plan {
    bool planned;           /* false: the configuration is refused, see `refusal` */
    char refusal[200];
    int64_t parameters;
    struct {
        int64_t bytes, working; /* working: device bytes held only within a step */
        enum tier tier;     /* tier of the fullest category */
        enum category most; /* at that tier's peak */
    } need[FIT_LIMITS];
    int64_t nvme_bytes, bus_bytes, sent_bytes; /* per rank and step: over NVMe, over the host bus, to other ranks */
    struct flops flops;
};

void fit_plan_of(struct fit_plan *plan, const struct config *config);
/* The same for the configuration changed to that setup (fit_apply). */
void fit_plan_setup(struct fit_plan *plan, const struct config *config, const struct fit_setup *setup, const char *folder);

/* Bytes over a limit; 0: within, or there is none. */
int64_t fit_short(const struct fit_plan *plan, const struct fit_limits *limits, enum fit_limit limit);
/* The limit that a plan exceeds most, as a share of the limit; FIT_LIMITS: it fits. Requires plan->planned. */
enum fit_limit fit_stop(const struct fit_plan *plan, const struct fit_limits *limits);
/* The bytes over fit_stop()'s limit, as a share of that limit; 0: it fits. */
double fit_lack(const struct fit_plan *plan, const struct fit_limits *limits);
bool fit_fits(const struct fit_plan *plan, const struct fit_limits *limits);

/* Changes the configuration to that setup. Turns off settings that conflict with it: a delayed update, a ratio,
 * max_in_cpu if it was not given. With keep_sets, sizes that --set gave stay as they are. STATUS_USAGE: still refused, or another
 * key that --set gave would change. */
int fit_apply(struct config *config, const struct fit_setup *setup, const char *folder, struct error *err);

/* Calls `visit` for each key to set to reach that setup, without the sizes that do not change its step. */
typedef void fit_visit(void *user, const char *key, const char *value);
void fit_sets(const struct config *config, const struct fit_setup *setup, const char *folder, fit_visit *visit, void *user);
/* The same for the sizes alone: the fewest changes with which the step stays within the limits of its tiers (0: no limit).
 * Sets peak_bytes to the peaks of that step. False: the step does not fit, or no size can be lowered. */
bool fit_size_sets(const struct config *config, enum sizes sizes, const uint64_t limits[TIERS], int64_t peak_bytes[TIERS],
                   fit_visit *visit, void *user);
/* Whether the configuration sets recomputation, or tiles; if not, fit may choose it. */
bool fit_recompute_is_given(const struct config *config);
bool fit_tiles_are_given(const struct config *config);

/* ---- the model as it is ---- */

struct fit_candidate { struct fit_setup setup; struct fit_plan plan; };

/* Order of cost: fewer bytes over NVMe, fewer over the bus, less recomputation, fewer tiles, sizes as given, fewer
 * bytes between ranks, a lower stage. So no rate is assumed: where a model must be offloaded at all, each of these is
 * slower than the next. */
struct fit_cheapest {
    int count, chosen;  /* -1: nothing fits */
    struct fit_candidate candidates[2 * FIT_SETUPS * FIT_RECOMPUTES]; /* cheapest first; each as configured and, where that does
                                                                         not fit, with smaller sizes or tiles */
};

void fit_cheapest(struct fit_cheapest *out, const struct config *config, const struct fit_limits *limits);

/* ---- how deep ---- */

/* How a model grows: deeper at the same width, or wider with depth, as GPT-2's family. */
enum fit_growth { FIT_GROW_DEEPER, FIT_GROW_AS_GPT2 };

struct fit_depth {
    struct fit_setup setup;
    int layers, hidden;     /* the deepest that fits; layers 0: not even one layer */
    struct fit_plan plan;   /* of that depth */
    struct fit_plan next;   /* with one layer more; not planned at FIT_LAYERS_MAX */
};

void fit_deepest(struct fit_depth *depth, const struct config *config, const struct fit_setup *setup,
                 const struct fit_limits *limits, enum fit_growth growth);

/* The configuration at a depth. FIT_GROW_AS_GPT2 also adapts width, heads and sizes that depend on a block, but keeps sizes that
 * --set gave. */
void fit_grow(struct config *config, int layers, enum fit_growth growth);

/* Settings for GPT-2's family: its kind of model, in mixed precision, with its full context. */
enum { FIT_FAMILY_SETS = 4, FIT_FAMILY_HEAD = 64 }; /* channels of a head */
extern const char *const fit_family_sets[FIT_FAMILY_SETS];

/* ---- the whole answer ---- */

struct fit_question {
    const struct config *config;
    struct fit_limits limits;
    bool any_model;          /* no model was given: GPT-2's family, grown */
    uint64_t machine_bytes;  /* this machine's memory, if the budgets are larger; else 0 */
    int ranks_on_gpu;        /* ranks that share a GPU; 0: device tiers are not on GPUs */
    uint64_t gpu_bytes;      /* free on a GPU; 0: unknown. A rank without a budget gets an equal part of it */
};

struct fit_answer {
    bool fits;                            /* the model as it is can be trained; true if no model was given */
    struct fit_cheapest cheapest;
    struct fit_depth depths[FIT_SETUPS];  /* with the configured recomputation and tiles */
    struct fit_depth smaller;             /* the deepest over all setups with SIZES_LEAST, the cheapest setup's tiles and, if fit may
                                             choose it, full recomputation; 0 layers: none is larger than `depths` */
};

/* NULL: no memory. Some hundred plans, tenths of a second; free() it. */
struct fit_answer *fit_answer(const struct fit_question *question, struct error *err);

/* "stage 3, offload_optimizer cpu, model.recompute full, model.mlp_tiles 4, the least buckets and prefetch" */
const char *fit_setup_text(char text[160], const struct fit_setup *setup);

int fit_print(FILE *out, bool as_json, const struct fit_question *question, const struct fit_answer *answer, struct error *err);
