/* Changes one key of a loaded configuration, tells whether it can change during a run, and shows its value. */
#include <string.h>

#include "engine/base/words.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/resolve.h"

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
    if (row < 0) return key_unknown(path, err);
    cJSON *item = hjson_value(value);
    int status = item ? key_read(&config_keys[row], item, config, err) : config_no_memory(err);
    cJSON_Delete(item);
    return status;
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
