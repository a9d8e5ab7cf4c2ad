/* What changing a knob would give: the configuration with one change, planned anew. A row of `moves` is one such change;
 * each category lists those that it hangs on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/analyze/why_parts.h"
#include "engine/base/grouped.h"

void why_plan_of(struct why_plan *plan, const struct config *config, int rank, enum tier tier)
{
    struct setup setup;
    *plan = (struct why_plan){0};
    if (setup_init(&setup, config, NULL)) return;
    plan->known = true;
    plan->peak_bytes = (uint64_t)setup.footprint.peak_bytes[tier];
    plan->resting_bytes = (uint64_t)setup.footprint.resting_bytes[tier];
    plan->sent_bytes = (uint64_t)setup_sent_bytes(&setup, rank);
    for (int c = 0; c < CATEGORIES; c++)
        plan->at_peak_bytes[c] = (uint64_t)setup.footprint.category[tier][c].at_peak_bytes;
    setup_release(&setup);
}

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

static bool to_stage(struct why_change *change, struct config *config, int stage)
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
    return to_stage(change, config, 0);
}
static bool stage_1(struct why_change *change, struct config *config)
{
    return to_stage(change, config, 1);
}
static bool stage_2(struct why_change *change, struct config *config)
{
    return to_stage(change, config, 2);
}
static bool stage_3(struct why_change *change, struct config *config)
{
    return to_stage(change, config, 3);
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
    return set_recompute(change, config, "full", "model.recompute full: blocks are made again");
}

static bool recompute_attention(struct why_change *change, struct config *config)
{
    return set_recompute(change, config, "attention", "model.recompute attention: that half made again");
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

static bool set_offload(struct why_change *change, struct config *config, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "zero_optimization.%s.device", what);
    if (config_set(config, key, "cpu", NULL)) return false;
    snprintf(change->command, sizeof change->command, "set %s=cpu", key);
    snprintf(change->text, sizeof change->text, "%s.device cpu: what a rank owns, in host memory", what);
    return true;
}

static bool offload_optimizer(struct why_change *change, struct config *config)
{
    return config->zero.offload_optimizer == OFFLOAD_NONE && set_offload(change, config, "offload_optimizer");
}

static bool offload_param(struct why_change *change, struct config *config)
{
    return config->zero.offload_param == OFFLOAD_NONE && set_offload(change, config, "offload_param");
}

static bool smaller_tile(struct why_change *change, struct config *config)
{
    return set_live(change, config, "schedule.update_tile", config->zero.update_tile_elems,
                    (config->zero.update_tile_elems + 1) / 2);
}

/* ---- which changes a category hangs on ---- */

typedef bool move(struct why_change *change, struct config *config);

enum { MOVES_MAX = 6 };
static const struct owner {
    const char *knob, *how;
    move *moves[MOVES_MAX];
} owners[CATEGORIES] = {
    [CATEGORY_PARAMETERS] = {"zero_optimization.stage",
                             "stages 0 to 2 keep the whole model on every rank, stage 3 its own shard",
                             {stage_3, offload_param, half_precision}},
    [CATEGORY_GRADIENTS] = {"zero_optimization.stage",
                            "stages 0 and 1 keep all reduced gradients, stages 2 and 3 those of the own shard",
                            {stage_2, stage_3, offload_optimizer, half_precision}},
    [CATEGORY_OPTIMIZER] = {"zero_optimization.stage",
                            "stage 0 keeps the states of all parameters, the others those of the own shard",
                            {stage_1, stage_2, stage_3, offload_optimizer}},
    [CATEGORY_ACTIVATIONS] =
        {"train_micro_batch_size_per_gpu",
         "every token of the micro-batch leaves its activations until backward; no stage changes that",
         {recompute_full, recompute_attention, smaller_micro_batch, shorter_sequence, half_precision}},
    [CATEGORY_BUCKETS] = {"zero_optimization.reduce_bucket_size",
                          "a whole gradient waits here until the bucket with its last piece is reduced",
                          {smaller_bucket, other_overlap, stage_1, stage_0}},
    [CATEGORY_GATHERED] = {"zero_optimization.stage3_prefetch_bucket_size",
                           "units gathered for use now or ahead, and what is kept gathered between uses",
                           {no_prefetch, no_reuse, no_persistence, fewer_live, other_overlap}},
    [CATEGORY_WORKSPACE] = {"train_micro_batch_size_per_gpu",
                            "the gradient of the residual stream, and what kernels work in",
                            {smaller_micro_batch, shorter_sequence, fewer_threads}},
    [CATEGORY_STAGING] = {"schedule.update_tile", "what is on its way between tiers", {smaller_tile}},
    [CATEGORY_SECONDARY] = {"zero_optimization.stage", "the in-node second copy of the parameters", {NULL}},
};

/* It lowers the peak, and this category has a part in that. */
static bool helps(const struct why_change *change, const struct why_tenant *tenant, const struct why *why)
{
    return change->plan.peak_bytes < why->plan.peak_bytes &&
           change->plan.at_peak_bytes[tenant->category] < tenant->planned_bytes;
}

/* The lowest peak first. */
static int by_peak(const void *a, const void *b)
{
    const struct why_change *one = a, *other = b;
    return (one->plan.peak_bytes > other->plan.peak_bytes) - (one->plan.peak_bytes < other->plan.peak_bytes);
}

/* Changes that help. Where no knob of the category's own does, the first of them all the same: that it changes nothing is
 * an answer too. */
void why_changes(struct why_tenant *tenant, const struct config *config, const struct why *why)
{
    const struct owner *owner = &owners[tenant->category];
    struct why_change tried[MOVES_MAX], idle = {0};
    int count = 0;
    tenant->knob = owner->knob;
    tenant->how = owner->how;
    for (int m = 0; m < MOVES_MAX && owner->moves[m]; m++) {
        struct why_change change = {0};
        struct config changed = *config;
        if (!owner->moves[m](&change, &changed)) continue;
        why_plan_of(&change.plan, &changed, why->rank, why->tier);
        bool is_stage = changed.zero.stage != config->zero.stage;
        if (change.plan.known && helps(&change, tenant, why)) tried[count++] = change;
        else if (change.plan.known && !is_stage && !idle.plan.known) idle = change;
    }
    qsort(tried, (size_t)count, sizeof *tried, by_peak);
    if (count == 0 && idle.plan.known) tried[count++] = idle;
    tenant->change_count = count < WHY_CHANGES_MAX ? count : WHY_CHANGES_MAX;
    memcpy(tenant->changes, tried, (size_t)tenant->change_count * sizeof *tried);
}

void why_stages(struct why *why, const struct config *config)
{
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        struct why_change *change = &why->stages[stage];
        struct config changed = *config;
        *change = (struct why_change){0};
        if (stage == why->stage) change->plan = why->plan;
        else if (to_stage(change, &changed, stage)) why_plan_of(&change->plan, &changed, why->rank, why->tier);
    }
}
