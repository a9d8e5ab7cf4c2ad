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

/* The place of the setting with this key, else a new place; NULL: the list is full. */
static const char **place_of(struct text_list *sets, const char *path)
{
    for (int i = 0; i < sets->count; i++)
        if (config_is_set(&sets->at[i], 1, path)) return &sets->at[i];
    if (sets->count == TEXT_LIST_MAX) return NULL;
    sets->at[sets->count] = NULL;
    return &sets->at[sets->count++];
}

static void take(struct relaunch_config *settings, const char *path, char *set)
{
    const char **place = set ? place_of(&settings->sets, path) : NULL;
    if (!place) settings->full = true, free(set);
    else free((char *)*place), *place = set;
}

void relaunch_config_init(struct relaunch_config *settings, const struct text_list *sets)
{
    *settings = (struct relaunch_config){0};
    for (int i = 0; i < sets->count; i++) { /* texts as given; the last setting of a key wins */
        char path[CONFIG_PATH_MAX];
        key_of(path, sets->at[i]);
        take(settings, path, strdup(sets->at[i]));
    }
}

void relaunch_config_set(struct relaunch_config *settings, const char *key, const char *value)
{
    char path[CONFIG_PATH_MAX], *set = NULL;
    config_path(path, key);
    if (asprintf(&set, "%s=%s", path, value) < 0) set = NULL;
    take(settings, path, set);
}

static void set_number(struct relaunch_config *settings, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    relaunch_config_set(settings, key, value ? text : "null"); /* null: derived from the other two */
}

void relaunch_config_change(struct relaunch_config *settings, const struct config *now, const char *key,
                            const char *value)
{
    static const char total[] = "train_batch_size", micro[] = "train_micro_batch_size_per_gpu",
                      steps[] = "gradient_accumulation_steps";
    char path[CONFIG_PATH_MAX];
    config_path(path, key);
    const int ranks = strcmp(path, "topology.ranks") == 0 ? atoi(value) : now->topology.ranks;
    const bool comes_out_even = ranks > 0 && now->train_batch_size % ((int64_t)ranks * now->accumulation_steps) == 0;
    const bool of_ranks = ranks != now->topology.ranks, of_total = strcmp(path, total) == 0,
               of_parts = strcmp(path, micro) == 0 || strcmp(path, steps) == 0;
    if (of_ranks || of_total || of_parts) {
        const bool micro_follows = of_total || (of_ranks && comes_out_even);
        set_number(settings, total, micro_follows ? now->train_batch_size : 0);
        set_number(settings, micro, micro_follows ? 0 : now->micro_batch_size);
        set_number(settings, steps, now->accumulation_steps);
    }
    relaunch_config_set(settings, path, value);
}
