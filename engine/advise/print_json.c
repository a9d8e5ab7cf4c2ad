/* `zerolab plan --json`: the figures of the page as one object. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "engine/advise/print.h"
#include "engine/advise/print_parts.h"
#include "engine/base/printable.h"
#include "engine/plan/flops.h"
#include "engine/plan/paced.h"
#include "engine/plan/schedule_io.h"

static cJSON *category_object(const struct footprint *footprint, enum tier tier, enum category category)
{
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "tier", tier_name(tier));
    cJSON_AddStringToObject(out, "category", category_name(category));
    cJSON_AddNumberToObject(out, "resting_bytes", (double)footprint->category[tier][category].resting_bytes);
    cJSON_AddNumberToObject(out, "peak_bytes", (double)footprint->category[tier][category].peak_bytes);
    cJSON_AddNumberToObject(out, "at_peak_bytes", (double)footprint->category[tier][category].at_peak_bytes);
    cJSON_AddNumberToObject(out, "reserved_bytes", (double)footprint->category[tier][category].extent_bytes);
    return out;
}

static void add_memory(cJSON *out, const struct footprint *footprint, const struct config *config)
{
    cJSON *memory = cJSON_AddArrayToObject(out, "memory"), *tiers = cJSON_AddArrayToObject(out, "tiers");
    for (int tier = 0; tier < TIERS; tier++) {
        if (footprint->peak_bytes[tier] == 0) continue;
        for (int c = 0; c < CATEGORIES; c++)
            if (footprint->category[tier][c].peak_bytes)
                cJSON_AddItemToArray(memory, category_object(footprint, (enum tier)tier, (enum category)c));
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "tier", tier_name((enum tier)tier));
        cJSON_AddNumberToObject(object, "resting_bytes", (double)footprint->resting_bytes[tier]);
        cJSON_AddNumberToObject(object, "peak_bytes", (double)footprint->peak_bytes[tier]);
        if (config->budget_bytes[tier])
            cJSON_AddNumberToObject(object, "budget_bytes", (double)config->budget_bytes[tier]);
        else cJSON_AddNullToObject(object, "budget_bytes");
        cJSON_AddNumberToObject(object, "peak_operation", footprint->peak_op[tier]);
        cJSON_AddItemToArray(tiers, object);
    }
    cJSON_AddNumberToObject(out, "peak_bytes", (double)footprint->peak_bytes[TIER_DEVICE]);
    cJSON_AddNumberToObject(out, "resting_bytes", (double)footprint->resting_bytes[TIER_DEVICE]);
}

static void add_traffic(cJSON *out, const struct setup *setup, const struct config *config)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    cJSON *traffic = cJSON_AddArrayToObject(out, "traffic");
    traffic_of(sums, &setup->schedule, &setup->model, 0);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct config_link *pace = plan_pace_of(config, (enum traffic)kind);
        if (sums[kind].count == 0) continue;
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "kind", traffic_name((enum traffic)kind));
        cJSON_AddNumberToObject(object, "count", sums[kind].count);
        cJSON_AddNumberToObject(object, "sent_bytes", (double)sums[kind].sent_bytes);
        if (pace) cJSON_AddNumberToObject(object, "seconds_at_pace", traffic_seconds(&sums[kind], pace));
        cJSON_AddItemToArray(traffic, object);
    }
    cJSON_AddNumberToObject(out, "theory_bytes", traffic_theory_bytes(&setup->model, &setup->schedule));
    const double paced = paced_seconds(setup, config);
    if (paced > 0) cJSON_AddNumberToObject(out, "paced_seconds", paced);
    else cJSON_AddNullToObject(out, "paced_seconds"); /* nothing is paced, or there was no memory to follow a step */
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
    cJSON_AddNumberToObject(model, "parameters", (double)setup.model.elems);
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
    char *text = printable_json(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    if (!text) return error_set(err, STATUS_RUN, "no memory to print a plan");
    fprintf(out, "%s\n", text);
    free(text);
    return STATUS_OK;
}
