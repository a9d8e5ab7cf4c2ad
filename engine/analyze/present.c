#include "engine/analyze/present.h"

#include <cjson/cJSON.h>
#include <string.h>

/* The key that an event of a live change is about; NULL: it is about something else. */
static const char *changed_key(const cJSON *event)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "kind"));
    const cJSON *detail = cJSON_GetObjectItemCaseSensitive(event, "detail");
    if (!kind) return NULL;
    if (!strcmp(kind, "stage")) return "zero_optimization.stage";
    if (!strcmp(kind, "budget")) return "memory.device_budget";
    return strcmp(kind, "set") ? NULL : cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(detail, "key"));
}

bool present_changed(const struct run_model *model, const char *key, uint32_t *step)
{
    bool found = false;
    for (int i = model->notice_count - 1; i >= 0 && !found; i--) {
        const struct run_notice *notice = &model->notices[i];
        if (notice->kind != NOTICE_EVENT || !notice->json || !strstr(notice->json, "\"detail\"")) continue;
        cJSON *event = cJSON_Parse(notice->json);
        const char *changed = changed_key(event);
        char path[CONFIG_PATH_MAX];
        if (changed) config_path(path, changed);
        found = changed && !strcmp(path, key);
        if (found) *step = notice->step;
        cJSON_Delete(event);
    }
    return found;
}

/* Whether overlap_comm still follows the stage: nobody gave it, at the start or since. Older traces do not say what was
 * given; there it follows if it looks so. */
static bool overlap_follows(const struct run_model *model, const struct config *config)
{
    static const char key[] = "zero_optimization.overlap_comm";
    uint32_t step;
    bool follows = config->zero.overlap_comm == (config->zero.stage == 3);
    if (!follows || present_changed(model, key, &step)) return false;
    if (!model->header.given_json) return true;
    cJSON *given = cJSON_Parse(model->header.given_json);
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(given, key), "from");
    const char *said = cJSON_GetStringValue(from);
    follows = !said || !strcmp(said, "auto");
    cJSON_Delete(given);
    return follows;
}

int present_config(struct config *config, const struct run_model *model, struct error *err)
{
    const struct run_schedule *plan = run_training(model);
    if (!model->header.config_json) return error_set(err, STATUS_INPUT, "the trace does not hold its configuration");
    int status = config_load_text(config, model->header.config_json, err);
    if (status) {
        error_prefix(err, "the configuration in the trace");
        return STATUS_INPUT;
    }
    if (model->ranks > 0) config->topology.ranks = model->ranks;
    if (plan && plan->has_ops) config->zero = plan->ops.knobs;
    config->overlap_follows_stage = overlap_follows(model, config);
    for (int tier = 0; tier < TIERS && model->ranks > 0; tier++)
        if (model->rank[0].tier[tier].has_budget) config->budget_bytes[tier] = model->rank[0].tier[tier].budget_bytes;
    if (!model->pace.known) return STATUS_OK;
    memcpy(config->topology.links, model->pace.links, sizeof config->topology.links);
    config->topology.slow_motion = model->pace.slow_motion;
    config->topology.slow_rank = model->pace.slow_rank;
    return STATUS_OK;
}
