/* The arrays that a rank keeps between steps. Whether each is whole or a shard says stage_rules.h; where parameters are sharded,
 * each unit's tail of small tensors stays gathered too. This file says where the arrays lie: on the device, or what a rank owns
 * in host memory (ZeRO-Offload, section 4; ZeRO-Infinity, section 5):
 *
 *     offload_optimizer   the optimizer's shards, and the own shard of gradients; at stage 1 also whole gradients, on the device
 *     offload_param       the parameter shards of stage 3
 *
 * or on NVMe, at stage 3. There gradients stay in host memory, because all of them are needed to know the norm; and so do the
 * first max_in_cpu elements of parameters.
 *
 * In fp32 training the parameters are their own master weights, if both lie in the same tier and updates are not delayed (then
 * the old parameters are used while the new ones are made); what else is optimizer state says optimizers.def. */
#include "engine/plan/builder.h"
#include "engine/plan/stage_rules.h"

static const struct stage_rules *rules_of(const struct builder *builder)
{
    return stage_rules(builder->schedule->stage);
}

static int in_tier(struct builder *builder, enum tier tier, const char *name, enum category category,
                   enum extent extent, enum dtype dtype, int unit)
{
    return builder_unit_buffer_in(builder, tier, name, category, extent, dtype, unit, true);
}

/* Of NVMe: the first units stay in host memory, until max_in_cpu elements do. */
static enum tier parameters_tier(const struct builder *builder, int u)
{
    const struct config_zero *knobs = &builder->schedule->knobs;
    if (!stage_gathers(rules_of(builder)) || knobs->offload_param == OFFLOAD_NONE) return TIER_DEVICE;
    if (knobs->offload_param == OFFLOAD_CPU) return TIER_HOST;
    int64_t elems = 0;
    for (int v = 0; v <= u && elems <= knobs->max_in_cpu_elems; v++)
        elems += schedule_shard_elems(builder->schedule, builder->model, v);
    return elems <= knobs->max_in_cpu_elems ? TIER_HOST : TIER_NVME;
}

static void place_parameters(struct builder *builder, struct unit_layout *layout, int u)
{
    const struct model *model = builder->model;
    const enum extent extent = rules_of(builder)->parameters;
    const bool tail = extent == EXTENT_SHARD &&
                      persistent_from(model, &builder->schedule->knobs, u) < model->units[u].elems;
    layout->parameters = in_tier(builder, parameters_tier(builder, u), "parameters", CATEGORY_PARAMETERS,
                                 extent, model->dtype, u);
    layout->tail =
        tail ? in_tier(builder, TIER_DEVICE, "small tensors", CATEGORY_GATHERED, EXTENT_TAIL, model->dtype, u) : -1;
}

static void place_gradient(struct builder *builder, struct unit_layout *layout, int u)
{
    const enum dtype dtype = builder->model->gradient;
    const enum extent extent = rules_of(builder)->gradients;
    const bool on_device = layout_optimizer_tier(builder->schedule, builder->model, u) == TIER_DEVICE;
    const enum tier tier = on_device ? TIER_DEVICE : TIER_HOST;
    layout->whole = extent == EXTENT_WHOLE
                        ? in_tier(builder, TIER_DEVICE, "gradient", CATEGORY_GRADIENTS, extent, dtype, u)
                        : -1;
    layout->gradient = layout->whole >= 0 && tier == TIER_DEVICE
                           ? layout->whole
                           : in_tier(builder, tier, "gradient", CATEGORY_GRADIENTS, EXTENT_SHARD, dtype, u);
}

/* LoCo keeps int8 blocks; here 16 bits an element, so that a bucket may be cut anywhere. */
static void place_errors(struct builder *builder, struct unit_layout *layout, int u)
{
    const bool keeps = schedule_quantizes_gradients(builder->schedule) && builder->schedule->knobs.loco_beta > 0;
    layout->errors = keeps ? in_tier(builder, TIER_DEVICE, "gradient errors", CATEGORY_GRADIENTS, EXTENT_WHOLE, DTYPE_BF16, u)
                           : -1;
}

static void place_optimizer(struct builder *builder, struct unit_layout *layout, int u)
{
    const struct config_zero *knobs = &builder->schedule->knobs;
    const struct optimizer_info *keeps = &optimizer_table[builder->model->optimizer];
    const enum tier tier = layout_optimizer_tier(builder->schedule, builder->model, u);
    const enum extent extent = rules_of(builder)->optimizer;
    const bool own_master =
        builder->model->dtype != DTYPE_F32 || tier != parameters_tier(builder, u) || knobs->delayed_update;
    layout->master =
        own_master ? in_tier(builder, tier, "master", CATEGORY_OPTIMIZER, extent, DTYPE_F32, u) : layout->parameters;
    for (int s = 0; s < OPTIMIZER_STATES_MAX; s++)
        layout->state[s] =
            s < keeps->states ? in_tier(builder, tier, keeps->state[s], CATEGORY_OPTIMIZER, extent, DTYPE_F32, u) : -1;
}

void layout_build(struct builder *builder)
{
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++) {
        struct unit_layout *layout = &builder->layout[u];
        place_parameters(builder, layout, u);
        place_gradient(builder, layout, u);
        place_errors(builder, layout, u);
        place_optimizer(builder, layout, u);
    }
    builder->schedule->lasting_count = builder->schedule->buffer_count;
}

int layout_array(const struct unit_layout *layout, enum role role)
{
    switch (role) {
    case ROLE_PARAMETERS: return layout->parameters;
    case ROLE_MASTER: return layout->master;
    case ROLE_STATE1: return layout->state[0];
    case ROLE_STATE2: return layout->state[1];
    case ROLE_GRADIENT: return layout->gradient;
    default: return -1;
    }
}

static int64_t sub_groups(const struct schedule *schedule, const struct model *model, int unit)
{
    const int64_t shard = schedule_shard_elems(schedule, model, unit), most = schedule->knobs.sub_group_elems;
    return most > 0 ? shard / most + (shard % most > 0) : 1;
}

/* DeepSpeed's Twin-Flow: of n sub-groups those from (1 - ratio) n on are updated on the host. Here a unit's lie together: where
 * its first does. */
enum tier layout_optimizer_tier(const struct schedule *schedule, const struct model *model, int unit)
{
    const struct config_zero *knobs = &schedule->knobs;
    int64_t before = 0, all = 0;
    const struct stage_rules *rules = stage_rules(schedule->stage);
    if (knobs->offload_optimizer == OFFLOAD_NONE || rules->optimizer == EXTENT_WHOLE) return TIER_DEVICE;
    const enum tier away = knobs->offload_optimizer == OFFLOAD_NVME ? TIER_NVME : TIER_HOST;
    if (!rules->sub_groups || knobs->offload_ratio >= 1) return away;
    for (int u = 0; u < model->unit_count; u++) {
        if (u == unit) before = all;
        all += sub_groups(schedule, model, u);
    }
    return before >= (int64_t)((1 - knobs->offload_ratio) * (double)all) ? away : TIER_DEVICE;
}
