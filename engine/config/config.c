/* Loading a configuration: the file becomes a tree, older spellings in it are renamed (spellings.c), `sets` are put in, the tree is
 * walked against the table of keys, and what was given is resolved (resolve.c). */
#include "engine/config/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "engine/base/words.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/number.h"
#include "engine/config/resolve.h"

enum { FILE_BYTES_MAX = 256 * 1024, PATH_ROOM = CONFIG_PATH_MAX };

int config_no_memory(struct error *err)
{
    return error_set(err, STATUS_RUN, "no memory for the configuration");
}

int config_read(char **text, const char *path, struct error *err)
{
    size_t length;
    int status = file_read(text, &length, path, FILE_BYTES_MAX, true, err);
    if (!status && strlen(*text) != length) {
        free(*text), *text = NULL;
        status = error_set(err, STATUS_INPUT, "a zero byte in it; a configuration is text");
    }
    return status;
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

static int apply_set(struct config_source *source, cJSON *tree, const char *set, struct error *err)
{
    const char *equals = strchr(set, '=');
    char typed[PATH_ROOM], path[PATH_ROOM];
    if (!equals || equals == set) return error_set(err, STATUS_USAGE, "%.100s: must be KEY=VALUE", set);
    if (equals - set >= PATH_ROOM) return error_set(err, STATUS_USAGE, "%.100s: no key is that long", set);
    snprintf(typed, sizeof typed, "%.*s", (int)(equals - set), set);
    config_path(path, typed);
    const int row = key_index(path); /* -1: a section, or no key */
    if (row >= 0) source->is_set[row] = true;
    const char *name;
    cJSON *section = section_for(tree, path, &name), *value = hjson_value(equals + 1);
    if (!section || !value) {
        cJSON_Delete(value);
        return config_no_memory(err);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(section, name);
    if (!cJSON_AddItemToObject(section, name, value)) return config_no_memory(err);
    return strcmp(path, "optimizer.type") == 0 ? optimizer_leave_out(source->config, section, err) : STATUS_OK;
}

/* Whether a FIXED key has its accepted value, or an INERT key the value that needs no note. */
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

/* Of each given key a line "path<tab>file|set|auto<tab>spelling<tab>value", in the order of the file. They are for people (`zerolab
 * plan --explain`, the header of a trace), so values are shortened; the spelling is the path itself unless the file has another. */
static int note_given(struct config_source *source, int row, const cJSON *item, bool is_auto, struct error *err)
{
    const char *path = config_keys[row].path, *spelled = source->spelled[row];
    char shown[64];
    const bool set = source->is_set[row];
    hjson_show(item, shown, sizeof shown);
    for (char *c = shown; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = ' ';
    return config_add_line(&source->config->given, err, "%s\t%s\t%s\t%s", path,
                           is_auto ? "auto"
                           : set   ? "set"
                                   : "file",
                           spelled && !set ? spelled : path, shown);
}

static int read_key(struct config_source *source, int row, cJSON *item, struct error *err)
{
    const struct config_key *key = &config_keys[row];
    const char *string = hjson_string(item);
    if (cJSON_IsNull(item)) return STATUS_OK; /* as if not given */
    if (key->type == KEY_BOOL) number_to_bool(item);
    bool is_auto = string && strcmp(string, "auto") == 0;
    int noted = note_given(source, row, item, is_auto, err);
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
        if (hjson_is_off(item) || !item->child) return STATUS_OK;
        item = cJSON_GetObjectItemCaseSensitive(item, "enabled");
        if (item) return hjson_is_off(item) ? STATUS_OK : refuse(key, item, err);
        return config_note(source->config, err, "%s: accepted, no effect here without its `enabled`: %s", key->path,
                           key->text);
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
        key_join(path, prefix, item->string);
        int row = key_index(path), status = STATUS_OK;
        if (row >= 0) status = read_key(source, row, item, err);
        else if (!key_is_section(path)) status = key_unknown(path, err);
        else if (cJSON_IsObject(item)) status = walk(source, item, path, err);
        else if (!cJSON_IsNull(item)) status = not_a_section(path, item, err);
        if (status) return status;
    }
    return STATUS_OK;
}

int config_load_text(struct config *config, const char *text, const char *const *sets, int set_count, struct error *err)
{
    struct config_source source = {.config = config};
    cJSON *tree;
    memset(config, 0, sizeof *config);
    int status = hjson_parse(&tree, text, strlen(text), err);
    if (!status && !cJSON_IsObject(tree)) status = error_set(err, STATUS_INPUT, "not a JSON object { ... }");
    if (!status) status = spellings_rename(&source, tree, err);
    for (int s = 0; !status && s < set_count; s++) status = apply_set(&source, tree, sets[s], err);
    if (!status) status = spellings_of_offload(&source, tree, err);
    for (int k = 0; !status && k < config_key_count; k++)
        if (config_keys[k].class == CLASS_HONOURED) status = key_read_default(&config_keys[k], config, err);
    if (!status) status = types_refuse(tree, err);
    if (!status) status = walk(&source, tree, "", err);
    if (!status) status = config_resolve(&source, err);
    cJSON_Delete(tree);
    if (status) config_release(config);
    return status;
}

int config_load(struct config *config, const char *path, const char *const *sets, int set_count, struct error *err)
{
    char *text = NULL;
    memset(config, 0, sizeof *config);
    int status = path ? config_read(&text, path, err) : STATUS_OK;
    if (!status) status = config_load_text(config, path ? text : config_default, sets, set_count, err);
    free(text);
    if (status) error_prefix(err, "%s%s", path ? path : "the built-in default", set_count ? " with --set" : "");
    return status;
}

void config_release(struct config *config)
{
    free(config->notes);
    free(config->given);
    config->notes = config->given = NULL;
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
        if (config_keys[k].class == CLASS_HONOURED && config_type_has(config, config_keys[k].path))
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

/* ---- which keys are given ---- */

bool config_is_set(const char *const *sets, int count, const char *path)
{
    char typed[CONFIG_PATH_MAX], own[CONFIG_PATH_MAX];
    for (int s = 0; s < count; s++) {
        snprintf(typed, sizeof typed, "%.*s", (int)strcspn(sets[s], "="), sets[s]);
        config_path(own, typed);
        if (strcmp(own, path) == 0) return true;
    }
    return false;
}

bool config_given_next(const char **at, struct config_given *given)
{
    while (*at && **at) {
        const char *line = *at, *end = strchr(line, '\n');
        *at = end ? end + 1 : line + strlen(line);
        if (sscanf(line, "%127[^\t\n]\t%7[^\t\n]\t%127[^\t\n]\t%79[^\n]", given->path, given->from, given->spelling,
                   given->value) == 4)
            return true;
    }
    return false;
}

bool config_is_given(const struct config *config, const char *path)
{
    struct config_given given;
    for (const char *at = config->given; config_given_next(&at, &given);)
        if (strcmp(given.path, path) == 0) return true;
    return false;
}

void config_forget_file(struct config *config)
{
    struct config_given given;
    char *kept = config->given;
    for (const char *at = config->given, *line = at; config_given_next(&at, &given); line = at) {
        const size_t length = at ? (size_t)(at - line) : strlen(line);
        if (strcmp(given.from, "file") == 0) continue;
        memmove(kept, line, length);
        kept += length;
    }
    if (kept) *kept = '\0';
}

/* ---- one key of a loaded configuration: changes it, tells whether it can change during a run, and shows its value ---- */

/* The row of a key with an effect; NULL: it is not one. */
static const struct config_key *honoured(const char *typed)
{
    char path[CONFIG_PATH_MAX];
    config_path(path, typed);
    const int row = key_index(path);
    return row >= 0 && config_keys[row].class == CLASS_HONOURED ? &config_keys[row] : NULL;
}

bool config_restarts(const char *typed)
{
    const struct config_key *key = honoured(typed);
    return key && !key->live;
}

bool config_is_live(const char *typed)
{
    const struct config_key *key = honoured(typed);
    return key && key->live;
}

static const char *const places[] = {"checkpoint.path", "flops_profiler.output_file", "csv_monitor.output_path",
                                     "csv_monitor.enabled"};
enum { PLACES = sizeof places / sizeof *places };

bool config_is_place(const char *typed)
{
    char path[CONFIG_PATH_MAX];
    config_path(path, typed);
    for (int p = 0; p < PLACES; p++)
        if (strcmp(places[p], path) == 0) return true;
    return false;
}

const char *config_place(const struct config *config)
{
    for (int p = 0; p < PLACES; p++)
        if (((const char *)config)[config_keys[key_index(places[p])].offset]) return places[p]; /* a text, or a truth */
    return NULL;
}

int config_try(struct config *config, const char *typed, const char *value, struct error *err)
{
    char path[CONFIG_PATH_MAX];
    config_path(path, typed);
    int row = key_index(path);
    return row < 0 ? key_unknown(path, err) : key_read_text(&config_keys[row], value, config, err);
}

int config_set(struct config *config, const char *typed, const char *value, struct error *err)
{
    char path[CONFIG_PATH_MAX];
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

void config_followed(const struct config *before, const struct config *after, const char *typed, char *text,
                     size_t room)
{
    char path[CONFIG_PATH_MAX], name[CONFIG_PATH_MAX], was[128], now[128];
    config_path(path, typed);
    *text = '\0';
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++) {
        if (strcmp(key->path, path) == 0 || !key_differs(key, before, after, was, now, sizeof now)) continue;
        key_short_name(name, sizeof name, key->path);
        text_append(text, room, "%s%s %s (default)", *text ? ", " : "", name, now);
    }
}

void config_show(const struct config *config, const char *typed, char *text, size_t room)
{
    const struct config_key *key = honoured(typed);
    *text = '\0';
    if (key) key_show(key, config, text, room);
}
