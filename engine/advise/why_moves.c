/* Which knobs a category of a tier hangs on, and how each would be changed: a function makes one change in a configuration, and
 * says it. A row of `owners` lists those of a category. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/advise/why_parts.h"
#include "engine/base/grouped.h"
#include "engine/plan/sizes.h"

/* ---- one change: writes command and text, and makes it in `config`; false: it is no change, or cannot be made ---- */

static bool set_live(struct why_change *change, struct config *config, const char *key, int64_t from, int64_t to)
{
    char value[32], now[32], then[32];
    snprintf(value, sizeof value, "%" PRId64, to);
    if (from == to || config_set(config, key, value, NULL)) return false;
    const char *leaf = strrchr(key, '.') + 1;
    snprintf(change->command, sizeof change->command, "set %s=%s", key, value);
    snprintf(change->text, sizeof change->text, "%s %s instead of %s", leaf, grouped(then, to), grouped(now, from));
    return true;
}

bool why_to_stage(struct why_change *change, struct config *config, int stage)
{
    char value[16];
    int before = config->zero.stage;
    snprintf(value, sizeof value, "%d", stage);
    if (stage == before || config_set(config, "zero_optimization.stage", value, NULL)) return false;
    snprintf(change->command, sizeof change->command, "stage=%d", stage);
    snprintf(change->text, sizeof change->text, "stage %d instead of %d", stage, before);
    return true;
}

static bool stage_0(struct why_change *change, struct config *config)
{
    return why_to_stage(change, config, 0);
}
static bool stage_1(struct why_change *change, struct config *config)
{
    return why_to_stage(change, config, 1);
}
static bool stage_2(struct why_change *change, struct config *config)
{
    return why_to_stage(change, config, 2);
}
static bool stage_3(struct why_change *change, struct config *config)
{
    return why_to_stage(change, config, 3);
}

/* A bucket larger than a block shrinks to a block, else to half. */
static bool smaller_bucket(struct why_change *change, struct config *config)
{
    struct model model;
    int64_t size = config->zero.reduce_bucket_elems;
    if (model_init(&model, &config->model, config->dtype, NULL)) return false;
    int64_t block = model.units[1].elems;
    model_release(&model);
    return set_live(change, config, "zero_optimization.reduce_bucket_size", size,
                    size > block ? block : (size + 1) / 2);
}

static bool other_overlap(struct why_change *change, struct config *config)
{
    bool now = config->zero.overlap_comm;
    if (config_set(config, "zero_optimization.overlap_comm", now ? "false" : "true", NULL)) return false;
    snprintf(change->command, sizeof change->command, "set zero_optimization.overlap_comm=%s", now ? "false" : "true");
    snprintf(change->text, sizeof change->text, "overlap_comm %s", now ? "false: one thing at a time" : "true");
    return true;
}

static bool no_prefetch(struct why_change *change, struct config *config)
{
    return set_live(change, config, "zero_optimization.stage3_prefetch_bucket_size", config->zero.prefetch_bucket_elems,
                    0);
}

static bool no_reuse(struct why_change *change, struct config *config)
{
    return set_live(change, config, "zero_optimization.stage3_max_reuse_distance", config->zero.max_reuse_distance, 0);
}

static bool no_persistence(struct why_change *change, struct config *config)
{
    return set_live(change, config, "zero_optimization.stage3_param_persistence_threshold",
                    config->zero.param_persistence_threshold, 0);
}

static bool fewer_live(struct why_change *change, struct config *config)
{
    return set_live(change, config, "zero_optimization.stage3_max_live_parameters", config->zero.max_live_parameters,
                    0);
}

/* Where all stays gathered, a limit to one of them leaves it to the other: lookahead gathers again what was let go. */
static bool let_go(struct why_change *change, struct config *config)
{
    static const char *const reuse = "zero_optimization.stage3_max_reuse_distance",
                             *const prefetch = "zero_optimization.stage3_prefetch_bucket_size";
    const int64_t ahead = config->zero.prefetch_bucket_elems;
    struct config lowered = *config;
    char value[32], then[32], now[32];
    if (config->zero.max_reuse_distance == 0 || !sizes_lower(&lowered, SIZES_BLOCK)) return false;
    const int64_t block = lowered.zero.prefetch_bucket_elems;
    snprintf(value, sizeof value, "%" PRId64, block);
    if (block == ahead || config_set(config, reuse, "0", NULL) || config_set(config, prefetch, value, NULL))
        return false;
    snprintf(change->command, sizeof change->command, "set %s=0; set %s=%s", reuse, prefetch, value);
    snprintf(change->text, sizeof change->text, "reuse distance 0 and prefetch %s, not %s", grouped(then, block),
             grouped(now, ahead));
    return true;
}

/* The global batch stays: what a micro-step loses, accumulation makes up for. */
static bool smaller_micro_batch(struct why_change *change, struct config *config)
{
    int before = config->micro_batch_size, steps = config->accumulation_steps;
    if (before % 2 || steps > 500000) return false;
    config->micro_batch_size = before / 2;
    config->accumulation_steps = steps * 2;
    change->restart = true;
    snprintf(change->command, sizeof change->command,
             "--set train_micro_batch_size_per_gpu=%d --set gradient_accumulation_steps=%d", before / 2, steps * 2);
    snprintf(change->text, sizeof change->text, "micro-batch %d instead of %d, accumulation %d instead of %d",
             before / 2, before, steps * 2, steps);
    return true;
}

static bool shorter_sequence(struct why_change *change, struct config *config)
{
    int before = config->data.sequence_length;
    if (before < 2) return false;
    config->data.sequence_length = before / 2;
    change->restart = true;
    snprintf(change->command, sizeof change->command, "--set data.sequence_length=%d", before / 2);
    snprintf(change->text, sizeof change->text, "sequence length %d instead of %d", before / 2, before);
    return true;
}

static bool set_recompute(struct why_change *change, struct config *config, const char *what, const char *text)
{
    enum recompute before = config->zero.recompute;
    if (config_set(config, "model.recompute", what, NULL) || config->zero.recompute == before) return false;
    snprintf(change->command, sizeof change->command, "set model.recompute=%s", what);
    snprintf(change->text, sizeof change->text, "%s", text);
    return true;
}

static bool recompute_full(struct why_change *change, struct config *config)
{
    return set_recompute(change, config, "full", "model.recompute full");
}

static bool recompute_attention(struct why_change *change, struct config *config)
{
    return set_recompute(change, config, "attention", "model.recompute attention");
}

static bool half_precision(struct why_change *change, struct config *config)
{
    if (config->dtype == DTYPE_BF16) return false;
    config->dtype = DTYPE_BF16;
    change->restart = true;
    snprintf(change->command, sizeof change->command, "--set bf16.enabled=true");
    snprintf(change->text, sizeof change->text, "bf16 instead of fp32, with fp32 master weights");
    return true;
}

static bool fewer_threads(struct why_change *change, struct config *config)
{
    int before = config->topology.threads_per_rank;
    if (before < 2) return false;
    config->topology.threads_per_rank = before / 2;
    change->restart = true;
    snprintf(change->command, sizeof change->command, "--set topology.threads_per_rank=%d", before / 2);
    snprintf(change->text, sizeof change->text, "%d threads a rank instead of %d", before / 2, before);
    return true;
}

static bool fewer_checkpoints(struct why_change *change, struct config *config)
{
    if (config->zero.recompute != RECOMPUTE_FULL) return false;
    return set_live(change, config, "model.checkpoint_every", config->zero.checkpoint_every,
                    2 * (int64_t)config->zero.checkpoint_every);
}

/* ---- between tiers ---- */

/* Parameters, or the optimizer. NVMe needs a folder, and only a new start can be told of one. */
static bool set_device(struct why_change *change, struct config *config, bool param, enum offload from, enum offload to)
{
    char key[64];
    const char *section = param ? "offload_param" : "offload_optimizer";
    const bool folder = to == OFFLOAD_NVME && !config_nvme_path(config, param)[0];
    if (from == to) return false;
    if (folder) strcpy(param ? config->nvme.param_path : config->nvme.optimizer_path, "FOLDER");
    snprintf(key, sizeof key, "zero_optimization.%s.device", section);
    if (config_set(config, key, offload_name(to), NULL)) return false;
    change->restart = folder;
    if (folder)
        snprintf(change->command, sizeof change->command, "--set %s=nvme --set zero_optimization.%s.nvme_path=FOLDER",
                 key, section);
    else snprintf(change->command, sizeof change->command, "set %s=%s", key, offload_name(to));
    snprintf(change->text, sizeof change->text, "%s %s", section, offload_name(to));
    return true;
}

static bool optimizer_to(struct why_change *change, struct config *config, enum offload to)
{
    return set_device(change, config, false, config->zero.offload_optimizer, to);
}
static bool optimizer_to_device(struct why_change *change, struct config *config)
{
    return optimizer_to(change, config, OFFLOAD_NONE);
}
static bool optimizer_to_cpu(struct why_change *change, struct config *config)
{
    return optimizer_to(change, config, OFFLOAD_CPU);
}
static bool optimizer_to_nvme(struct why_change *change, struct config *config)
{
    return optimizer_to(change, config, OFFLOAD_NVME);
}

/* Further down than it is: what a tier above it gains by. */
static bool offload_optimizer(struct why_change *change, struct config *config)
{
    return config->zero.offload_optimizer == OFFLOAD_NONE && optimizer_to_cpu(change, config);
}

static bool param_to(struct why_change *change, struct config *config, enum offload to)
{
    return set_device(change, config, true, config->zero.offload_param, to);
}
static bool param_to_device(struct why_change *change, struct config *config)
{
    return param_to(change, config, OFFLOAD_NONE);
}
static bool param_to_cpu(struct why_change *change, struct config *config)
{
    return param_to(change, config, OFFLOAD_CPU);
}
static bool param_to_nvme(struct why_change *change, struct config *config)
{
    return param_to(change, config, OFFLOAD_NVME);
}
static bool offload_param(struct why_change *change, struct config *config)
{
    return config->zero.offload_param == OFFLOAD_NONE && param_to_cpu(change, config);
}

/* Twin-Flow: the first half of what is offloaded stays on the device. */
static bool half_ratio(struct why_change *change, struct config *config)
{
    const double before = config->zero.offload_ratio;
    char value[32];
    snprintf(value, sizeof value, "%g", before / 2);
    if (before < 0.01 || !config->zero.offload_optimizer) return false;
    if (config_set(config, "zero_optimization.offload_optimizer.ratio", value, NULL)) return false;
    snprintf(change->command, sizeof change->command, "set zero_optimization.offload_optimizer.ratio=%s", value);
    snprintf(change->text, sizeof change->text, "ratio %s instead of %g", value, before);
    return true;
}

static bool none_in_cpu(struct why_change *change, struct config *config)
{
    return set_live(change, config, "zero_optimization.offload_param.max_in_cpu", config->zero.max_in_cpu_elems, 0);
}

static bool smaller_tile(struct why_change *change, struct config *config)
{
    return set_live(change, config, "schedule.update_tile", config->zero.update_tile_elems,
                    config->zero.update_tile_elems - config->zero.update_tile_elems / 2);
}

static bool no_pipeline(struct why_change *change, struct config *config, const char *key, bool now)
{
    if (!now || config_set(config, key, "false", NULL)) return false;
    snprintf(change->command, sizeof change->command, "set %s=false", key);
    snprintf(change->text, sizeof change->text, "%s false", strrchr(key, '.') + 1);
    return true;
}
static bool no_read_ahead(struct why_change *change, struct config *config)
{
    return no_pipeline(change, config, "zero_optimization.offload_optimizer.pipeline_read", config->zero.pipeline_read);
}
static bool no_write_behind(struct why_change *change, struct config *config)
{
    return no_pipeline(change, config, "zero_optimization.offload_optimizer.pipeline_write",
                       config->zero.pipeline_write);
}

static bool checkpoints_on_device(struct why_change *change, struct config *config)
{
    return no_pipeline(change, config, "activation_checkpointing.cpu_checkpointing", config->zero.cpu_checkpointing);
}

/* A shard is a part of a model that does not grow with them. */
static bool more_ranks(struct why_change *change, struct config *config)
{
    const int before = config->topology.ranks;
    if (before > 32) return false;
    config->topology.ranks = 2 * before;
    change->restart = true;
    snprintf(change->command, sizeof change->command, "--set topology.ranks=%d", 2 * before);
    snprintf(change->text, sizeof change->text, "%d ranks instead of %d", 2 * before, before);
    return true;
}

/* ---- which changes a category hangs on ---- */

static const struct why_owner owners[TIERS][CATEGORIES] =
    {
        [TIER_DEVICE] =
            {
                [CATEGORY_PARAMETERS] = {"zero_optimization.stage",
                                         "stages 0 to 2 keep the whole model on every rank, stage 3 its own shard",
                                         {stage_3, offload_param, half_precision}},
                [CATEGORY_GRADIENTS] = {"zero_optimization.stage",
                                        "stages 0 and 1 keep all reduced ones, stages 2 and 3 those of the own shard",
                                        {stage_2, stage_3, offload_optimizer, half_precision}},
                [CATEGORY_OPTIMIZER] = {"zero_optimization.stage",
                                        "stage 0 keeps the states of all parameters, the others those of the own shard",
                                        {stage_1, stage_2, stage_3, offload_optimizer}},
                [CATEGORY_ACTIVATIONS] = {"train_micro_batch_size_per_gpu",
                                          "those of every token stay until its backward; no stage changes that",
                                          {recompute_full, recompute_attention, smaller_micro_batch, shorter_sequence,
                                           half_precision}},
                [CATEGORY_BUCKETS] = {"zero_optimization.reduce_bucket_size",
                                      "a whole gradient waits here until the bucket with its last piece is reduced",
                                      {smaller_bucket, other_overlap, stage_1, stage_0}},
                [CATEGORY_GATHERED] = {"zero_optimization.stage3_prefetch_bucket_size",
                                       "units gathered for use now or ahead, and what is kept gathered between uses",
                                       {let_go, no_prefetch, no_reuse, no_persistence, fewer_live, other_overlap}},
                [CATEGORY_WORKSPACE] = {"train_micro_batch_size_per_gpu",
                                        "the gradient of the residual stream, and what kernels work in",
                                        {smaller_micro_batch, shorter_sequence, fewer_threads}},
                [CATEGORY_STAGING] = {"schedule.update_tile", "what is on its way between tiers", {smaller_tile}},
                [CATEGORY_SECONDARY] = {"zero_optimization.stage", "the in-node second copy of the parameters", {NULL}},
            },
        [TIER_HOST] =
            {
                [CATEGORY_PARAMETERS] = {"zero_optimization.offload_param.device",
                                         "the own shard of parameters; with nvme as much of it as max_in_cpu lets stay",
                                         {none_in_cpu, param_to_nvme, param_to_device, more_ranks, half_precision}},
                [CATEGORY_GRADIENTS] = {"zero_optimization.offload_optimizer.device",
                                        "the own part waits here for the update; with states on NVMe too, for the norm",
                                        {half_ratio, optimizer_to_device, more_ranks, half_precision}},
                [CATEGORY_OPTIMIZER] = {"zero_optimization.offload_optimizer.device",
                                        "master weights and states of what the rank owns, which is updated here",
                                        {optimizer_to_nvme, half_ratio, optimizer_to_device, more_ranks}},
                [CATEGORY_ACTIVATIONS] = {"activation_checkpointing.cpu_checkpointing",
                                          "kept inputs of blocks wait here for backward",
                                          {checkpoints_on_device, fewer_checkpoints, smaller_micro_batch,
                                           shorter_sequence, half_precision}},
                [CATEGORY_STAGING] = {"schedule.update_tile",
                                      "tiles of an update, and what comes from NVMe ahead of its use",
                                      {smaller_tile, no_read_ahead, no_write_behind, no_prefetch, other_overlap}},
            },
        [TIER_NVME] =
            {
                [CATEGORY_PARAMETERS] = {"zero_optimization.offload_param.device",
                                         "the own shard of parameters, but what max_in_cpu keeps in host memory",
                                         {param_to_cpu, param_to_device, more_ranks, half_precision}},
                [CATEGORY_OPTIMIZER] = {"zero_optimization.offload_optimizer.device",
                                        "master weights and states of what the rank owns, updated tile by tile",
                                        {optimizer_to_cpu, optimizer_to_device, more_ranks}},
            },
};

const struct why_owner *why_owner_of(enum tier tier, enum category category)
{
    const struct why_owner *owner = &owners[tier][category];
    return owner->knob ? owner : &owners[TIER_DEVICE][category];
}

const char *why_knob(enum tier tier, enum category category)
{
    return why_owner_of(tier, category)->knob;
}

/* ---- gathered units: which of their keys binds ---- */

/* Gathered at the peak, with some of the keys at their neutral value. */
static uint64_t gathered_with(const struct config *config, const struct why *why, bool ahead, bool kept, bool tails)
{
    struct config changed = *config;
    struct why_plan plan;
    if (!ahead) changed.zero.prefetch_bucket_elems = 0;
    if (!kept) changed.zero.max_reuse_distance = 0;
    if (!tails) changed.zero.param_persistence_threshold = 0;
    why_plan_of(&plan, &changed, why->rank, why->tier);
    return plan.known ? plan.at_peak_bytes[CATEGORY_GATHERED] : UINT64_MAX;
}

void why_gathered(struct why_tenant *tenant, const struct config *config, const struct why *why)
{
    const uint64_t now = tenant->planned_bytes, unahead = gathered_with(config, why, false, true, true),
                   unkept = gathered_with(config, why, true, false, true);
    if (unkept < now || (unahead >= now && gathered_with(config, why, false, false, true) < now)) {
        tenant->knob = "zero_optimization.stage3_max_reuse_distance";
        tenant->how = "units stay gathered where their next use is within this many elements, and max_live_parameters";
    } else if (unahead < now) {
        tenant->how = "units gathered ahead of their use, beside the one in use";
    } else if (gathered_with(config, why, true, true, false) < now) {
        tenant->knob = "zero_optimization.stage3_param_persistence_threshold";
        tenant->how = "units of which nothing is over the threshold stay gathered";
    } else {
        tenant->knob = "zero_optimization.stage";
        tenant->how = "the unit in use, which stage 3 gathers from all ranks";
    }
}
