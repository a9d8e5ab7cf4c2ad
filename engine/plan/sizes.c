#include "engine/plan/sizes.h"

#include "engine/plan/model.h"

const char *const sizes_keys[SIZES_KEYS] = {
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.allgather_bucket_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.stage3_param_persistence_threshold",
    "schedule.update_tile",
};

/* Elements of the largest of the blocks, or of what they are cut into; and of any unit. False: there is no such model. */
static bool largest(const struct config *config, int64_t *block, int64_t *unit)
{
    struct model model;
    struct config_model shape = config->model;
    shape.layers = 1; /* all blocks are as large */
    if (model_init_tiled(&model, &shape, config->mlp_tiles, config->dtype, NULL)) return false;
    *block = *unit = 0;
    for (int u = 0; u < model.unit_count; u++) {
        const int64_t elems = model.units[u].elems;
        if (model.units[u].block >= 0 && elems > *block) *block = elems;
        if (elems > *unit) *unit = elems;
    }
    model_release(&model);
    return true;
}

static bool lower(int64_t *size, int64_t to)
{
    if (*size <= to) return false;
    *size = to;
    return true;
}

bool sizes_lower(struct config *config, enum sizes sizes)
{
    struct config_zero *zero = &config->zero;
    int64_t block, unit;
    if (sizes == SIZES_GIVEN || !largest(config, &block, &unit)) return false;
    const int64_t square = (int64_t)config->model.hidden * config->model.hidden,
                  bucket = sizes == SIZES_LEAST && square < block ? square : block;
    bool any = lower(&zero->reduce_bucket_elems, bucket);
    any |= lower(&zero->allgather_bucket_elems, bucket);
    any |= lower(&zero->prefetch_bucket_elems, sizes == SIZES_LEAST ? 0 : block);
    any |= lower(&zero->max_reuse_distance, 0);
    any |= lower(&zero->param_persistence_threshold, 0);
    any |= lower(&zero->update_tile_elems, block);
    return any;
}

void sizes_default(struct config *config)
{
    struct config scaled = *config;
    char value[64];
    sizes_lower(&scaled, SIZES_BLOCK);
    for (int k = 0; k < SIZES_KEYS; k++) {
        if (config_is_given(config, sizes_keys[k])) continue;
        config_show(&scaled, sizes_keys[k], value, sizeof value);
        config_try(config, sizes_keys[k], value, NULL);
    }
}

void sizes_scale(struct config *config)
{
    struct config_zero *zero = &config->zero;
    int64_t block, unit;
    if (!largest(config, &block, &unit)) return;
    zero->reduce_bucket_elems = zero->allgather_bucket_elems = zero->prefetch_bucket_elems = block;
    zero->param_buffer_elems = unit;
}
