/* `zerolab plan --fit --json`. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "engine/advise/fit.h"
#include "engine/base/printable.h"

static void add_setup(cJSON *out, const struct fit_setup *setup)
{
    cJSON_AddNumberToObject(out, "stage", setup->stage);
    cJSON_AddStringToObject(out, "offload_optimizer", offload_name(setup->optimizer));
    cJSON_AddStringToObject(out, "offload_param", offload_name(setup->param));
    cJSON_AddStringToObject(out, "recompute", recompute_name(setup->recompute));
    if (setup->tiles) cJSON_AddNumberToObject(out, "mlp_tiles", setup->tiles);
    cJSON_AddStringToObject(out, "sizes", sizes_name(setup->sizes));
}

static void add_limits(cJSON *out, const char *name, const struct fit_limits *limits)
{
    cJSON *object = cJSON_AddObjectToObject(out, name);
    for (int limit = 0; limit < FIT_LIMITS; limit++)
        if (limits->bytes[limit])
            cJSON_AddNumberToObject(object, fit_limit_name((enum fit_limit)limit), (double)limits->bytes[limit]);
}

/* Where and what is missing; null: nothing is. */
static void add_lacks(cJSON *out, const char *name, const struct fit_plan *plan, const struct fit_limits *limits)
{
    const enum fit_limit stop = plan->planned ? fit_stop(plan, limits) : FIT_LIMITS;
    if (plan->planned && stop == FIT_LIMITS) {
        cJSON_AddNullToObject(out, name);
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(out, name);
    if (!plan->planned) {
        cJSON_AddStringToObject(object, "refused", plan->refusal);
        return;
    }
    cJSON_AddStringToObject(object, "limit", fit_limit_name(stop));
    cJSON_AddStringToObject(object, "tier", tier_name(plan->need[stop].tier));
    cJSON_AddStringToObject(object, "category", category_name(plan->need[stop].most));
    cJSON_AddNumberToObject(object, "bytes", (double)fit_short(plan, limits, stop));
}

static void add_plan(cJSON *out, const struct fit_plan *plan)
{
    if (!plan->planned) return;
    cJSON_AddNumberToObject(out, "parameters", (double)plan->parameters);
    cJSON *peaks = cJSON_AddObjectToObject(out, "peak_bytes");
    for (int tier = 0; tier < TIERS; tier++)
        cJSON_AddNumberToObject(peaks, tier_name((enum tier)tier), (double)plan->need[tier].bytes);
    cJSON_AddNumberToObject(out, "nvme_bytes_per_step", (double)plan->nvme_bytes);
    cJSON_AddNumberToObject(out, "bus_bytes_per_step", (double)plan->bus_bytes);
    cJSON_AddNumberToObject(out, "sent_bytes_per_step", (double)plan->sent_bytes);
    cJSON_AddNumberToObject(out, "flops_per_step", plan->flops.forward + plan->flops.backward);
    cJSON_AddNumberToObject(out, "recomputed_flops_per_step", plan->flops.recomputed);
}

static cJSON *candidate_object(const struct fit_candidate *candidate, const struct fit_limits *limits)
{
    cJSON *out = cJSON_CreateObject();
    add_setup(out, &candidate->setup);
    add_plan(out, &candidate->plan);
    add_lacks(out, "lacks", &candidate->plan, limits);
    return out;
}

static void add_set(void *user, const char *key, const char *value)
{
    cJSON_AddStringToObject(user, key, value);
}

static cJSON *chosen_object(const struct fit_cheapest *cheapest, const struct config *config,
                            const struct fit_limits *limits)
{
    if (cheapest->chosen < 0) return cJSON_CreateNull();
    const struct fit_candidate *chosen = &cheapest->candidates[cheapest->chosen];
    cJSON *out = candidate_object(chosen, limits);
    fit_sets(config, &chosen->setup, limits->folder, add_set, cJSON_AddObjectToObject(out, "set"));
    return out;
}

static void add_cheapest(cJSON *out, const struct fit_cheapest *cheapest, const struct config *config,
                         const struct fit_limits *limits)
{
    const int until = cheapest->chosen < 0 ? cheapest->count : cheapest->chosen;
    cJSON_AddItemToObject(out, "cheapest", chosen_object(cheapest, config, limits));
    cJSON *cheaper = cJSON_AddArrayToObject(out, "cheaper");
    for (int c = 0; c < until; c++) cJSON_AddItemToArray(cheaper, candidate_object(&cheapest->candidates[c], limits));
}

static cJSON *depth_object(const struct fit_depth *depth, const struct fit_limits *limits)
{
    cJSON *out = cJSON_CreateObject();
    add_setup(out, &depth->setup);
    cJSON_AddNumberToObject(out, "layers", depth->layers);
    cJSON_AddNumberToObject(out, "hidden", depth->hidden);
    if (depth->layers) add_plan(out, &depth->plan);
    if (depth->layers == FIT_LAYERS_MAX) cJSON_AddNullToObject(out, "next_lacks");
    else add_lacks(out, "next_lacks", &depth->next, limits);
    return out;
}

int fit_print_json(FILE *out, const struct fit_question *question, const struct fit_answer *answer, struct error *err)
{
    const struct fit_limits *limits = &question->limits;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", question->any_model ? "gpt2 family" : question->config->model.name);
    cJSON_AddNumberToObject(json, "ranks", question->config->topology.ranks);
    add_limits(json, "limit_bytes", limits);
    if (!question->any_model) add_cheapest(json, &answer->cheapest, question->config, limits);
    cJSON *depths = cJSON_AddArrayToObject(json, "deepest");
    for (int d = 0; d < FIT_SETUPS; d++) cJSON_AddItemToArray(depths, depth_object(&answer->depths[d], limits));
    if (answer->smaller.layers) cJSON_AddItemToObject(json, "smaller", depth_object(&answer->smaller, limits));
    char *text = printable_json(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    if (!text) return error_set(err, STATUS_RUN, "no memory to print what fits");
    fprintf(out, "%s\n", text);
    free(text);
    return STATUS_OK;
}
