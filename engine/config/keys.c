#include "engine/config/keys.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"

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

int key_index(const char *path)
{
    for (int k = 0; k < config_key_count; k++)
        if (strcmp(config_keys[k].path, path) == 0) return k;
    return -1;
}

bool key_is_section(const char *path)
{
    size_t length = strlen(path);
    for (int k = 0; k < config_key_count; k++)
        if (strncmp(config_keys[k].path, path, length) == 0 && config_keys[k].path[length] == '.') return true;
    return false;
}

static const char *leaf(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Names that may stand where the last part of `path` stands: keys and sections of the same parent. */
static int siblings(const char *path, char storage[][CONFIG_PATH_MAX], const char **names)
{
    size_t parent = (size_t)(leaf(path) - path);
    int count = 0;
    for (int k = 0; k < config_key_count; k++) {
        if (strncmp(config_keys[k].path, path, parent) != 0) continue;
        const char *child = config_keys[k].path + parent;
        snprintf(storage[count], CONFIG_PATH_MAX, "%.*s", (int)strcspn(child, "."), child);
        names[count] = storage[count];
        count++;
    }
    return count;
}

/* Looked for among the siblings first, then among all keys of any section, for a key that stands in the wrong place. */
int key_unknown(const char *path, struct error *err)
{
    char storage[CONFIG_KEYS_MAX][CONFIG_PATH_MAX];
    const char *names[CONFIG_KEYS_MAX];
    const char *near = nearest_name(leaf(path), names, siblings(path, storage, names));
    if (near)
        return error_set(err, STATUS_USAGE, "%s: unknown key; did you mean %.*s%s?", path, (int)(leaf(path) - path),
                         path, near);
    for (int k = 0; k < config_key_count; k++) names[k] = leaf(config_keys[k].path);
    near = nearest_name(leaf(path), names, config_key_count);
    for (int k = 0; near && k < config_key_count; k++)
        if (leaf(config_keys[k].path) == near)
            return error_set(err, STATUS_USAGE, "%s: unknown key; did you mean %s?", path, config_keys[k].path);
    return error_set(err, STATUS_USAGE, "%s: unknown key, and none is like it; configs/README.md lists them", path);
}
