/* `zerolab plan --json`: the figures of the page as one object. */
#include <stdlib.h>

#include "engine/advise/print.h"
#include "engine/base/json.h"
#include "engine/plan/footprint.h"
#include "engine/plan/paced.h"
#include "engine/plan/schedule_io.h"

static void add_category(cJSON *out, const struct footprint *footprint, enum tier tier, enum category category)
{
    json_put(out, TEXT("tier", tier_name(tier)), TEXT("category", category_name(category)),
             NUMBER("resting_bytes", footprint->category[tier][category].resting_bytes),
             NUMBER("peak_bytes", footprint->category[tier][category].peak_bytes),
             NUMBER("at_peak_bytes", footprint->category[tier][category].at_peak_bytes),
             NUMBER("reserved_bytes", footprint->category[tier][category].extent_bytes));
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
        json_put(object, NUMBER("resting_bytes", footprint->resting_bytes[tier]),
                 NUMBER("peak_bytes", footprint->peak_bytes[tier]));
        json_number(object, "budget_bytes", config->budget_bytes[tier] > 0, (double)config->budget_bytes[tier]);
        cJSON_AddNumberToObject(object, "peak_operation", footprint->peak_op[tier]);
    }
    json_put(out, NUMBER("peak_bytes", footprint->peak_bytes[TIER_DEVICE]),
             NUMBER("resting_bytes", footprint->resting_bytes[TIER_DEVICE]));
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
        json_put(object, TEXT("kind", traffic_name((enum traffic)kind)), NUMBER("count", sums[kind].count),
                 NUMBER("sent_bytes", sums[kind].sent_bytes));
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
    json_put(cJSON_AddObjectToObject(out, "flops"), NUMBER("forward", flops.forward),
             NUMBER("backward", flops.backward), NUMBER("recomputed", flops.recomputed));
}

int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = plan_checked_setup(&setup, config, err);
    if (status) return status;
    cJSON *json = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(json, "model");
    json_put(model, TEXT("name", config->model.name), NUMBER("parameters", setup.model.elems));
    json_put(json, NUMBER("ranks", setup.schedule.ranks), NUMBER("stage", setup.schedule.stage),
             TEXT("precision", dtype_name(config->dtype)));
    add_memory(json, &setup.footprint, config);
    add_traffic(json, &setup, config);
    add_flops(json, &setup);
    char *schedule = with_schedule ? schedule_to_json(&setup.schedule) : NULL;
    if (schedule) cJSON_AddRawToObject(json, "schedule", schedule);
    free(schedule);
    setup_release(&setup);
    return json_print(out, json, err);
}
