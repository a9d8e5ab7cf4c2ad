/* `zerolab plan --fit`: which ways of holding a model train it within budgets, and how deep a model of its width could be. The
 * answers are the very plans that an engine runs by: a take fails when a tier's live bytes would pass its budget, and the
 * plan's running sums are those bytes. */
#ifndef ENGINE_ADVISE_FIT_H
#define ENGINE_ADVISE_FIT_H

#include <stdio.h>

#include "engine/plan/footprint.h"
#include "engine/plan/setup.h"
#include "engine/plan/sizes.h"

enum { FIT_LAYERS_MAX = 1000 }; /* what model.layers may be */

/* The first three are a rank's tiers; the others are this machine's, shared by all ranks: the host tiers are its memory, on the CPU
 * backend with the device tiers, and the NVMe tiers its disk. */
enum fit_limit { FIT_DEVICE, FIT_HOST, FIT_NVME, FIT_MEMORY, FIT_DISK, FIT_LIMITS };

struct fit_limits {
    uint64_t bytes[FIT_LIMITS]; /* 0: none */
    const char *folder;         /* on the disk in question, where the configuration names none */
};

const char *fit_limit_name(enum fit_limit limit);

/* A way to hold a model: what is sharded, where the rest lies, what backward makes again, into how many tiles MLPs are cut
 * (0: as configured), and how large buckets are and what is gathered ahead. */
struct fit_setup { int stage; enum offload optimizer, param; enum recompute recompute; int tiles; enum sizes sizes; };

/* All that an engine can do, but for recomputation, tiles and sizes. */
enum { FIT_SETUPS = 14, FIT_RECOMPUTES = 3, FIT_TILES_MAX = 16 };
extern const struct fit_setup fit_setups[FIT_SETUPS];

/* What a step needs, by plan. */
struct fit_plan {
    bool planned;           /* false: it is refused, because: */
    char refusal[200];
    int64_t parameters;
    struct {
        int64_t bytes, working; /* working: of the device tier's, those that are held within a step only */
        enum tier tier;     /* where the fullest category lies */
        enum category most; /* at that tier's peak */
    } need[FIT_LIMITS];
    int64_t nvme_bytes, bus_bytes, sent_bytes; /* of a rank and step: over NVMe, over the bus to the host, to other ranks */
    struct flops flops;
};

void fit_plan_of(struct fit_plan *plan, const struct config *config);
/* ... of the configuration changed to that setup (fit_apply). */
void fit_plan_setup(struct fit_plan *plan, const struct config *config, const struct fit_setup *setup, const char *folder);

/* Bytes over a limit; 0: within, or there is none. */
int64_t fit_short(const struct fit_plan *plan, const struct fit_limits *limits, enum fit_limit limit);
/* The limit that is passed by most, as a part of itself; FIT_LIMITS: none is, it fits. Of a plan that was made. */
enum fit_limit fit_stop(const struct fit_plan *plan, const struct fit_limits *limits);
bool fit_fits(const struct fit_plan *plan, const struct fit_limits *limits);

/* The configuration changed to that setup. What cannot go with it gives way: a delayed update, a ratio, max_in_cpu where it was
 * not given. STATUS_USAGE: refused all the same. */
int fit_apply(struct config *config, const struct fit_setup *setup, const char *folder, struct error *err);

/* What is to be set to get there, key by key: no more of the sizes than makes that very step. */
typedef void fit_visit(void *user, const char *key, const char *value);
void fit_sets(const struct config *config, const struct fit_setup *setup, const char *folder, fit_visit *visit, void *user);
/* ... to sizes with which a step stays within the limits of its tiers (0: none): no more of them than that takes, and the peaks
 * then. False: it does not. */
bool fit_size_sets(const struct config *config, enum sizes sizes, const uint64_t limits[TIERS], int64_t peak_bytes[TIERS],
                   fit_visit *visit, void *user);
/* Whether the configuration says what is recomputed, and how MLPs are tiled; else that may be chosen. */
bool fit_recompute_is_given(const struct config *config);
bool fit_tiles_are_given(const struct config *config);

/* ---- the model as it is ---- */

struct fit_candidate { struct fit_setup setup; struct fit_plan plan; };

/* Cheap is, in this order: fewer bytes over NVMe, fewer over the bus, less made again, fewer tiles, sizes as they are given, fewer
 * bytes between ranks, a lower stage. So no rate has to be assumed: each of these is slower than what stands after it wherever a model
 * has to be offloaded at all. */
struct fit_cheapest {
    int count, chosen;  /* -1: nothing fits */
    struct fit_candidate candidates[2 * FIT_SETUPS * FIT_RECOMPUTES]; /* cheapest first; each as configured and, where that does
                                                                         not fit, with smaller sizes or tiles */
};

void fit_cheapest(struct fit_cheapest *out, const struct config *config, const struct fit_limits *limits);

/* ---- how deep ---- */

/* How a model grows: at its width, or as GPT-2's family does, wider with depth. */
enum fit_growth { FIT_GROW_DEEPER, FIT_GROW_AS_GPT2 };

struct fit_depth {
    struct fit_setup setup;
    int layers, hidden;     /* the deepest; 0: not even one layer */
    struct fit_plan plan;   /* of it */
    struct fit_plan next;   /* one layer more; not planned where a model may have no more */
};

void fit_deepest(struct fit_depth *depth, const struct config *config, const struct fit_setup *setup,
                 const struct fit_limits *limits, enum fit_growth growth);

/* The configuration at a depth. Grown as GPT-2 its width, heads and the knobs that are about a block follow. */
void fit_grow(struct config *config, int layers, enum fit_growth growth);

/* What is set for the family: a model of GPT-2's kind, in mixed precision, with its whole context. */
enum { FIT_FAMILY_SETS = 4, FIT_FAMILY_HEAD = 64 }; /* channels of a head */
extern const char *const fit_family_sets[FIT_FAMILY_SETS];

/* ---- the whole answer ---- */

struct fit_question {
    const struct config *config;
    struct fit_limits limits;
    bool any_model;          /* no model was given: GPT-2's family, grown */
    uint64_t machine_bytes;  /* this machine's memory, where budgets are larger than it; 0: they are not */
    int ranks_on_gpu;        /* that share one, where device tiers lie on GPUs; 0: they do not */
    uint64_t gpu_bytes;      /* free on it; 0: not known. Of this a rank has its part, where it has no budget */
};

struct fit_answer {
    bool fits;                            /* the model as it is can be trained; true where none was given */
    struct fit_cheapest cheapest;
    struct fit_depth depths[FIT_SETUPS];  /* with recomputation and tiles as they are configured */
    struct fit_depth smaller;             /* the deepest of all with full recomputation, where that may be chosen, the least sizes,
                                             and the tiles of the cheapest, if that goes further than any of them; else 0 layers */
};

/* NULL: no memory. Some hundred plans, tenths of a second; free() it. */
struct fit_answer *fit_answer(const struct fit_question *question, struct error *err);

void fit_print(FILE *out, const struct fit_question *question, const struct fit_answer *answer);
int fit_print_json(FILE *out, const struct fit_question *question, const struct fit_answer *answer, struct error *err);

#endif
