/* A knob of the plan is held against its neutral value by planning that step too; budgets and paces against what they limit. */
#include "engine/analyze/knobs_binding.h"

#include <stdio.h>
#include <string.h>

#include "engine/plan/same.h"
#include "engine/plan/setup.h"

#define NO_LIMIT "9223372036854775807"

/* Neutral: no limit, nothing ahead, nothing kept, off; "!": the other one. */
static const struct {
    const char *key, *neutral;
} neutrals[] = {
    {"zero_optimization.stage", "0"},
    {"zero_optimization.reduce_bucket_size", NO_LIMIT},
    {"zero_optimization.allgather_bucket_size", NO_LIMIT},
    {"zero_optimization.overlap_comm", "!"},
    {"zero_optimization.stage3_prefetch_bucket_size", "0"},
    {"zero_optimization.stage3_max_live_parameters", NO_LIMIT},
    {"zero_optimization.stage3_max_reuse_distance", "0"},
    {"zero_optimization.stage3_param_persistence_threshold", "0"},
    {"zero_optimization.stage3_model_persistence_threshold", NO_LIMIT},
    {"zero_optimization.sub_group_size", NO_LIMIT},
    {"schedule.keep_last_units", "0"},
    {"schedule.no_sync", "false"},
    {"model.recompute", "none"},
    {"model.checkpoint_every", "1"},
};

static struct knob_step step_of(const struct setup *setup)
{
    struct knob_step step = {.peak_bytes = (uint64_t)setup->footprint.peak_bytes[TIER_DEVICE]};
    for (int i = 0; i < setup->schedule.op_count; i++) {
        const struct op *op = &setup->schedule.ops[i];
        step.gathers += op->kind == OP_GATHER;
        step.ahead += op->kind == OP_GATHER && op->prefetch;
        step.flushes += op->flush != FLUSH_NONE;
        step.refreshes += op->kind == OP_REFRESH;
    }
    return step;
}

/* ---- knobs of the plan ---- */

static const char *neutral_of(const struct knob *knob)
{
    for (size_t n = 0; n < sizeof neutrals / sizeof *neutrals; n++)
        if (!strcmp(neutrals[n].key, knob->key->path))
            return strcmp(neutrals[n].neutral, "!") ? neutrals[n].neutral
                   : strcmp(knob->value, "true")    ? "true"
                                                    : "false";
    return NULL;
}

static void bind_planned(struct knob *knob, const struct config *config, const struct setup *setup, const char *neutral)
{
    struct config changed = *config;
    struct setup other;
    knob->binding = BINDING_UNKNOWN;
    snprintf(knob->neutral, sizeof knob->neutral, "%s", strcmp(neutral, NO_LIMIT) ? neutral : "no limit");
    if (config_set(&changed, knob->key->path, neutral, NULL) || setup_init(&other, &changed, NULL)) return;
    knob->planned = true;
    knob->other = step_of(&other);
    knob->binding = schedule_same(&setup->schedule, &other.schedule) ? BINDS_NOT : BINDS;
    setup_release(&other);
}

/* ---- budgets and paces ---- */

static void decide(struct knob *knob, bool binds, const char *reason)
{
    knob->binding = binds ? BINDS : BINDS_NOT;
    snprintf(knob->reason, sizeof knob->reason, "%s", reason);
}

static void bind_budget(struct knob *knob, const struct config *config, const struct setup *setup, enum tier tier)
{
    uint64_t budget_bytes = config->budget_bytes[tier], peak_bytes = (uint64_t)setup->footprint.peak_bytes[tier];
    if (!budget_bytes) decide(knob, false, "0: no limit");
    else if (peak_bytes > budget_bytes) decide(knob, true, "the plan needs more than this");
    else decide(knob, false, "the plan fits into it");
}

/* Which classes of links a step of this run uses. */
static bool link_is_used(const char *path, const struct config *config)
{
    int ranks = config->topology.ranks, per_node = config->topology.ranks_per_node;
    bool nodes = per_node && per_node < ranks;
    if (strstr(path, ".intra.")) return ranks > 1 && (!per_node || per_node > 1);
    return strstr(path, ".inter.") && nodes;
}

static void bind_pace(struct knob *knob, const struct config *config)
{
    const char *path = knob->key->path;
    bool neutral = !strcmp(knob->value, "0");
    if (!strcmp(path, "topology.slow_motion")) {
        bool slow = config->topology.slow_motion > 1;
        decide(knob, slow, slow ? "every operation is stretched" : "1: real time");
    } else if (!strcmp(path, "topology.slow_rank")) {
        decide(knob, config->topology.slow_rank >= 0,
               config->topology.slow_rank < 0 ? "-1: no straggler" : "a straggler");
    } else if (neutral) {
        decide(knob, false, "0: not paced");
    } else {
        bool used = link_is_used(path, config);
        decide(knob, used, used ? "transfers are made to wait" : "nothing moves over this link in this run");
    }
}

static bool is_pace(const char *path)
{
    return !strncmp(path, "topology.links.", 15) || !strncmp(path, "topology.slow_", 14);
}

void knobs_bind(struct knobs *knobs, const struct config *config)
{
    static const char *const budgets[TIERS] = {"memory.device_budget", "memory.host_budget", "memory.nvme_budget"};
    struct setup setup;
    if (setup_init(&setup, config, NULL)) return;
    knobs->step = step_of(&setup);
    for (int k = 0; k < knobs->count; k++) {
        struct knob *knob = &knobs->list[k];
        if (knob->class != KNOB_HONOURED || knob->binding != BINDING_NONE) continue;
        const char *neutral = neutral_of(knob);
        if (neutral) bind_planned(knob, config, &setup, neutral);
        else if (is_pace(knob->key->path)) bind_pace(knob, config);
        for (int tier = 0; tier < TIERS; tier++)
            if (!strcmp(knob->key->path, budgets[tier])) bind_budget(knob, config, &setup, (enum tier)tier);
    }
    setup_release(&setup);
}
