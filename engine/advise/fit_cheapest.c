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

static double lack(const struct fit_plan *plan, const struct fit_limits *limits)
{
    const enum fit_limit stop = fit_stop(plan, limits);
    return stop == FIT_LIMITS ? 0 : (double)fit_short(plan, limits, stop) / (double)limits->bytes[stop];
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
        if (other.plan.planned && lack(&other.plan, limits) < lack(&best->plan, limits)) *best = other;
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
            const struct fit_candidate *whole = add(out, config, setup, limits);
            add_smaller(out, config, whole, limits, tiles_given);
        }
    qsort(out->candidates, (size_t)out->count, sizeof *out->candidates, by_cost);
    for (int c = out->count - 1; c >= 0; c--)
        if (fit_fits(&out->candidates[c].plan, limits)) out->chosen = c;
}
