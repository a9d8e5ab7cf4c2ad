/* What `oom` events say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/fit.h"
#include "engine/advise/why_parts.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/config/command.h"
#include "engine/plan/schedule_io.h"
#include "engine/zero/zero.h"

static void add_op(cJSON *json, const struct zero_shortage *shortage, const struct model *model,
                   const struct schedule *schedule)
{
    if (!schedule || shortage->op < 0 || shortage->op >= schedule->op_count) return;
    const struct op *op = &schedule->ops[shortage->op];
    char text[64];
    op_describe(text, sizeof text, op, model);
    cJSON_AddStringToObject(json, "op", text);
}

/* The bytes of each category, and the key that owns it. */
static void add_held(cJSON *json, const struct zero_shortage *shortage, const struct config *here,
                     const struct why_plan *now)
{
    const struct memory_snapshot *memory = &shortage->memory;
    cJSON *held = cJSON_AddObjectToObject(json, "held_bytes"), *knobs = cJSON_AddObjectToObject(json, "knobs");
    for (int c = 0; c < CATEGORIES; c++) {
        uint64_t bytes = memory->category[shortage->tier][c].live_bytes;
        if (!bytes) continue;
        cJSON_AddNumberToObject(held, category_name(c), (double)bytes);
        cJSON_AddStringToObject(knobs, category_name(c), why_owner(NULL, here, shortage->tier, c, now->at_peak_bytes[c]));
    }
    cJSON_AddNumberToObject(json, "reserved_bytes", (double)memory->tier[shortage->tier].reserved_bytes);
}

enum { COMMANDS_ROOM = 400 };

static void add_command(void *commands, const char *key, const char *value)
{
    text_append(commands, COMMANDS_ROOM, "%sset %s=%s", *(const char *)commands ? "; " : "", key, value);
}

static bool fits_elsewhere(const struct why_plan *plan, const struct config *config, enum tier but)
{
    bool within = plan->known;
    for (enum tier tier = 0; within && tier < TIERS; tier++)
        within =
            tier == but || !config->budget_bytes[tier] || plan->tier_peak_bytes[tier] <= config->budget_bytes[tier];
    return within;
}

static void add_fit(cJSON *list, const char *command, uint64_t peak_bytes)
{
    json_put(json_item(list), TEXT("command", command), NUMBER("peak_bytes", peak_bytes));
}

/* False: it takes a single command, which is in the list already, or the list has it. */
static bool add_setup(cJSON *list, const struct config *here, const struct fit_candidate *of, int64_t peak_bytes)
{
    char commands[COMMANDS_ROOM] = "";
    const cJSON *fit;
    fit_sets(here, &of->setup, NULL, add_command, commands);
    if (!strstr(commands, "; ")) return false;
    cJSON_ArrayForEach(fit, list) if (!strcmp(json_get_text(fit, "command"), commands)) return false;
    add_fit(list, commands, (uint64_t)peak_bytes);
    return true;
}

/* Changes to try: stages, recomputation, and the tier of offloaded states. */
static const enum move_id moves[] = {
    MOVE_STAGE_0,        MOVE_STAGE_1,       MOVE_STAGE_2,        MOVE_STAGE_3,          MOVE_RECOMPUTE_ATTENTION,
    MOVE_RECOMPUTE_FULL, MOVE_OPTIMIZER_CPU, MOVE_OPTIMIZER_NVME, MOVE_OPTIMIZER_DEVICE, MOVE_PARAM_CPU,
    MOVE_PARAM_NVME,     MOVE_PARAM_DEVICE};

/* Those that fit go to `list`; stages that do not go to `larger`. */
static void try_moves(cJSON *list, cJSON *larger, const struct zero_shortage *shortage, const struct config *here)
{
    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++) {
        struct config changed = *here;
        struct why_change change;
        if (!why_move(&change, &changed, moves[m]) || change.restart) continue;
        why_plan_of(&change.plan, &changed, 0, shortage->tier);
        if (change.plan.peak_bytes <= shortage->budget_bytes && fits_elsewhere(&change.plan, here, shortage->tier))
            add_fit(list, change.command, change.plan.peak_bytes);
        else if (command_stage(change.command) >= 0 && change.plan.known)
            add_fit(larger, change.command, change.plan.peak_bytes);
    }
}

/* Buckets and gathers of a block, or else of the least size: commands that help together, one after the other. */
static void try_sizes(cJSON *list, const struct zero_shortage *shortage, const struct config *here)
{
    uint64_t limits[TIERS];
    memcpy(limits, here->budget_bytes, sizeof limits);
    limits[shortage->tier] = shortage->budget_bytes;
    for (enum sizes sizes = SIZES_BLOCK; sizes < SIZES; sizes++) {
        char commands[COMMANDS_ROOM] = "";
        int64_t peak_bytes[TIERS];
        if (!fit_size_sets(here, sizes, limits, peak_bytes, add_command, commands)) continue;
        add_fit(list, commands, (uint64_t)peak_bytes[shortage->tier]);
        return;
    }
}

/* What several keys together reach: the cheapest setups of `plan --fit` that fit and take more than one command, and the one with
 * the least memory. */
static void try_setups(cJSON *list, const struct zero_shortage *shortage, const struct config *here)
{
    enum { SHOWN = 3 };
    struct fit_limits limits = {.folder = NULL};
    for (int tier = 0; tier < TIERS; tier++) limits.bytes[FIT_DEVICE + tier] = here->budget_bytes[tier];
    limits.bytes[FIT_DEVICE + (int)shortage->tier] = shortage->budget_bytes;
    struct fit_cheapest *cheapest = malloc(sizeof *cheapest);
    if (!cheapest) return;
    fit_cheapest(cheapest, here, &limits);
    const struct fit_candidate *least = NULL;
    int shown = 0;
    for (int c = 0; c < cheapest->count; c++) {
        const struct fit_candidate *of = &cheapest->candidates[c];
        if (!fit_fits(&of->plan, &limits)) continue;
        const int64_t bytes = of->plan.need[FIT_DEVICE + (int)shortage->tier].bytes;
        if (!least || bytes < least->plan.need[FIT_DEVICE + (int)shortage->tier].bytes) least = of;
        shown += shown < SHOWN && add_setup(list, here, of, bytes);
    }
    if (least) add_setup(list, here, least, least->plan.need[FIT_DEVICE + (int)shortage->tier].bytes);
    free(cheapest);
}

/* Changes whose planned peak is within the budget, then the budget that the run needs as it is, and smaller sizes. */
static void add_fits(cJSON *json, const struct zero_shortage *shortage, const struct config *here,
                     const struct why_plan *now)
{
    static const char *const budgets[TIERS] = {"budget=%lldMiB", "set memory.host_budget=%lldMiB",
                                               "set memory.nvme_budget=%lldMiB"};
    enum { MIB = 1 << 20 };
    cJSON *list = cJSON_AddArrayToObject(json, "fits"), *larger = cJSON_AddArrayToObject(json, "larger");
    char command[64];
    try_moves(list, larger, shortage, here);
    if (!fits_elsewhere(now, here, shortage->tier) || now->peak_bytes <= shortage->budget_bytes ||
        !shortage->budget_bytes)
        return;
    snprintf(command, sizeof command, budgets[shortage->tier], (long long)(now->peak_bytes / MIB + 1));
    add_fit(list, command, now->peak_bytes);
    try_sizes(list, shortage, here); /* last: who takes the first takes one command */
    try_setups(list, shortage, here);
}

cJSON *shortage_json(const struct zero_shortage *shortage, const struct config *config, const struct model *model,
                     const struct schedule *schedule, int ranks)
{
    const enum tier tier = shortage->tier;
    const enum category category = shortage->category;
    struct config here = *config;
    struct why_plan now;
    cJSON *json = cJSON_CreateObject();
    here.topology.ranks = ranks;
    why_plan_of(&now, &here, 0, tier);
    json_put(json, TEXT("text", shortage->text), NUMBER("rank", shortage->rank), TEXT("tier", tier_name(tier)),
             TEXT("category", category_name(category)),
             TEXT("knob", why_owner(NULL, &here, tier, category, now.at_peak_bytes[category])),
             NUMBER("wanted_bytes", shortage->wanted_bytes), NUMBER("budget_bytes", shortage->budget_bytes));
    cJSON *also = shortage->also_ranks ? cJSON_AddArrayToObject(json, "also_ranks") : NULL;
    for (int r = 0; also && r < ranks; r++)
        if (shortage->also_ranks >> r & 1) cJSON_AddItemToArray(also, cJSON_CreateNumber(r));
    add_op(json, shortage, model, schedule);
    add_held(json, shortage, &here, &now);
    add_fits(json, shortage, &here, &now);
    return json;
}
