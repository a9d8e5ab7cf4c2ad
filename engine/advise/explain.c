/* Collects the facts on each key for `zerolab plan --explain`; explain_print.c prints them. */
#include "engine/advise/explain.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"

/* ---- what was given ---- */

static bool find_given(struct config_given *given, const struct config *config, const char *path)
{
    const char *at = config->given;
    while (config_given_next(&at, given))
        if (!strcmp(given->path, path)) return true;
    return false;
}

static void read_source(struct explained *line, const struct config *config)
{
    struct config_given given;
    bool is_given = find_given(&given, config, line->key->path);
    if (line->key->class == CLASS_HONOURED) {
        key_show(line->key, config, line->value, sizeof line->value);
        line->from = key_is_default(line->key, line->value) ? "default" : "derived";
    } else {
        line->from = "";
    }
    if (!is_given) return;
    line->from = !strcmp(given.from, "set") ? "--set" : !strcmp(given.from, "auto") ? "auto" : "file";
    if (line->key->class != CLASS_HONOURED) snprintf(line->value, sizeof line->value, "%s", given.value);
    if (strcmp(given.spelling, line->key->path) != 0)
        snprintf(line->spelling, sizeof line->spelling, "%s", given.spelling);
}

static enum explain_part part_of(const struct explained *line, const struct config *config)
{
    if (*line->from && strcmp(line->from, "default") != 0 && strcmp(line->from, "derived") != 0) return EXPLAIN_GIVEN;
    if (line->key->class == CLASS_HONOURED)
        return binding_in_force(config, line->key->path) ? EXPLAIN_NOT_GIVEN : EXPLAIN_WITHOUT_EFFECT;
    return line->key->class == CLASS_FIXED || line->key->class == CLASS_SWITCH ? EXPLAIN_REFUSED
                                                                               : EXPLAIN_WITHOUT_EFFECT;
}

/* ---- what it does ---- */

/* The notes from reading the file about an honoured key: lines "path: text". */
static void read_note(struct explained *line, const struct config *config)
{
    const char *path = line->key->path;
    size_t length = strlen(path), used = 0;
    for (const char *at = config->notes; at && *at; at += strcspn(at, "\n") + (strchr(at, '\n') != NULL))
        if (!strncmp(at, path, length) && at[length] == ':' && used < sizeof line->note)
            used += (size_t)snprintf(line->note + used, sizeof line->note - used, "%s%.*s", used ? "; " : "",
                                     (int)strcspn(at, "\n") - (int)length - 2, at + length + 2);
}

/* Why a key does nothing, or what would be refused. */
static void explain_nothing(struct explained *line)
{
    const struct config_key *key = line->key;
    switch (key->class) {
    case CLASS_FIXED:
        snprintf(line->effect, sizeof line->effect, "refused unless it is %s: %s", key->value, key->text);
        break;
    case CLASS_SWITCH:
        snprintf(line->effect, sizeof line->effect, "no effect, and refused where its `enabled` is true: %s", key->text);
        break;
    case CLASS_QUIET: snprintf(line->effect, sizeof line->effect, "a detail of a feature that is not used"); break;
    default: snprintf(line->effect, sizeof line->effect, "no effect here: %s", key->text);
    }
}

/* The effect if there is no sentence for this run. */
static void say_help(struct explained *line)
{
    const char *help = line->key->text + (strncmp(line->key->text, "... ", 4) == 0 ? 4 : 0);
    const bool off = line->key->type == KEY_BOOL && !strcmp(line->value, "false");
    snprintf(line->effect, sizeof line->effect, "%s%s", off ? "off; true: " : "", help);
}

static void explain_honoured(struct explained *line, const struct effect_run *run)
{
    binding_of(&line->binding, line->key, run->config, run->setup);
    binding_why(line->why, sizeof line->why, &line->binding, &run->step, line->value, write_bytes);
    effect_of(line->effect, sizeof line->effect, line->key, run);
    if (!line->effect[0] && !line->why[0]) say_help(line);
}

/* ---- the list ---- */

static struct explained explain_key(const struct config_key *key, const struct effect_run *run)
{
    struct explained line = {.key = key, .binding = {.verdict = BINDING_NONE}};
    read_source(&line, run->config);
    line.part = part_of(&line, run->config);
    if (key->class != CLASS_HONOURED) {
        explain_nothing(&line);
    } else {
        read_note(&line, run->config);
        explain_honoured(&line, run);
    }
    return line;
}

static size_t section_length(const struct explained *line)
{
    const char *dot = strrchr(line->key->path, '.');
    return dot ? (size_t)(dot - line->key->path) : 0;
}

static bool same_section(const struct explained *a, const struct explained *b)
{
    size_t length = section_length(a);
    return length == section_length(b) && !strncmp(a->key->path, b->key->path, length);
}

/* The keys of one part, section by section, in the table's order otherwise. Taken ones are marked by their part. */
static int take_part(struct explained *out, struct explained *all, enum explain_part part)
{
    int count = 0;
    for (int k = 0; k < config_key_count; k++)
        for (int same = k, first = k; all[first].part == part && same < config_key_count; same++) {
            if (all[same].part != part || !same_section(&all[first], &all[same])) continue;
            out[count++] = all[same];
            if (same > first) all[same].part = EXPLAIN_PARTS;
        }
    return count;
}

struct explained *explain_keys(const struct config *config, const struct setup *setup, int *count)
{
    struct effect_run run = effect_run_of(config, setup);
    struct explained *all = calloc((size_t)config_key_count, sizeof *all);
    struct explained *list = calloc((size_t)config_key_count, sizeof *list);
    *count = 0;
    for (int k = 0; all && list && k < config_key_count; k++) {
        all[k] = explain_key(&config_keys[k], &run);
        if (config_keys[k].class == CLASS_ALIAS) all[k].part = EXPLAIN_PARTS;
    }
    for (int part = 0; all && list && part < EXPLAIN_PARTS; part++)
        *count += take_part(list + *count, all, (enum explain_part)part);
    if (!all) free(list), list = NULL;
    free(all);
    return list;
}
