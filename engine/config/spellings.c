/* Older and shorter spellings of keys, which become the keys that they mean. */
#include <stdio.h>
#include <string.h>

#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/resolve.h"

/* Records the spelling for the key that an alias means, or for all keys of that section. */
static void remember_spelling(struct config_source *source, const struct config_key *alias)
{
    size_t length = strlen(alias->value);
    for (int k = 0; k < config_key_count; k++)
        if (strncmp(config_keys[k].path, alias->value, length) == 0 &&
            (config_keys[k].path[length] == '\0' || config_keys[k].path[length] == '.'))
            source->spelled[k] = alias->path;
}

static int rename_aliases(struct config_source *source, cJSON *section, const char *prefix, struct error *err)
{
    for (cJSON *item = section->child; item; item = item->next) {
        char path[CONFIG_PATH_MAX];
        key_join(path, prefix, item->string);
        int row = key_index(path);
        if (row >= 0 && config_keys[row].class == CLASS_ALIAS) {
            const char *target = config_keys[row].value, *dot = strrchr(target, '.');
            const char *name = dot ? dot + 1 : target;
            if (cJSON_GetObjectItemCaseSensitive(section, name))
                return error_set(err, STATUS_USAGE, "%s: %s means the same; give one of them", path, target);
            char *copy = cJSON_malloc(strlen(name) + 1);
            if (!copy) return config_no_memory(err);
            cJSON_free(item->string);
            item->string = strcpy(copy, name);
            remember_spelling(source, &config_keys[row]);
            key_join(path, prefix, name);
        }
        if (!cJSON_IsObject(item)) continue;
        int status = rename_aliases(source, item, path, err);
        if (status) return status;
    }
    return STATUS_OK;
}

/* `"zero_optimization": true` is an old way to write stage 1, false stage 0. */
static int expand_legacy_switch(struct config_source *source, cJSON *tree, struct error *err)
{
    cJSON *old = cJSON_GetObjectItemCaseSensitive(tree, "zero_optimization");
    if (!cJSON_IsBool(old)) return STATUS_OK;
    cJSON *section = cJSON_CreateObject(), *stage = hjson_value(cJSON_IsTrue(old) ? "1" : "0");
    if (!section || !stage || !cJSON_AddItemToObject(section, "stage", stage)) {
        cJSON_Delete(section), cJSON_Delete(stage);
        return config_no_memory(err);
    }
    cJSON_ReplaceItemInObjectCaseSensitive(tree, "zero_optimization", section);
    source->spelled[key_index("zero_optimization.stage")] = "zero_optimization";
    return STATUS_OK;
}

/* `"cpu_offload": true` is an old way to write `"offload_optimizer": {"device": "cpu"}`, cpu_offload_param the same for it. */
int spellings_of_offload(struct config_source *source, cJSON *tree, struct error *err)
{
    static const char *const old[][2] = {{"cpu_offload", "offload_optimizer"}, {"cpu_offload_param", "offload_param"}};
    static const char *const keys[][2] = {
        {"zero_optimization.cpu_offload", "zero_optimization.offload_optimizer.device"},
        {"zero_optimization.cpu_offload_param", "zero_optimization.offload_param.device"}};
    cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, "zero_optimization");
    for (int i = 0; i < 2; i++) {
        const cJSON *given = cJSON_GetObjectItemCaseSensitive(section, old[i][0]);
        cJSON *place = cJSON_GetObjectItemCaseSensitive(section, old[i][1]);
        if (!cJSON_IsTrue(given)) continue;
        if (cJSON_GetObjectItemCaseSensitive(place, "device"))
            return error_set(err, STATUS_USAGE, "zero_optimization.%s: %s.device means the same; give one of them",
                             old[i][0], old[i][1]);
        if (!cJSON_IsObject(place)) {
            cJSON_DeleteItemFromObjectCaseSensitive(section, old[i][1]);
            place = cJSON_AddObjectToObject(section, old[i][1]);
        }
        cJSON *device = hjson_value("cpu");
        if (!place || !device || !cJSON_AddItemToObject(place, "device", device)) return config_no_memory(err);
        cJSON_DeleteItemFromObjectCaseSensitive(section, old[i][0]);
        source->spelled[key_index(keys[i][1])] = keys[i][0];
    }
    return STATUS_OK;
}

int spellings_rename(struct config_source *source, cJSON *tree, struct error *err)
{
    int status = rename_aliases(source, tree, "", err);
    return status ? status : expand_legacy_switch(source, tree, err);
}

/* The only key whose path ends with these parts; NULL if there is none, or more than one. */
static const char *key_ending(const char *end)
{
    const size_t wanted = strlen(end);
    const char *found = NULL;
    for (int k = 0; k < config_key_count; k++) {
        const char *path = config_keys[k].path;
        const size_t length = strlen(path);
        if (config_keys[k].class == CLASS_ALIAS || length <= wanted || path[length - wanted - 1] != '.') continue;
        if (strcmp(path + length - wanted, end) != 0) continue;
        if (found) return NULL;
        found = path;
    }
    return found;
}

/* The same for a path that was typed, of which the last parts are enough where they mean one key. */
void config_path(char path[CONFIG_PATH_MAX], const char *typed)
{
    snprintf(path, CONFIG_PATH_MAX, "%.*s", CONFIG_PATH_MAX - 1, typed);
    for (int k = 0; k < config_key_count; k++) {
        size_t length = strlen(config_keys[k].path);
        if (config_keys[k].class != CLASS_ALIAS || strncmp(typed, config_keys[k].path, length) != 0) continue;
        if (typed[length] == '\0' || typed[length] == '.')
            snprintf(path, CONFIG_PATH_MAX, "%s%.60s", config_keys[k].value, typed + length);
    }
    const char *whole = key_index(path) < 0 && !key_is_section(path) ? key_ending(path) : NULL;
    if (whole) snprintf(path, CONFIG_PATH_MAX, "%s", whole);
}
