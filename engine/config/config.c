/* Loading a configuration: the file becomes a tree, older spellings in it are renamed, `sets` are put in, the tree is
 * walked against the table of keys, and what was given is resolved (resolve.c). */
#include "engine/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/config/builtin.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/number.h"
#include "engine/config/optimizer.h"
#include "engine/config/resolve.h"

enum { FILE_BYTES_MAX = 256 * 1024, PATH_ROOM = CONFIG_PATH_MAX };

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RUN, "no memory for the configuration");
}

static int read_file(const char *path, char **text, size_t *length, struct error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file) return error_set(err, STATUS_INPUT, "cannot be opened: %m");
    *text = malloc(FILE_BYTES_MAX + 1);
    *length = *text ? fread(*text, 1, FILE_BYTES_MAX + 1, file) : 0;
    int status = STATUS_OK;
    if (!*text) status = no_memory(err);
    else if (ferror(file)) status = error_set(err, STATUS_INPUT, "cannot be read: %m");
    else if (*length > FILE_BYTES_MAX)
        status = error_set(err, STATUS_INPUT, "longer than %d bytes, which no configuration is", FILE_BYTES_MAX);
    fclose(file);
    if (status) free(*text), *text = NULL;
    else (*text)[*length] = '\0';
    return status;
}

static int read_tree(cJSON **tree, const char *path, struct error *err)
{
    char *text = NULL;
    size_t length = 0;
    int status;
    if (!path) return hjson_parse(tree, config_builtin, (size_t)(config_builtin_end - config_builtin), err);
    if ((status = read_file(path, &text, &length, err))) return status;
    status = hjson_parse(tree, text, length, err);
    free(text);
    if (!status && !cJSON_IsObject(*tree)) {
        cJSON_Delete(*tree), *tree = NULL;
        status = error_set(err, STATUS_INPUT, "not a JSON object { ... }");
    }
    return status;
}

static void join(char *out, const char *prefix, const char *name)
{
    snprintf(out, PATH_ROOM, "%s%s%.60s", prefix, prefix[0] ? "." : "", name);
}

/* Remembers it of the key, or of all keys of the section, that an alias means. */
static void remember_spelling(struct config_source *source, const struct config_key *alias)
{
    size_t length = strlen(alias->value);
    for (int k = 0; k < config_key_count; k++)
        if (strncmp(config_keys[k].path, alias->value, length) == 0 &&
            (config_keys[k].path[length] == '\0' || config_keys[k].path[length] == '.'))
            source->spelled[k] = alias->path;
}

/* Older and shorter spellings become the keys they mean, so that the rest, `sets` included, knows one spelling. */
static int rename_aliases(struct config_source *source, cJSON *section, const char *prefix, struct error *err)
{
    for (cJSON *item = section->child; item; item = item->next) {
        char path[PATH_ROOM];
        join(path, prefix, item->string);
        int row = key_index(path);
        if (row >= 0 && config_keys[row].class == CLASS_ALIAS) {
            const char *target = config_keys[row].value, *dot = strrchr(target, '.');
            const char *name = dot ? dot + 1 : target;
            if (cJSON_GetObjectItemCaseSensitive(section, name))
                return error_set(err, STATUS_USAGE, "%s: %s means the same; give one of them", path, target);
            char *copy = cJSON_malloc(strlen(name) + 1);
            if (!copy) return no_memory(err);
            cJSON_free(item->string);
            item->string = strcpy(copy, name);
            remember_spelling(source, &config_keys[row]);
            join(path, prefix, name);
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
        return no_memory(err);
    }
    cJSON_ReplaceItemInObjectCaseSensitive(tree, "zero_optimization", section);
    source->spelled[key_index("zero_optimization.stage")] = "zero_optimization";
    return STATUS_OK;
}

/* `"cpu_offload": true` is an old way to write `"offload_optimizer": {"device": "cpu"}`, cpu_offload_param the same for it. */
static int expand_legacy_offload(struct config_source *source, cJSON *tree, struct error *err)
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
        if (!place || !device || !cJSON_AddItemToObject(place, "device", device)) return no_memory(err);
        cJSON_DeleteItemFromObjectCaseSensitive(section, old[i][0]);
        source->spelled[key_index(keys[i][1])] = keys[i][0];
    }
    return STATUS_OK;
}

/* The same for a path that was typed. */
void config_path(char path[CONFIG_PATH_MAX], const char *typed)
{
    snprintf(path, PATH_ROOM, "%.*s", PATH_ROOM - 1, typed);
    for (int k = 0; k < config_key_count; k++) {
        size_t length = strlen(config_keys[k].path);
        if (config_keys[k].class != CLASS_ALIAS || strncmp(typed, config_keys[k].path, length) != 0) continue;
        if (typed[length] == '\0' || typed[length] == '.')
            snprintf(path, PATH_ROOM, "%s%.60s", config_keys[k].value, typed + length);
    }
}

/* The section that holds the last part of `path`, made on the way if need be. */
static cJSON *section_for(cJSON *tree, char *path, const char **name)
{
    char *part = path;
    for (char *dot; (dot = strchr(part, '.')); part = dot + 1) {
        *dot = '\0';
        cJSON *next = cJSON_GetObjectItemCaseSensitive(tree, part);
        if (!cJSON_IsObject(next)) {
            cJSON_DeleteItemFromObjectCaseSensitive(tree, part);
            next = cJSON_AddObjectToObject(tree, part);
        }
        *dot = '.';
        if (!next) return NULL;
        tree = next;
    }
    *name = part;
    return tree;
}

static int apply_set(struct config *config, cJSON *tree, const char *set, struct error *err)
{
    const char *equals = strchr(set, '=');
    char typed[PATH_ROOM], path[PATH_ROOM];
    if (!equals || equals == set) return error_set(err, STATUS_USAGE, "%.100s: must be KEY=VALUE", set);
    if (equals - set >= PATH_ROOM) return error_set(err, STATUS_USAGE, "%.100s: no key is that long", set);
    snprintf(typed, sizeof typed, "%.*s", (int)(equals - set), set);
    config_path(path, typed);
    const char *name;
    cJSON *section = section_for(tree, path, &name), *value = hjson_value(equals + 1);
    if (!section || !value) {
        cJSON_Delete(value);
        return no_memory(err);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(section, name);
    if (!cJSON_AddItemToObject(section, name, value)) return no_memory(err);
    return strcmp(path, "optimizer.type") == 0 ? optimizer_leave_out(config, section, err) : STATUS_OK;
}

/* Whether a FIXED key has its one value, or an INERT key the value about which nothing need be said. */
static bool has_value(const char *values, const cJSON *item)
{
    if (strcmp(values, "off") == 0) return hjson_is_off(item);
    if (values[0] == '\0') return false;
    if (cJSON_IsBool(item)) return strcmp(values, cJSON_IsTrue(item) ? "true" : "false") == 0;
    if (hjson_number(item)) return strtold(hjson_number(item), NULL) == strtold(values, NULL);
    const char *string = hjson_string(item);
    for (const char *word = values; string && *word; word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|'))
        if (strlen(string) == strcspn(word, "|") && strncasecmp(word, string, strlen(string)) == 0) return true;
    return false;
}

static int refuse(const struct config_key *key, const cJSON *item, struct error *err)
{
    char shown[64];
    return error_set(err, STATUS_USAGE, "%s%s = %s: cannot be honoured: %s", key->path,
                     key->class == CLASS_SWITCH ? ".enabled" : "", hjson_show(item, shown, sizeof shown), key->text);
}

/* Python takes 0 and 1 for false and true, and files have them. */
static void number_to_bool(cJSON *item)
{
    const char *number = hjson_number(item);
    if (!number || (strcmp(number, "0") != 0 && strcmp(number, "1") != 0)) return;
    item->type = *number == '1' ? cJSON_True : cJSON_False;
    cJSON_free(item->valuestring);
    item->valuestring = NULL;
}

static int read_key(struct config_source *source, int row, cJSON *item, struct error *err)
{
    const struct config_key *key = &config_keys[row];
    const char *string = hjson_string(item);
    if (cJSON_IsNull(item)) return STATUS_OK; /* as if not given */
    if (key->type == KEY_BOOL) number_to_bool(item);
    bool is_auto = string && strcmp(string, "auto") == 0;
    int noted = config_note_given(source, row, item, is_auto, err);
    if (noted || is_auto) {
        source->given[row] = GIVEN_AUTO; /* acts on honoured keys only */
        return noted;
    }
    source->given[row] = GIVEN_VALUE;
    bool can_be_off = key->class == CLASS_FIXED && hjson_is_off(item) && strcmp(key->value, "off") == 0;
    int status = can_be_off ? STATUS_OK : key_read(key, item, source->config, err);
    if (status) return status;
    switch (key->class) {
    case CLASS_FIXED: return can_be_off || has_value(key->value, item) ? STATUS_OK : refuse(key, item, err);
    case CLASS_INERT:
        return has_value(key->value, item)
                   ? STATUS_OK
                   : config_note(source->config, err, "%s: accepted, no effect here: %s", key->path, key->text);
    case CLASS_SWITCH:
        item = cJSON_GetObjectItemCaseSensitive(item, "enabled");
        return !item || hjson_is_off(item) ? STATUS_OK : refuse(key, item, err);
    case CLASS_OPAQUE:
        if (hjson_is_off(item) || cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(item, "enabled"))) return STATUS_OK;
        return config_note(source->config, err, "%s: accepted, no effect here: %s", key->path, key->text);
    case CLASS_HONOURED:
    case CLASS_QUIET:
    case CLASS_ALIAS: break;
    }
    return STATUS_OK;
}

static int not_a_section(const char *path, const cJSON *item, struct error *err)
{
    char shown[64], enabled[PATH_ROOM + 16];
    hjson_show(item, shown, sizeof shown);
    snprintf(enabled, sizeof enabled, "%s.enabled", path);
    if (cJSON_IsBool(item) && key_index(enabled) >= 0)
        return error_set(err, STATUS_USAGE, "%s = %s: is a section; did you mean %s?", path, shown, enabled);
    return error_set(err, STATUS_USAGE, "%s = %s: must be a section { ... }", path, shown);
}

static int walk(struct config_source *source, cJSON *section, const char *prefix, struct error *err)
{
    for (cJSON *item = section->child; item; item = item->next) {
        char path[PATH_ROOM];
        join(path, prefix, item->string);
        int row = key_index(path), status = STATUS_OK;
        if (row >= 0) status = read_key(source, row, item, err);
        else if (!key_is_section(path)) status = key_unknown(path, err);
        else if (cJSON_IsObject(item)) status = walk(source, item, path, err);
        else if (!cJSON_IsNull(item)) status = not_a_section(path, item, err);
        if (status) return status;
    }
    return STATUS_OK;
}

static int set_defaults(struct config *config, struct error *err)
{
    for (int k = 0; k < config_key_count; k++) {
        if (config_keys[k].class != CLASS_HONOURED) continue;
        struct config_key key = config_keys[k];
        if (key.type != KEY_CHOICE) key.range = ""; /* 0 stands for "not given" where the range begins at 1 */
        cJSON *item = hjson_value(key.value);
        int status = item ? key_read(&key, item, config, err) : no_memory(err);
        cJSON_Delete(item);
        if (status) return status;
    }
    return STATUS_OK;
}

/* Takes the tree. */
static int load(struct config *config, cJSON *tree, const char *const *sets, int set_count, struct error *err)
{
    struct config_source source = {.config = config, .sets = sets, .set_count = set_count};
    int status = rename_aliases(&source, tree, "", err);
    if (!status) status = expand_legacy_switch(&source, tree, err);
    for (int s = 0; !status && s < set_count; s++) status = apply_set(config, tree, sets[s], err);
    if (!status) status = expand_legacy_offload(&source, tree, err);
    if (!status) status = set_defaults(config, err);
    if (!status) status = optimizer_refuse(tree, err);
    if (!status) status = walk(&source, tree, "", err);
    if (!status) status = config_resolve(&source, err);
    cJSON_Delete(tree);
    return status;
}

int config_load(struct config *config, const char *path, const char *const *sets, int set_count, struct error *err)
{
    memset(config, 0, sizeof *config);
    cJSON *tree = NULL;
    int status = read_tree(&tree, path, err);
    if (!status) status = load(config, tree, sets, set_count, err);
    if (!status) return STATUS_OK;
    config_release(config);
    error_prefix(err, "%s%s", path ? path : "configs/nano.json", set_count ? " with --set" : "");
    return status;
}

int config_load_text(struct config *config, const char *text, const char *const *sets, int set_count, struct error *err)
{
    memset(config, 0, sizeof *config);
    cJSON *tree = NULL;
    int status = hjson_parse(&tree, text, strlen(text), err);
    if (!status && !cJSON_IsObject(tree)) {
        cJSON_Delete(tree);
        return error_set(err, STATUS_INPUT, "not a JSON object { ... }");
    }
    if (!status) status = load(config, tree, sets, set_count, err);
    if (status) config_release(config);
    return status;
}

void config_release(struct config *config)
{
    free(config->notes);
    free(config->given);
    config->notes = config->given = NULL;
}

bool config_restarts(const char *typed)
{
    char path[PATH_ROOM];
    config_path(path, typed);
    int row = key_index(path);
    return row >= 0 && config_keys[row].class == CLASS_HONOURED && !config_keys[row].live;
}

bool config_is_live(const char *typed)
{
    char path[PATH_ROOM];
    config_path(path, typed);
    int row = key_index(path);
    return row >= 0 && config_keys[row].class == CLASS_HONOURED && config_keys[row].live;
}

int config_try(struct config *config, const char *typed, const char *value, struct error *err)
{
    char path[PATH_ROOM];
    config_path(path, typed);
    int row = key_index(path);
    if (row < 0) return key_unknown(path, err);
    cJSON *item = hjson_value(value);
    int status = item ? key_read(&config_keys[row], item, config, err) : no_memory(err);
    cJSON_Delete(item);
    return status;
}

int config_set(struct config *config, const char *typed, const char *value, struct error *err)
{
    char path[PATH_ROOM];
    config_path(path, typed);
    int row = key_index(path);
    if (row < 0) return key_unknown(path, err);
    const struct config_key *key = &config_keys[row];
    if (key->class != CLASS_HONOURED)
        return error_set(err, STATUS_USAGE, "%s: has no effect here%s%s", path, key->text[0] ? ": " : "", key->text);
    if (!key->live)
        return error_set(err, STATUS_USAGE, "%s: cannot change while a run goes on; start again with --set %s=%.100s",
                         path, path, value);
    struct config changed = *config;
    int status = config_try(&changed, path, value, err);
    if (!status && strcmp(key->path, "zero_optimization.overlap_comm") == 0) changed.overlap_follows_stage = false;
    if (changed.overlap_follows_stage) changed.zero.overlap_comm = changed.zero.stage == 3;
    if (!status) status = config_check(&changed, err);
    if (!status) *config = changed;
    return status;
}

void config_show(const struct config *config, const char *typed, char *text, size_t room)
{
    char path[PATH_ROOM];
    config_path(path, typed);
    int row = key_index(path);
    *text = '\0';
    if (row >= 0 && config_keys[row].class == CLASS_HONOURED) key_show(&config_keys[row], config, text, room);
}

/* Puts value at "a.b.c", making the sections on the way. */
static bool put(cJSON *tree, const char *path, cJSON *value)
{
    char copy[PATH_ROOM];
    const char *name;
    snprintf(copy, sizeof copy, "%s", path);
    cJSON *section = section_for(tree, copy, &name);
    if (section && value && cJSON_AddItemToObject(section, name, value)) return true;
    cJSON_Delete(value);
    return false;
}

char *config_to_json(const struct config *config)
{
    cJSON *tree = cJSON_CreateObject();
    bool whole = tree != NULL;
    for (int k = 0; whole && k < config_key_count; k++)
        if (config_keys[k].class == CLASS_HONOURED && optimizer_has(config, config_keys[k].path) &&
            scheduler_has(config, config_keys[k].path))
            whole = put(tree, config_keys[k].path, key_to_json(&config_keys[k], config));
    char *text = whole ? cJSON_PrintUnformatted(tree) : NULL;
    cJSON_Delete(tree);
    return text;
}

int config_parse_bytes(const char *text, uint64_t *bytes, struct error *err)
{
    if (number_bytes(text, bytes)) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "\"%.60s\" is not a size; write bytes, or 256MiB, 1.5GB", text);
}
