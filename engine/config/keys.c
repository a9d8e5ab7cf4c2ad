#include "engine/config/keys.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/base/words.h"

#define FIELD(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)
#define LIVE         true
#define RESTART      false

const struct config_key config_keys[] = {
#define KEY(path, type, field, fallback, range, live, help)                                                            \
    {path, KEY_##type, CLASS_HONOURED, FIELD(field), fallback, range, live, help},
#define FIXED(path, type, accepted, reason) {path, KEY_##type, CLASS_FIXED, 0, 0, accepted, accepted, false, reason},
#define INERT(path, type, silent, reason)   {path, KEY_##type, CLASS_INERT, 0, 0, silent, "", false, reason},
#define QUIET(path, type)                   {path, KEY_##type, CLASS_QUIET, 0, 0, "", "", false, ""},
#define SWITCH(path, reason)                {path, KEY_OBJECT, CLASS_SWITCH, 0, 0, "", "", false, reason},
#define OPAQUE(path, reason)                {path, KEY_OBJECT, CLASS_OPAQUE, 0, 0, "", "", false, reason},
#define ALIAS(path, key)                    {path, KEY_ANY, CLASS_ALIAS, 0, 0, key, "", false, ""},
#include "engine/config/config_keys.def"
};

const int config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX is too small");

/* Units of keys by the end of their path, for keys whose type does not give the unit. */
static const struct {
    const char *end, *unit;
} units[] = {
    {"_bucket_size", "elements"},
    {"buffer_size", "elements"},
    {"max_in_cpu", "elements"},
    {"max_live_parameters", "elements"},
    {"max_reuse_distance", "elements"},
    {"persistence_threshold", "elements"},
    {"sub_group_size", "elements"},
    {"train_batch_size", "samples"},
    {"_batch_size_per_gpu", "samples"},
    {"accumulation_steps", "steps"},
    {"sequence_length", "tokens"},
    {"model.context", "tokens"},
    {"model.vocabulary", "tokens"},
    {"checkpoint_every", "blocks"},
    {"model.layers", "blocks"},
    {"keep_last_units", "units"},
    {"_num_steps", "steps"},
    {".bandwidth", "/s"},
    {"topology.ranks", "ranks"},
    {"ranks_per_node", "ranks"},
};

const char *key_unit(const char *path)
{
    size_t length = strlen(path);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t end = strlen(units[u].end);
        if (length >= end && !strcmp(path + length - end, units[u].end)) return units[u].unit;
    }
    return "";
}

bool key_is_default(const struct config_key *key, const char *value)
{
    struct config config = {0};
    char text[64];
    if (key_read_default(key, &config, NULL)) return false;
    key_show(key, &config, text, sizeof text);
    return !strcmp(text, value);
}

int key_index(const char *path)
{
    for (int k = 0; k < config_key_count; k++)
        if (strcmp(config_keys[k].path, path) == 0) return k;
    return -1;
}

void key_join(char path[CONFIG_PATH_MAX], const char *prefix, const char *name)
{
    snprintf(path, CONFIG_PATH_MAX, "%s%s%.60s", prefix, prefix[0] ? "." : "", name);
}

bool key_is_section(const char *path)
{
    size_t length = strlen(path);
    for (int k = 0; k < config_key_count; k++)
        if (strncmp(config_keys[k].path, path, length) == 0 && config_keys[k].path[length] == '.') return true;
    return false;
}

const char *key_leaf(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

void key_short_name(char *name, size_t room, const char *path)
{
    static const char *const plain[] = {"device", "ratio", "enabled", "bandwidth", "latency"};
    static const char device[] = ".device";
    const char *leaf = key_leaf(path), *from = leaf;
    for (size_t p = 0; p < sizeof plain / sizeof *plain; p++)
        if (strcmp(leaf, plain[p]) == 0 && leaf > path + 1)
            for (from = leaf - 1; from > path && from[-1] != '.';) from--;
    const size_t length = strlen(from), ending = sizeof device - 1;
    const bool cut = length > ending && strcmp(from + length - ending, device) == 0;
    snprintf(name, room, "%.*s", (int)(cut ? length - ending : length), from);
}

/* Names that may stand where the last part of `path` stands: keys and sections of the same parent, each once. */
static int siblings(const char *path, char storage[][CONFIG_PATH_MAX], const char **names)
{
    size_t parent = (size_t)(key_leaf(path) - path);
    int count = 0;
    for (int k = 0; k < config_key_count; k++) {
        if (strncmp(config_keys[k].path, path, parent) != 0) continue;
        const char *child = config_keys[k].path + parent;
        snprintf(storage[count], CONFIG_PATH_MAX, "%.*s", (int)strcspn(child, "."), child);
        bool known = false;
        for (int n = 0; n < count && !known; n++) known = strcmp(storage[n], storage[count]) == 0;
        if (known) continue;
        names[count] = storage[count];
        count++;
    }
    return count;
}

enum { SUGGESTIONS_MAX = 3 };

/* "a", "a or b", "a, b or c": each name after the `parent` letters of `path`. */
static const char *list_names(char *text, size_t room, const char *path, size_t parent, const char *const *names,
                              int count)
{
    *text = '\0';
    for (int n = 0; n < count; n++) {
        if (n) text_append(text, room, n == count - 1 ? " or " : ", ");
        text_append(text, room, "%.*s%s", (int)parent, path, names[n]);
    }
    return text;
}

/* Keys of any section with a name like that, for a key that stands in the wrong place. */
static int elsewhere(const char *name, const char **paths)
{
    const char *names[CONFIG_KEYS_MAX];
    for (int k = 0; k < config_key_count; k++) names[k] = key_leaf(config_keys[k].path);
    const char *near = nearest_name(name, names, config_key_count);
    int count = 0;
    for (int k = 0; near && k < config_key_count && count < SUGGESTIONS_MAX; k++)
        if (strcmp(key_leaf(config_keys[k].path), near) == 0) paths[count++] = config_keys[k].path;
    return count;
}

/* Keys and sections of any depth that have this very name: the places for it. */
static int places_of(const char *name, char storage[][CONFIG_PATH_MAX], const char **paths)
{
    const size_t length = strlen(name);
    int count = 0;
    for (int k = 0; k < config_key_count && count < SUGGESTIONS_MAX; k++) {
        const char *path = config_keys[k].path, *part = path;
        while (part && (strncmp(part, name, length) != 0 || (part[length] && part[length] != '.')))
            part = (part = strchr(part, '.')) ? part + 1 : NULL;
        if (!part) continue;
        snprintf(storage[count], CONFIG_PATH_MAX, "%.*s", (int)(part + length - path), path);
        if (!count || strcmp(storage[count], storage[count - 1]) != 0) paths[count] = storage[count], count++;
    }
    return count;
}

int key_unknown(const char *path, struct error *err)
{
    char storage[CONFIG_KEYS_MAX][CONFIG_PATH_MAX], text[SUGGESTIONS_MAX * CONFIG_PATH_MAX];
    const char *names[CONFIG_KEYS_MAX], *near[SUGGESTIONS_MAX];
    size_t parent = (size_t)(key_leaf(path) - path);
    int count = places_of(path + parent, storage, near);
    if (count) parent = 0;
    else count = nearest_names(path + parent, names, siblings(path, storage, names), near, SUGGESTIONS_MAX);
    if (count == 0) count = elsewhere(path + parent, near), parent = 0;
    if (count)
        return error_set(err, STATUS_USAGE, "%s: unknown key; did you mean %s?", path,
                         list_names(text, sizeof text, path, parent, near, count));
    if (!strchr(path, '.'))
        return error_set(err, STATUS_USAGE,
                         "%s: unknown key, which DeepSpeed passes over in silence; take it out (all keys: zerolab plan "
                         "--explain)",
                         path);
    return error_set(err, STATUS_USAGE, "%s: unknown key, and none is like it (all keys: zerolab plan --explain)",
                     path);
}
