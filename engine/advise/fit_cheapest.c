/* Finds the cheapest setup for a model as it is. Plans every setup with every recomputation; if that does not fit, also
 * with smaller buckets and gathers, and if only a step's working memory does not fit, with the MLPs cut into tiles. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/fit.h"

static int by_numbers(const long double *one, const long double *other, int count)
{
    for (int i = 0; i < count; i++)
        if (one[i] != other[i]) return one[i] < other[i] ? -1 : 1;
    return 0;
}

/* A setup that cannot be planned has no cost and is sorted last. */
static int by_cost(const void *a, const void *b)
{
    const struct fit_candidate *const both[] = {a, b};
    enum { NUMBERS = 9 };
    long double numbers[2][NUMBERS]; /* holds every int64_t exactly */
    for (int i = 0; i < 2; i++) {
        const struct fit_plan *plan = &both[i]->plan;
        const struct fit_setup *setup = &both[i]->setup;
        memcpy(numbers[i],
               (long double[NUMBERS]){!plan->planned, plan->nvme_bytes, plan->bus_bytes, plan->flops.recomputed,
                                      setup->tiles, setup->sizes, plan->sent_bytes, setup->stage,
                                      10 * setup->optimizer + setup->param},
               sizeof numbers[i]);
    }
    return by_numbers(numbers[0], numbers[1], NUMBERS);
}

static struct fit_candidate *add(struct fit_cheapest *out, const struct config *config, struct fit_setup setup,
                                 const struct fit_limits *limits)
{
    struct fit_candidate *candidate = &out->candidates[out->count++];
    candidate->setup = setup;
    fit_plan_setup(&candidate->plan, config, &setup, limits->folder);
    return candidate;
}

/* Tiles lower only the working memory of a step. */
static bool tiles_may_help(const struct fit_plan *plan, const struct fit_limits *limits)
{
    if (!plan->planned || fit_fits(plan, limits)) return false;
    for (int limit = 0; limit < FIT_LIMITS; limit++)
        if (fit_short(plan, limits, (enum fit_limit)limit) > plan->need[limit].working) return false;
    return true;
}

/* The same with other tiles, and the largest sizes that make it fit; or, where none do, with those that come nearest. */
static void try_tiles(struct fit_candidate *best, const struct config *config, int tiles,
                      const struct fit_limits *limits)
{
    for (int sizes = SIZES_GIVEN; sizes < SIZES && !fit_fits(&best->plan, limits); sizes++) {
        struct fit_candidate other = {.setup = best->setup};
        struct config lowered = *config;
        other.setup.tiles = lowered.mlp_tiles = tiles;
        other.setup.sizes = (enum sizes)sizes;
        if (sizes == SIZES_GIVEN ? tiles == config->mlp_tiles : !sizes_lower(&lowered, other.setup.sizes)) continue;
        fit_plan_setup(&other.plan, config, &other.setup, limits->folder);
        if (other.plan.planned && fit_lack(&other.plan, limits) < fit_lack(&best->plan, limits)) *best = other;
    }
}

/* Plans the setup with the fewest tiles that fit, if tiles may be chosen. */
static void add_smaller(struct fit_cheapest *out, const struct config *config, const struct fit_candidate *whole,
                        const struct fit_limits *limits, bool tiles_given)
{
    struct fit_candidate best = *whole;
    if (!whole->plan.planned || fit_fits(&whole->plan, limits)) return;
    try_tiles(&best, config, config->mlp_tiles, limits);
    for (int tiles = 2; !tiles_given && tiles <= FIT_TILES_MAX && tiles_may_help(&best.plan, limits); tiles *= 2)
        try_tiles(&best, config, tiles, limits);
    if (best.setup.tiles != whole->setup.tiles || best.setup.sizes != whole->setup.sizes)
        out->candidates[out->count++] = best;
}

void fit_cheapest(struct fit_cheapest *out, const struct config *config, const struct fit_limits *limits)
{
    static const enum recompute recomputes[FIT_RECOMPUTES] = {RECOMPUTE_NONE, RECOMPUTE_ATTENTION, RECOMPUTE_FULL};
    const bool given = fit_recompute_is_given(config), tiles_given = fit_tiles_are_given(config);
    *out = (struct fit_cheapest){.chosen = -1};
    for (int s = 0; s < FIT_SETUPS; s++)
        for (int r = 0; r < (given ? 1 : FIT_RECOMPUTES); r++) {
            struct fit_setup setup = fit_setups[s];
            setup.recompute = given ? config->zero.recompute : recomputes[r];
            setup.tiles = config->mlp_tiles;
            setup.keep_sets = limits->keep_sets;
            const struct fit_candidate *whole = add(out, config, setup, limits);
            add_smaller(out, config, whole, limits, tiles_given);
        }
    qsort(out->candidates, (size_t)out->count, sizeof *out->candidates, by_cost);
    for (int c = out->count - 1; c >= 0; c--)
        if (fit_fits(&out->candidates[c].plan, limits)) out->chosen = c;
}

/* ---- the keys to set to get from a configuration to a setup that fits ---- */

/* The key as it was before. False: it is so already, or no step can be planned; else the caller releases the plan. */
static bool put_back(struct config *without, struct setup *setup, const struct config *changed,
                     const struct config *config, const char *key)
{
    char before[128], after[128];
    config_show(config, key, before, sizeof before);
    config_show(changed, key, after, sizeof after);
    *without = *changed;
    return strcmp(before, after) && !config_set(without, key, before, NULL) && !setup_init(setup, without, NULL);
}

/* Restores the sizes that make no difference to the step. */
static void keep_what_differs(struct config *changed, const struct config *config)
{
    struct config without;
    struct setup wanted, other;
    if (setup_init(&wanted, changed, NULL)) return;
    for (int k = SIZES_KEYS - 1; k >= 0; k--) {
        if (!put_back(&without, &other, changed, config, sizes_keys[k])) continue;
        if (schedule_same(&wanted.schedule, &other.schedule)) *changed = without;
        setup_release(&other);
    }
    setup_release(&wanted);
}

static bool within(const struct setup *setup, const uint64_t limits[TIERS], int64_t peak_bytes[TIERS])
{
    if (!footprint_fits(&setup->footprint, limits)) return false;
    memcpy(peak_bytes, setup->footprint.peak_bytes, sizeof setup->footprint.peak_bytes);
    return true;
}

/* Restores the sizes without which the step fits too. False: it does not fit, or no step can be planned. */
static bool keep_what_helps(struct config *changed, const struct config *config, const uint64_t limits[TIERS],
                            int64_t peak_bytes[TIERS])
{
    struct config without;
    struct setup setup;
    if (setup_init(&setup, changed, NULL)) return false;
    const bool fits = within(&setup, limits, peak_bytes);
    setup_release(&setup);
    for (int k = SIZES_KEYS - 1; fits && k >= 0; k--) {
        if (!put_back(&without, &setup, changed, config, sizes_keys[k])) continue;
        if (within(&setup, limits, peak_bytes)) *changed = without;
        setup_release(&setup);
    }
    return fits;
}

static void visit_key(const struct config *config, const struct config *changed, const char *key, fit_visit *visit,
                      void *user)
{
    char before[128], after[128];
    config_show(config, key, before, sizeof before);
    config_show(changed, key, after, sizeof after);
    if (strcmp(before, after)) visit(user, key, after);
}

bool fit_size_sets(const struct config *config, enum sizes sizes, const uint64_t limits[TIERS],
                   int64_t peak_bytes[TIERS], fit_visit *visit, void *user)
{
    struct config changed = *config;
    if (!sizes_lower(&changed, sizes) || !keep_what_helps(&changed, config, limits, peak_bytes)) return false;
    for (int k = 0; k < SIZES_KEYS; k++) visit_key(config, &changed, sizes_keys[k], visit, user);
    return true;
}

void fit_sets(const struct config *config, const struct fit_setup *setup, const char *folder, fit_visit *visit,
              void *user)
{
    static const char *const keys[] = {
        "zero_optimization.stage",
        "zero_optimization.offload_optimizer.device",
        "zero_optimization.offload_param.device",
        "zero_optimization.offload_param.max_in_cpu",
        "model.recompute",
        "model.mlp_tiles",
        "schedule.delayed_update",
        "zero_optimization.offload_optimizer.ratio",
        "zero_optimization.offload_optimizer.nvme_path",
    };
    struct config changed = *config;
    const bool nvme = setup->optimizer == OFFLOAD_NVME || setup->param == OFFLOAD_NVME;
    if (fit_apply(&changed, setup, folder, NULL)) return;
    if (setup->sizes != SIZES_GIVEN) keep_what_differs(&changed, config);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        if (strstr(keys[k], "nvme_path") && !nvme) continue;
        if (strstr(keys[k], "max_in_cpu") && setup->param != OFFLOAD_NVME) continue;
        visit_key(config, &changed, keys[k], visit, user);
    }
    for (int k = 0; k < SIZES_KEYS; k++) visit_key(config, &changed, sizes_keys[k], visit, user);
}
