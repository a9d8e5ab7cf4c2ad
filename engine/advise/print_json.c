/* `zerolab plan --json`: the figures of the page as one object. */
#include <stdlib.h>

#include "engine/advise/print.h"
#include "engine/base/json.h"
#include "engine/plan/footprint.h"
#include "engine/plan/paced.h"
#include "engine/plan/schedule_io.h"

static void add_category(cJSON *out, const struct footprint *footprint, enum tier tier, enum category category)
{
    cJSON_AddStringToObject(out, "tier", tier_name(tier));
    cJSON_AddStringToObject(out, "category", category_name(category));
    json_bytes(out, "resting_bytes", (uint64_t)footprint->category[tier][category].resting_bytes);
    json_bytes(out, "peak_bytes", (uint64_t)footprint->category[tier][category].peak_bytes);
    json_bytes(out, "at_peak_bytes", (uint64_t)footprint->category[tier][category].at_peak_bytes);
    json_bytes(out, "reserved_bytes", (uint64_t)footprint->category[tier][category].extent_bytes);
}

static void add_memory(cJSON *out, const struct footprint *footprint, const struct config *config)
{
    cJSON *memory = cJSON_AddArrayToObject(out, "memory"), *tiers = cJSON_AddArrayToObject(out, "tiers");
    for (int tier = 0; tier < TIERS; tier++) {
        if (footprint->peak_bytes[tier] == 0) continue;
        for (int c = 0; c < CATEGORIES; c++)
            if (footprint->category[tier][c].peak_bytes)
                add_category(json_item(memory), footprint, (enum tier)tier, (enum category)c);
        cJSON *object = json_item(tiers);
        cJSON_AddStringToObject(object, "tier", tier_name((enum tier)tier));
        json_bytes(object, "resting_bytes", (uint64_t)footprint->resting_bytes[tier]);
        json_bytes(object, "peak_bytes", (uint64_t)footprint->peak_bytes[tier]);
        json_number(object, "budget_bytes", config->budget_bytes[tier] > 0, (double)config->budget_bytes[tier]);
        cJSON_AddNumberToObject(object, "peak_operation", footprint->peak_op[tier]);
    }
    json_bytes(out, "peak_bytes", (uint64_t)footprint->peak_bytes[TIER_DEVICE]);
    json_bytes(out, "resting_bytes", (uint64_t)footprint->resting_bytes[TIER_DEVICE]);
}

static void add_traffic(cJSON *out, const struct setup *setup, const struct config *config)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    cJSON *traffic = cJSON_AddArrayToObject(out, "traffic");
    traffic_of(sums, &setup->schedule, &setup->model, 0);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct config_link *pace = plan_pace_of(config, (enum traffic)kind);
        if (sums[kind].count == 0) continue;
        cJSON *object = json_item(traffic);
        cJSON_AddStringToObject(object, "kind", traffic_name((enum traffic)kind));
        cJSON_AddNumberToObject(object, "count", sums[kind].count);
        json_bytes(object, "sent_bytes", (uint64_t)sums[kind].sent_bytes);
        if (pace) cJSON_AddNumberToObject(object, "seconds_at_pace", traffic_seconds(&sums[kind], pace));
    }
    cJSON_AddNumberToObject(out, "theory_bytes", traffic_theory_bytes(&setup->model, &setup->schedule));
    const double paced = paced_seconds(setup, config);
    json_number(out, "paced_seconds", paced > 0, paced); /* nothing is paced, or there was no memory to follow a step */
}

static void add_flops(cJSON *out, const struct setup *setup)
{
    struct flops flops;
    flops_of(&flops, &setup->schedule, &setup->model);
    cJSON *object = cJSON_AddObjectToObject(out, "flops");
    cJSON_AddNumberToObject(object, "forward", flops.forward);
    cJSON_AddNumberToObject(object, "backward", flops.backward);
    cJSON_AddNumberToObject(object, "recomputed", flops.recomputed);
}

int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = plan_checked_setup(&setup, config, err);
    if (status) return status;
    cJSON *json = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(json, "model");
    cJSON_AddStringToObject(model, "name", config->model.name);
    json_bytes(model, "parameters", (uint64_t)setup.model.elems);
    cJSON_AddNumberToObject(json, "ranks", setup.schedule.ranks);
    cJSON_AddNumberToObject(json, "stage", setup.schedule.stage);
    cJSON_AddStringToObject(json, "precision", dtype_name(config->dtype));
    add_memory(json, &setup.footprint, config);
    add_traffic(json, &setup, config);
    add_flops(json, &setup);
    char *schedule = with_schedule ? schedule_to_json(&setup.schedule) : NULL;
    if (schedule) cJSON_AddRawToObject(json, "schedule", schedule);
    free(schedule);
    setup_release(&setup);
    return json_print(out, json, err);
}
