/* The keys to set to get from a configuration to a setup that fits. */
#include <string.h>

#include "engine/advise/fit.h"

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
    for (int tier = 0; tier < TIERS; tier++)
        if (limits[tier] && (uint64_t)setup->footprint.peak_bytes[tier] > limits[tier]) return false;
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
