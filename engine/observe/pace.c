/* Slow motion and paced links as they are at this moment: what the header's configuration says, then each live `set`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/config/number.h"
#include "engine/observe/fold.h"

enum { VALUE_ROOM = 48 };

static void set_link(struct config_link *link, const char *what, const char *value)
{
    uint64_t bytes;
    double seconds;
    if (!strcmp(what, "bandwidth") && number_bytes(value, &bytes)) link->bandwidth_bytes_per_s = (double)bytes;
    if (!strcmp(what, "latency") && number_seconds(value, &seconds)) link->latency_s = seconds;
}

static void set_key(struct run_pace *pace, const char *key, const char *value)
{
    char name[16], what[16];
    if (!strcmp(key, "topology.slow_motion")) pace->slow_motion = strtod(value, NULL);
    else if (!strcmp(key, "topology.slow_rank")) pace->slow_rank = atoi(value);
    else if (!strcmp(key, "topology.device_flops")) pace->device_flops = strtod(value, NULL);
    else if (sscanf(key, "topology.links.%15[a-z].%15[a-z]", name, what) == 2)
        for (int link = 0; link < LINKS; link++)
            if (!strcmp(name, link_name((enum link)link))) set_link(&pace->links[link], what, value);
}

/* The resolved configuration is plain numbers; a section becomes the keys below it. */
static void read_section(struct run_pace *pace, const char *path, const cJSON *section)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, section)
    {
        char key[CONFIG_PATH_MAX], value[VALUE_ROOM];
        snprintf(key, sizeof key, "%s.%.40s", path, item->string);
        snprintf(value, sizeof value, "%.17g", item->valuedouble);
        if (cJSON_IsObject(item) && strlen(key) < sizeof key - 48) read_section(pace, key, item);
        else if (cJSON_IsNumber(item)) set_key(pace, key, value);
    }
}

void pace_begin(struct run_pace *pace, const cJSON *config)
{
    const cJSON *topology = json_get(config, "topology");
    *pace = (struct run_pace){.known = cJSON_IsObject(topology), .slow_motion = 1, .slow_rank = -1};
    read_section(pace, "topology", topology);
}

void pace_set(struct run_pace *pace, const cJSON *detail)
{
    const char *key = json_get_text(detail, "key");
    const char *value = json_get_text(detail, "to");
    if (pace->known && key && value) set_key(pace, key, value);
}
