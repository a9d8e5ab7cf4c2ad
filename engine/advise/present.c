#include "engine/advise/present.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/observe/questions.h"

/* ---- live changes: events "stage", "budget" and "set" ---- */

static bool begins(const char *text, const char *word)
{
    return !strncmp(text, word, strlen(word));
}

static bool read_change(struct present_change *change, const struct run_notice *notice)
{
    if (notice->kind != NOTICE_EVENT || !notice->json) return false;
    bool stage = begins(notice->text, "stage"), budget = begins(notice->text, "budget");
    if (!stage && !budget && !begins(notice->text, "set")) return false;
    cJSON *event = cJSON_Parse(notice->json);
    const cJSON *detail = json_get(event, "detail");
    const cJSON *to = json_get(detail, "to");
    const char *key = stage    ? "zero_optimization.stage"
                      : budget ? "memory.device_budget"
                               : json_get_text(detail, "key");
    bool found = key && (cJSON_IsNumber(to) || cJSON_IsString(to));
    *change = (struct present_change){.step = notice->step};
    if (found) config_path(change->key, key);
    if (cJSON_IsNumber(to)) snprintf(change->value, sizeof change->value, "%.0f", to->valuedouble);
    if (cJSON_IsString(to)) snprintf(change->value, sizeof change->value, "%s", to->valuestring);
    cJSON_Delete(event);
    return found;
}

int present_changes(const struct run_model *model, struct present_change changes[PRESENT_CHANGES_MAX])
{
    int count = 0, first = model->notice_count;
    struct present_change change;
    while (first > 0 && count < PRESENT_CHANGES_MAX) count += read_change(&change, &model->notices[--first]);
    count = 0;
    for (int i = first; i < model->notice_count; i++) count += read_change(&changes[count], &model->notices[i]);
    return count;
}

/* ---- all together ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return hash;
}

uint64_t present_fingerprint(const struct run_model *model)
{
    const struct run_schedule *plan = run_training(model);
    const uint64_t newest_ns = model->notice_count ? model->notices[model->notice_count - 1].time_ns : 0;
    const uint64_t numbers[] = {(uint64_t)model->ranks, (uint64_t)model->notice_count, newest_ns, model->training_schedule};
    uint64_t hash = mix(14695981039346656037u, numbers, sizeof numbers);
    hash = mix(hash, model->header.config_json, strlen(model->header.config_json));
    for (int tier = 0; tier < TIERS && model->ranks; tier++)
        hash = mix(hash, &model->rank[0].tier[tier].budget_bytes, sizeof model->rank[0].tier[tier].budget_bytes);
    if (plan && plan->has_ops) hash = mix(hash, &plan->ops.knobs, sizeof plan->ops.knobs);
    return hash | 1;
}

/* Whether overlap_comm began as one that follows the stage: nobody gave it. Older traces do not say what was given; there it
 * follows if it looks so. */
static bool overlap_follows(const struct run_model *model, const struct config *config)
{
    bool follows = config->zero.overlap_comm == (config->zero.stage == 3);
    if (!follows || !model->header.given_json) return follows;
    cJSON *given = cJSON_Parse(model->header.given_json);
    const char *from = json_get_text(json_get(given, "zero_optimization.overlap_comm"), "from");
    follows = !from || !strcmp(from, "auto");
    cJSON_Delete(given);
    return follows;
}

int present_config(struct config *config, const struct run_model *model, struct error *err)
{
    struct present_change changes[PRESENT_CHANGES_MAX];
    const struct run_schedule *plan = run_training(model);
    if (!model->header.config_json) return error_set(err, STATUS_INPUT, "the trace does not hold its configuration");
    int status = config_load_text(config, model->header.config_json, NULL, 0, err);
    if (status) {
        error_prefix(err, "the configuration in the trace");
        return STATUS_INPUT;
    }
    if (model->ranks > 0) config->topology.ranks = run_world(model);
    config->overlap_follows_stage = overlap_follows(model, config);
    int count = present_changes(model, changes);
    for (int c = 0; c < count; c++) config_set(config, changes[c].key, changes[c].value, NULL);
    /* Events may have been forgotten; what was planned, held and paced has not. */
    if (plan && plan->has_ops) config->zero = plan->ops.knobs;
    for (int tier = 0; tier < TIERS && model->ranks > 0; tier++)
        if (model->rank[0].tier[tier].has_budget) config->budget_bytes[tier] = model->rank[0].tier[tier].budget_bytes;
    if (!model->pace.known) return STATUS_OK;
    memcpy(config->topology.links, model->pace.links, sizeof config->topology.links);
    config->topology.slow_motion = model->pace.slow_motion;
    config->topology.slow_rank = model->pace.slow_rank;
    config->topology.device_flops = model->pace.device_flops;
    return STATUS_OK;
}
