#include "engine/advise/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one step ---- */

/* rates and footprint may be NULL. */
static int simulate_config(double *step_s, struct rates *rates, struct footprint *footprint, const struct config *config,
                           const struct advice *advice, struct error *err)
{
    struct setup setup;
    int status = setup_init_checked(&setup, config, err);
    if (status) return status;
    const struct cost_input cost = cost_of(&setup, config, advice->hardware);
    if (footprint) *footprint = setup.footprint;
    status = simulate_once(step_s, NULL, &cost, err);
    if (!status && rates) *rates = rates_of(&cost, *step_s);
    setup_release(&setup);
    return status;
}

/* ---- which setup ---- */

/* Of two that take as long the one that needs less of a device. */
static bool is_better(const struct advised *one, const struct advised *other)
{
    if (other->step_s == 0 || one->step_s != other->step_s) return other->step_s == 0 || one->step_s < other->step_s;
    return one->candidate.plan.need[FIT_DEVICE].bytes < other->candidate.plan.need[FIT_DEVICE].bytes;
}

static void weigh(struct advice *advice, const struct advised *found)
{
    advice->fitting++;
    if (is_better(found, &advice->best)) advice->next = advice->best, advice->best = *found;
    else if (is_better(found, &advice->next)) advice->next = *found;
}

/* Candidates come cheapest first. Of those that do not fit the cheapest is named, if it is cheaper than all that do; and where
 * none does, the one that lacks least. */
static int try_candidates(struct advice *advice, const struct fit_cheapest *all, const struct config *config, struct error *err)
{
    int status = STATUS_OK;
    for (int c = 0; c < all->count && !status; c++) {
        const struct fit_candidate *candidate = &all->candidates[c];
        struct advised found = {.candidate = *candidate};
        if (!candidate->plan.planned) continue;
        if (!fit_fits(&candidate->plan, &advice->limits)) {
            const bool nearer = !advice->has_lacking || fit_lack(&candidate->plan, &advice->limits) < fit_lack(&advice->nearest.plan, &advice->limits);
            if (!advice->has_lacking && !advice->fitting) advice->cheaper = *candidate;
            if (nearer) advice->nearest = *candidate;
            advice->has_lacking |= !advice->fitting;
            continue;
        }
        *advice->config = *config;
        status = fit_apply(advice->config, &candidate->setup, advice->limits.folder, err);
        if (!status) status = simulate_config(&found.step_s, &found.rates, NULL, advice->config, advice, err);
        if (!status) weigh(advice, &found);
    }
    return status;
}

/* ---- what makes it faster ---- */

static int by_seconds(const void *a, const void *b)
{
    const struct tuned *one = a, *other = b;
    return (one->step_s > other->step_s) - (one->step_s < other->step_s);
}

/* Stage and tiers have been chosen. */
static bool is_same_setup(const struct config *one, const struct config *other)
{
    return one->zero.stage == other->zero.stage && one->zero.offload_optimizer == other->zero.offload_optimizer &&
           one->zero.offload_param == other->zero.offload_param;
}

static int tune(struct advice *advice, struct error *err)
{
    struct config *changed = malloc(sizeof *changed);
    if (!changed) return error_set(err, STATUS_RUN, "no memory for a configuration");
    for (int number = 0, made;; number++) {
        struct tuned tuned;
        struct footprint footprint;
        *changed = *advice->config;
        if ((made = why_tune(number, &tuned.change, changed)) < 0) break;
        if (!made || !is_same_setup(changed, advice->config)) continue;
        if (simulate_config(&tuned.step_s, NULL, &footprint, changed, advice, NULL)) continue;
        tuned.peak_bytes = footprint.peak_bytes[TIER_DEVICE];
        tuned.fits = footprint_fits(&footprint, advice->limits.bytes);
        const bool faster = tuned.step_s < 0.995 * advice->best.step_s;
        if (faster && advice->tuned_count < ADVICE_TUNINGS_MAX) advice->tuned[advice->tuned_count++] = tuned;
    }
    free(changed);
    qsort(advice->tuned, (size_t)advice->tuned_count, sizeof *advice->tuned, by_seconds);
    return STATUS_OK;
}

/* ---- all ---- */

/* Budgets of the configuration come first. Host and NVMe have no limit but theirs: a profile does not say how large they are. */
static void set_limits(struct advice *advice, const struct config *config)
{
    for (int tier = 0; tier < TIERS; tier++) advice->limits.bytes[tier] = config->budget_bytes[tier];
    if (!advice->limits.bytes[FIT_DEVICE]) advice->limits.bytes[FIT_DEVICE] = advice->hardware->memory_bytes / 1000 * ADVICE_ROOM;
    advice->limits.folder = "/local_nvme";
    advice->limits.keep_sets = true;
}

int advice_find(struct advice *advice, const struct config *config, const struct hardware *hardware, struct error *err)
{
    *advice = (struct advice){.hardware = hardware, .config = malloc(sizeof *advice->config)};
    struct fit_cheapest *all = malloc(sizeof *all);
    struct config *overlapping = malloc(sizeof *overlapping);
    set_limits(advice, config);
    int status = all && overlapping && advice->config ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for the setups");
    if (!status) {
        *overlapping = *config;
        if (config->overlap_follows_stage) overlapping->zero.overlap_comm = true, overlapping->overlap_follows_stage = false;
        fit_cheapest(all, overlapping, &advice->limits);
        status = try_candidates(advice, all, overlapping, err);
    }
    if (!status && advice->fitting) {
        *advice->config = *overlapping;
        status = fit_apply(advice->config, &advice->best.candidate.setup, advice->limits.folder, err);
        if (!status) status = tune(advice, err);
    }
    free(overlapping);
    free(all);
    if (status) advice_release(advice);
    return status;
}

void advice_release(struct advice *advice)
{
    free(advice->config); /* its texts are those of the caller's configuration */
    advice->config = NULL;
}
