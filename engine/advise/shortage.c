#include "engine/advise/shortage.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "engine/advise/fit.h"
#include "engine/plan/schedule_io.h"
#include "engine/plan/setup.h"

/* The knob that changes most how much of a category there is. */
static const char *knob_of(enum tier tier, enum category category)
{
    if (tier == TIER_NVME) return "memory.nvme_budget, or a larger disk";
    switch (category) {
    case CATEGORY_PARAMETERS:
        return tier == TIER_HOST ? "zero_optimization.offload_param.max_in_cpu"
                                 : "zero_optimization.stage (3 keeps a shard)";
    case CATEGORY_GRADIENTS:
        return tier == TIER_HOST ? "memory.host_budget" : "zero_optimization.stage (2 and 3 keep a shard)";
    case CATEGORY_OPTIMIZER:
        return tier == TIER_HOST ? "zero_optimization.offload_optimizer.device (nvme)"
                                 : "zero_optimization.stage (1, 2 and 3 keep a shard)";
    case CATEGORY_STAGING: return "schedule.update_tile";
    case CATEGORY_BUCKETS: return "zero_optimization.reduce_bucket_size";
    case CATEGORY_GATHERED: return "zero_optimization.stage3_max_live_parameters";
    case CATEGORY_ACTIVATIONS:
    case CATEGORY_WORKSPACE: return "train_micro_batch_size_per_gpu";
    default: return "memory.device_budget";
    }
}

static void add_op(cJSON *json, const struct zero_shortage *shortage, const struct model *model,
                   const struct schedule *schedule)
{
    if (!schedule || shortage->op < 0 || shortage->op >= schedule->op_count) return;
    const struct op *op = &schedule->ops[shortage->op];
    char text[64];
    op_describe(text, sizeof text, op, model);
    cJSON_AddStringToObject(json, "op", text);
}

static void add_held(cJSON *json, const struct zero_shortage *shortage)
{
    const struct memory_snapshot *memory = &shortage->memory;
    cJSON *held = cJSON_AddObjectToObject(json, "held_bytes");
    for (int c = 0; c < CATEGORIES; c++) {
        uint64_t bytes = memory->category[shortage->tier][c].live_bytes;
        if (bytes) cJSON_AddNumberToObject(held, category_name(c), (double)bytes);
    }
    cJSON_AddNumberToObject(json, "reserved_bytes", (double)memory->tier[shortage->tier].reserved_bytes);
}

struct commands {
    char text[400];
};

static void add_command(void *user, const char *key, const char *value)
{
    struct commands *commands = user;
    const size_t used = strlen(commands->text);
    snprintf(commands->text + used, sizeof commands->text - used, "%sset %s=%s", used ? "; " : "", key, value);
}

/* What one change would need of the tier at its fullest; -1: it cannot be planned, or does not fit into the budgets of the
 * other tiers. */
static int64_t planned_peak(const struct config *config, int ranks, const char *key, const char *value, enum tier tier)
{
    struct config changed = *config;
    struct setup setup;
    changed.topology.ranks = ranks;
    if (config_set(&changed, key, value, NULL) || setup_init(&setup, &changed, NULL)) return -1;
    int64_t peak_bytes = setup.footprint.peak_bytes[tier];
    for (enum tier other = 0; other < TIERS; other++)
        if (other != tier && config->budget_bytes[other] &&
            (uint64_t)setup.footprint.peak_bytes[other] > config->budget_bytes[other])
            peak_bytes = -1;
    setup_release(&setup);
    return peak_bytes;
}

static void add_fit(cJSON *fits, const char *command, int64_t peak_bytes)
{
    cJSON *fit = cJSON_CreateObject();
    cJSON_AddStringToObject(fit, "command", command);
    cJSON_AddNumberToObject(fit, "peak_bytes", (double)peak_bytes);
    cJSON_AddItemToArray(fits, fit);
}

/* What backward makes again, and what is offloaded elsewhere, or not at all. */
static const struct {
    const char *key, *value;
} moves[] = {
    {"model.recompute", "attention"},                       {"model.recompute", "full"},
    {"zero_optimization.offload_optimizer.device", "cpu"},  {"zero_optimization.offload_optimizer.device", "nvme"},
    {"zero_optimization.offload_optimizer.device", "none"}, {"zero_optimization.offload_param.device", "cpu"},
    {"zero_optimization.offload_param.device", "nvme"},     {"zero_optimization.offload_param.device", "none"},
};

static void try_move(cJSON *fits, const struct zero_shortage *shortage, const struct config *config, int ranks,
                     const char *key, const char *value)
{
    char now[32], command[80];
    config_show(config, key, now, sizeof now);
    if (strcmp(now, value) == 0) return;
    const int64_t peak_bytes = planned_peak(config, ranks, key, value, shortage->tier);
    if (peak_bytes < 0 || (uint64_t)peak_bytes > shortage->budget_bytes) return;
    const bool stage = strcmp(key, "zero_optimization.stage") == 0;
    snprintf(command, sizeof command, stage ? "stage=%s%s" : "set %s=%s", stage ? "" : key, value);
    add_fit(fits, command, peak_bytes);
}

/* Buckets and gathers of a block, or else of the least size: commands that help together, one after the other. */
static void try_sizes(cJSON *fits, const struct zero_shortage *shortage, const struct config *config, int ranks)
{
    struct config here = *config;
    uint64_t limits[TIERS];
    here.topology.ranks = ranks;
    memcpy(limits, config->budget_bytes, sizeof limits);
    limits[shortage->tier] = shortage->budget_bytes;
    for (enum sizes sizes = SIZES_BLOCK; sizes < SIZES; sizes++) {
        struct commands commands = {""};
        int64_t peak_bytes[TIERS];
        if (!fit_size_sets(&here, sizes, limits, peak_bytes, add_command, &commands)) continue;
        add_fit(fits, commands.text, peak_bytes[shortage->tier]);
        return;
    }
}

/* Stages, recomputation and tiers whose planned peak is within the budget, then the budget that the run needs as it is, and smaller sizes. */
static void add_fits(cJSON *json, const struct zero_shortage *shortage, const struct config *config, int ranks)
{
    static const char *const budgets[TIERS] = {"budget=%lldMiB", "set memory.host_budget=%lldMiB",
                                               "set memory.nvme_budget=%lldMiB"};
    static const char *const stages[] = {"0", "1", "2", "3"};
    cJSON *fits = cJSON_AddArrayToObject(json, "fits");
    char command[64];
    for (int stage = 0; stage <= 3; stage++)
        try_move(fits, shortage, config, ranks, "zero_optimization.stage", stages[stage]);
    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++)
        try_move(fits, shortage, config, ranks, moves[m].key, moves[m].value);
    enum { MIB = 1 << 20 };
    int64_t peak_bytes =
        planned_peak(config, ranks, "zero_optimization.stage", stages[config->zero.stage], shortage->tier);
    if (peak_bytes < 0 || (uint64_t)peak_bytes <= shortage->budget_bytes || !shortage->budget_bytes) return;
    snprintf(command, sizeof command, budgets[shortage->tier], (long long)(peak_bytes / MIB + 1));
    add_fit(fits, command, peak_bytes);
    try_sizes(fits, shortage, config, ranks); /* last: who takes the first takes one command */
}

cJSON *shortage_json(const struct zero_shortage *shortage, const struct config *config, const struct model *model,
                     const struct schedule *schedule, int ranks)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "text", shortage->text);
    cJSON_AddNumberToObject(json, "rank", shortage->rank);
    cJSON_AddStringToObject(json, "tier", tier_name(shortage->tier));
    cJSON_AddStringToObject(json, "category", category_name(shortage->category));
    cJSON_AddStringToObject(json, "knob", knob_of(shortage->tier, shortage->category));
    cJSON_AddNumberToObject(json, "wanted_bytes", (double)shortage->wanted_bytes);
    cJSON_AddNumberToObject(json, "budget_bytes", (double)shortage->budget_bytes);
    add_op(json, shortage, model, schedule);
    add_held(json, shortage);
    add_fits(json, shortage, config, ranks);
    return json;
}
