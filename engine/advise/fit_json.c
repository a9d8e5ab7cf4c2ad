/* `zerolab plan --fit --json`. */
#include "engine/advise/fit.h"
#include "engine/base/json.h"

static void add_setup(cJSON *out, const struct fit_setup *setup)
{
    json_put(out, NUMBER("stage", setup->stage), TEXT("offload_optimizer", offload_name(setup->optimizer)),
             TEXT("offload_param", offload_name(setup->param)), TEXT("recompute", recompute_name(setup->recompute)));
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
    json_put(object, TEXT("limit", fit_limit_name(stop)), TEXT("tier", tier_name(plan->need[stop].tier)),
             TEXT("category", category_name(plan->need[stop].most)),
             NUMBER("bytes", (uint64_t)fit_short(plan, limits, stop)));
}

static void add_plan(cJSON *out, const struct fit_plan *plan)
{
    if (!plan->planned) return;
    json_put(out, NUMBER("parameters", plan->parameters));
    cJSON *peaks = cJSON_AddObjectToObject(out, "peak_bytes");
    for (int tier = 0; tier < TIERS; tier++)
        cJSON_AddNumberToObject(peaks, tier_name((enum tier)tier), (double)plan->need[tier].bytes);
    json_put(out, NUMBER("nvme_bytes_per_step", plan->nvme_bytes), NUMBER("bus_bytes_per_step", plan->bus_bytes),
             NUMBER("sent_bytes_per_step", plan->sent_bytes),
             NUMBER("flops_per_step", plan->flops.forward + plan->flops.backward),
             NUMBER("recomputed_flops_per_step", plan->flops.recomputed));
}

static void add_candidate(cJSON *out, const struct fit_candidate *candidate, const struct fit_limits *limits)
{
    add_setup(out, &candidate->setup);
    add_plan(out, &candidate->plan);
    add_lacks(out, "lacks", &candidate->plan, limits);
}

static void add_set(void *user, const char *key, const char *value)
{
    cJSON_AddStringToObject(user, key, value);
}

static void add_cheapest(cJSON *out, const struct fit_cheapest *cheapest, const struct config *config,
                         const struct fit_limits *limits)
{
    const int until = cheapest->chosen < 0 ? cheapest->count : cheapest->chosen;
    cJSON *chosen = until < cheapest->count ? cJSON_AddObjectToObject(out, "cheapest") : NULL;
    if (chosen) {
        add_candidate(chosen, &cheapest->candidates[until], limits);
        fit_sets(config, &cheapest->candidates[until].setup, limits->folder, add_set,
                 cJSON_AddObjectToObject(chosen, "set"));
    } else cJSON_AddNullToObject(out, "cheapest");
    cJSON *cheaper = cJSON_AddArrayToObject(out, "cheaper");
    for (int c = 0; c < until; c++) add_candidate(json_item(cheaper), &cheapest->candidates[c], limits);
}

static void add_depth(cJSON *out, const struct fit_depth *depth, const struct fit_limits *limits)
{
    add_setup(out, &depth->setup);
    json_put(out, NUMBER("layers", depth->layers), NUMBER("hidden", depth->hidden));
    if (depth->layers) add_plan(out, &depth->plan);
    if (depth->layers == FIT_LAYERS_MAX) cJSON_AddNullToObject(out, "next_lacks");
    else add_lacks(out, "next_lacks", &depth->next, limits);
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
    for (int d = 0; d < FIT_SETUPS; d++) add_depth(json_item(depths), &answer->depths[d], limits);
    if (answer->smaller.layers) add_depth(cJSON_AddObjectToObject(json, "smaller"), &answer->smaller, limits);
    return json_print(out, json, err);
}
