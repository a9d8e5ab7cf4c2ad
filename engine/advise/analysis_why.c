/* The last section of an analysis: why the memory peak of the run's last schedule is as high as it is, and what would lower
 * it (engine/advise/why.h), for each tier that is used, of its fullest rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/advise/present.h"
#include "engine/advise/why.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/config/command.h"
#include "engine/config/keys.h"

static int fullest_rank(const struct run_model *model, enum tier tier)
{
    int fullest = 0;
    for (int rank = 1; rank < model->ranks; rank++)
        if (model->rank[rank].tier[tier].peak_bytes > model->rank[fullest].tier[tier].peak_bytes) fullest = rank;
    return fullest;
}

/* NULL: nothing is in that tier, the trace does not say enough, or no memory. Caller frees. */
static struct why *why_of(const struct run_model *model, enum tier tier)
{
    struct error err;
    struct why *why = calloc(1, sizeof *why);
    const bool known = why && why_peak(why, model, fullest_rank(model, tier), tier, &err) == STATUS_OK;
    if (known && (tier == TIER_DEVICE || why->tenant_count)) return why;
    free(why);
    return NULL;
}

/* ---- changes ---- */

/* For text only: what stands beside the amounts of a change, as much as fits there of its name and cost, and what below; of two commands
 * each on a line of its own. */
static void add_name(cJSON *object, const struct why_plan *now, const struct why_change *change, const char *name)
{
    enum { BESIDE = 32 };
    char cost[100], command[160];
    why_cost(cost, sizeof cost, now, &change->plan, write_bytes);
    const bool beside = strlen(name) <= BESIDE, short_cost = strlen(cost) <= BESIDE;
    json_put(object, TEXT(".beside", beside ? name : short_cost ? cost : ""), TEXT(".under", beside ? cost : ""),
             TEXT(".below", beside || short_cost ? "" : cost));
    cJSON *commands = cJSON_AddArrayToObject(object, ".commands");
    for (const char *at = name, *end; !beside && *at; at = *end ? end + 2 : end) {
        end = strstr(at, "; ");
        if (!end) end = at + strlen(at);
        snprintf(command, sizeof command, "%.*s", (int)(end - at), at);
        json_put(json_item(commands), TEXT("command", command));
    }
}

/* Null: equal. */
static double more(uint64_t then, uint64_t now)
{
    return then == now ? NAN : (double)then - (double)now;
}

static cJSON *add_change(cJSON *object, const struct why_plan *now, const struct why_change *change, const char *name)
{
    const struct why_plan *plan = &change->plan;
    json_put(object, TEXT("command", change->command), TEXT("text", change->text), TRUTH("restart", change->restart),
             NUMBER("peak_bytes", plan->peak_bytes));
    cJSON *peaks = cJSON_AddObjectToObject(object, "tier_peak_bytes");
    for (enum tier tier = 0; tier < TIERS; tier++) json_put(peaks, NUMBER(tier_name(tier), plan->tier_peak_bytes[tier]));
    json_put(object, NUMBER("sent_bytes_per_step", plan->sent_bytes),
             NUMBER("sent_to_other_nodes_bytes_per_step", plan->across_bytes), NUMBER("collectives_per_step", plan->collectives),
             NUMBER("bus_bytes_per_step", plan->bus_bytes), NUMBER("nvme_bytes_per_step", plan->nvme_bytes),
             NUMBER("recomputed_products", plan->recomputed), NUMBER(".more_peak", more(plan->peak_bytes, now->peak_bytes)),
             NUMBER(".more_sent", more(plan->sent_bytes, now->sent_bytes)),
             NUMBER(".more_across", more(plan->across_bytes, now->across_bytes)));
    add_name(object, now, change, name);
    return object;
}

/* ---- why a tier is as full as it is ---- */

/* Formulas multiply with a sign that not every terminal has. */
static const char *plain(char *out, size_t room, const char *text)
{
    size_t used = 0;
    for (; *text && used + 1 < room; text++) {
        bool times = (unsigned char)text[0] == 0xc3 && (unsigned char)text[1] == 0x97;
        out[used++] = times ? 'x' : *text;
        text += times;
    }
    out[used] = '\0';
    return out;
}

static void add_tenant(cJSON *object, const struct why *why, const struct why_tenant *tenant)
{
    char knob[64], what[80], formula[120];
    key_short_name(knob, sizeof knob, tenant->knob);
    json_put(object, TEXT("category", category_name(tenant->category)),
             TEXT(".letter", ((char[2]){category_letter(tenant->category)})), NUMBER_IF("bytes", tenant->measured, tenant->bytes), NUMBER("planned_bytes", tenant->planned_bytes),
             TEXT("knob", tenant->knob ? tenant->knob : ""), TEXT(".knob", knob));
    cJSON *terms = cJSON_AddArrayToObject(object, "terms");
    for (int t = 0; t < tenant->term_count; t++)
        json_put(json_item(terms), TEXT("what", tenant->terms[t].what), TEXT("formula", tenant->terms[t].formula),
                 NUMBER("bytes", tenant->terms[t].bytes), TEXT(".what", plain(what, sizeof what, tenant->terms[t].what)),
                 TEXT(".formula", plain(formula, sizeof formula, tenant->terms[t].formula)));
    cJSON *changes = cJSON_AddArrayToObject(object, "changes");
    for (int c = 0; c < tenant->change_count; c++)
        if (tenant->changes[c].plan.known)
            add_change(json_item(changes), &why->plan, &tenant->changes[c], tenant->changes[c].command);
}

/* other: of the device what is sent a step, else what other tiers hold more at their peaks. */
static void add_offer(cJSON *list, const struct why *why, const struct why_change *change, const char *name)
{
    const bool device = why->tier == TIER_DEVICE;
    int64_t elsewhere = 0;
    for (enum tier tier = 0; tier < TIERS; tier++)
        if (tier != why->tier)
            elsewhere += (int64_t)change->plan.tier_peak_bytes[tier] - (int64_t)why->plan.tier_peak_bytes[tier];
    if (change->plan.known)
        json_put(add_change(json_item(list), &why->plan, change, name),
                 NUMBER_IF("other", device || elsewhere, device ? (int64_t)change->plan.sent_bytes : elsewhere));
}

/* One knob may be the answer for several tenants. */
static bool said_before(const struct why *why, int tenant, int change)
{
    for (int t = 0; t < tenant; t++)
        for (int c = 0; c < why->tenants[t].change_count; c++)
            if (!strcmp(why->tenants[t].changes[c].command, why->tenants[tenant].changes[change].command)) return true;
    return false;
}

/* For text only: knobs that lower the peak, then every stage with the other knobs as they are. */
static void add_offers(cJSON *list, const struct why *why)
{
    for (int t = 0; t < why->tenant_count; t++)
        for (int c = 0; c < why->tenants[t].change_count; c++) {
            const struct why_change *change = &why->tenants[t].changes[c];
            if (change->plan.peak_bytes < why->plan.peak_bytes && command_stage(change->command) < 0 &&
                !said_before(why, t, c))
                add_offer(list, why, change, change->command);
        }
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        char name[24];
        snprintf(name, sizeof name, "stage=%d%s", stage, stage == why->stage ? " (as it is)" : "");
        add_offer(list, why, &why->stages[stage], name);
    }
}

static void add_tier(cJSON *facts, const char *name, const struct analysis *analysis, enum tier tier)
{
    struct why *why = why_of(analysis->model, tier);
    if (!why) {
        cJSON_AddNullToObject(facts, name);
        return;
    }
    char sentence[400] = "";
    cJSON *object = cJSON_AddObjectToObject(facts, name);
    json_put(object, NUMBER("rank", why->rank), TEXT("tier", tier_name(why->tier)), NUMBER("stage", why->stage),
             NUMBER_IF("peak_bytes", why->measured, why->peak_bytes), NUMBER("planned_bytes", why->plan.peak_bytes),
             TRUTH(".device", tier == TIER_DEVICE));
    cJSON *tenants = cJSON_AddArrayToObject(object, "tenants"), *stages = cJSON_AddArrayToObject(object, "stages");
    for (int t = 0; t < why->tenant_count; t++) add_tenant(json_item(tenants), why, &why->tenants[t]);
    for (int stage = 0; stage < WHY_STAGES; stage++)
        if (why->stages[stage].plan.known) add_change(json_item(stages), &why->plan, &why->stages[stage], "");
    if (tier != TIER_DEVICE) why_tier_sentence(sentence, sizeof sentence, why, write_bytes);
    else if (why->stage > 0) why_sentence(sentence, sizeof sentence, why, why->stage - 1, write_bytes);
    json_put(object, TEXT(".sentence", sentence));
    add_offers(cJSON_AddArrayToObject(object, ".offers"), why);
    free(why);
}

/* ---- waits ---- */

/* Of the last section, with their changes. */
static void add_waits(cJSON *list, const struct analysis *analysis)
{
    enum { STALLS_SHOWN = 4 };
    struct why_stall stalls[STALLS_SHOWN];
    struct why_plan now;
    struct totals sum;
    struct config config;
    struct error err;
    char knob[64];
    const struct analysis_section *last = analysis->section_count ? &analysis->sections[analysis->section_count - 1] : NULL;
    const double parts = last ? analysis_sum(&sum, last, -1) : 0;
    if (parts <= 0 || present_config(&config, analysis->model, &err)) return;
    int count = why_stalls(stalls, STALLS_SHOWN, &sum, parts);
    for (int s = 0; s < count; s++)
        if (why_stall_changes(&stalls[s], &now, &config, &err)) count = 0;
    config_release(&config);
    for (int s = 0; s < count; s++) {
        const struct why_stall *stall = &stalls[s];
        key_short_name(knob, sizeof knob, stall->knob ? stall->knob : "");
        cJSON *item = json_put(
            json_item(list), TEXT("wait", stall_table[stall->stall].name), NUMBER("seconds_per_step", stall->ns / 1e9),
            NUMBER("share", stall->share), TEXT("knob", stall->knob ? stall->knob : ""), TEXT(".knob", knob),
            TEXT(".how", stall->how), TEXT(".letter", ((char[2]){stall_table[stall->stall].letter})));
        cJSON *changes = cJSON_AddArrayToObject(item, "changes");
        for (int c = 0; c < stall->change_count; c++)
            add_change(json_item(changes), &now, &stall->changes[c], stall->changes[c].command);
    }
}

void analysis_add_why(cJSON *facts, const struct analysis *analysis)
{
    add_tier(facts, "why", analysis, TIER_DEVICE);
    add_tier(facts, "why_host", analysis, TIER_HOST);
    add_tier(facts, "why_nvme", analysis, TIER_NVME);
    add_waits(cJSON_AddArrayToObject(facts, "waits"), analysis);
}
