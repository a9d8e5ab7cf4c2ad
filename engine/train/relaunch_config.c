#include "engine/train/relaunch_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void key_of(char path[CONFIG_PATH_MAX], const char *set)
{
    char typed[CONFIG_PATH_MAX];
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(set, "="), set);
    config_path(path, typed);
}

/* The place of the one with this key, else a new one; NULL: none is left. */
static char **place_of(struct relaunch_config *next, const char *path)
{
    char other[CONFIG_PATH_MAX];
    for (int i = 0; i < next->count; i++) {
        key_of(other, next->sets[i]);
        if (strcmp(other, path) == 0) return &next->sets[i];
    }
    if (next->count == TEXT_LIST_MAX) return NULL;
    next->sets[next->count] = NULL;
    return &next->sets[next->count++];
}

static void take(struct relaunch_config *next, const char *path, char *set)
{
    char **place = set ? place_of(next, path) : NULL;
    if (!place) next->full = true, free(set);
    else free(*place), *place = set;
}

void relaunch_config_init(struct relaunch_config *next, const struct text_list *sets)
{
    *next = (struct relaunch_config){0};
    for (int i = 0; i < sets->count; i++) { /* as they are: the last of two of a key wins there too */
        char path[CONFIG_PATH_MAX];
        key_of(path, sets->at[i]);
        take(next, path, strdup(sets->at[i]));
    }
}

void relaunch_config_set(struct relaunch_config *next, const char *key, const char *value)
{
    char path[CONFIG_PATH_MAX], *set = NULL;
    config_path(path, key);
    if (asprintf(&set, "%s=%s", path, value) < 0) set = NULL;
    take(next, path, set);
}

static void set_number(struct relaunch_config *next, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    relaunch_config_set(next, key, value ? text : "null"); /* null: it follows from the others */
}

void relaunch_config_change(struct relaunch_config *next, const struct config *now, const char *key, const char *value)
{
    static const char total[] = "train_batch_size", micro[] = "train_micro_batch_size_per_gpu",
                      steps[] = "gradient_accumulation_steps";
    char path[CONFIG_PATH_MAX];
    config_path(path, key);
    const int ranks = strcmp(path, "topology.ranks") == 0 ? atoi(value) : now->topology.ranks;
    const bool comes_out_even = ranks > 0 && now->train_batch_size % (ranks * now->accumulation_steps) == 0;
    const bool of_ranks = ranks != now->topology.ranks, of_total = strcmp(path, total) == 0,
               of_parts = strcmp(path, micro) == 0 || strcmp(path, steps) == 0;
    if (of_ranks || of_total || of_parts) {
        const bool micro_follows = of_total || (of_ranks && comes_out_even);
        set_number(next, total, micro_follows ? now->train_batch_size : 0);
        set_number(next, micro, micro_follows ? 0 : now->micro_batch_size);
        set_number(next, steps, now->accumulation_steps);
    }
    relaunch_config_set(next, path, value);
}

void relaunch_config_release(struct relaunch_config *next)
{
    for (int i = 0; i < next->count; i++) free(next->sets[i]);
    *next = (struct relaunch_config){0};
}

struct text_list relaunch_config_sets(const struct relaunch_config *next)
{
    struct text_list list = {.count = next->count};
    for (int i = 0; i < next->count; i++) list.at[i] = next->sets[i];
    return list;
}
