/* The page of `zerolab plan --explain`, and the same as JSON: the facts on each key, then their printing. */
#include "engine/advise/explain.h"

#include <stdlib.h>
#include <string.h>

#include "engine/advise/differences.h"
#include "engine/base/grouped.h"
#include "engine/base/template.h"
#include "engine/base/words.h"

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
    binding_why(line->why, sizeof line->why, &line->binding, &run->step, write_bytes);
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

static bool same_section(const struct explained *a, const struct explained *b)
{
    const char *path = a->key->path, *other = b->key->path;
    const size_t length = (size_t)(key_leaf(path) - path);
    return length == (size_t)(key_leaf(other) - other) && !strncmp(path, other, length);
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

/* ---- what is printed: JSON, and for text only what begins with a dot ---- */

enum { NAME = 34, VALUE = 13, UNIT = 10, SOURCE = 8, BINDING = 6, ROW_ROOM = 400 };

/* Large numbers are grouped; a number that means "no limit" gets a name. */
static const char *shown_value(char text[80], const struct explained *line)
{
    char *end, digits[32];
    long long number = strtoll(line->value, &end, 10);
    bool whole = line->key->type == KEY_INT || line->key->type == KEY_INT64;
    if (line->key->class != CLASS_HONOURED || !whole || *end || end == line->value)
        return line->value[0] || line->key->class != CLASS_HONOURED ? line->value : "none";
    snprintf(text, 80, "%s", number == INT64_MAX ? "no limit" : grouped(digits, number));
    return text;
}

/* Appends at a column, or after what reaches further and a space. */
static void put_at(char row[ROW_ROOM], int column, const char *text)
{
    const int gap = column - (int)strlen(row);
    text_append(row, ROW_ROOM, "%*s%s", gap > 1 ? gap : 1, "", text);
}

static void write_row(char row[ROW_ROOM], const struct explained *line)
{
    static const char *const verdicts[] = {"n/a", "yes", "no", ""};
    const bool honoured = line->key->class == CLASS_HONOURED;
    const char *unit = honoured ? key_unit(line->key->path) : "", *change = line->key->live ? "live" : "restart";
    const bool one = !strcmp(line->value, "1") && *unit && unit[strlen(unit) - 1] == 's';
    const int end = 2 + NAME + VALUE;
    char text[80];
    const char *value = shown_value(text, line);
    snprintf(row, ROW_ROOM, "  %s", key_leaf(line->key->path));
    put_at(row, end - (int)strlen(value), value);
    text_append(row, ROW_ROOM, " %.*s", (int)strlen(unit) - one, unit);
    put_at(row, end + UNIT, line->from);
    if (*verdicts[line->binding.verdict]) put_at(row, end + UNIT + SOURCE, verdicts[line->binding.verdict]);
    if (honoured) put_at(row, end + UNIT + SOURCE + BINDING, change);
}

static const char *lead_of(const struct binding *binding)
{
    return binding->off                                    ? ""
           : binding->verdict == BINDS_NOT                 ? "does not bind: "
           : binding->verdict == BINDS && binding->planned ? "binds; "
           : binding->verdict == BINDS                     ? "binds: "
                                                           : "whether it binds cannot be said: ";
}

/* The reason why a key that was not given has no effect, without the words of its part's title. */
static const char *reason_of(char text[400], const struct explained *line)
{
    const struct config_key *key = line->key;
    if (key->class == CLASS_HONOURED) return line->why;
    if (key->class != CLASS_FIXED || !strcmp(key->value, "off")) return *key->text ? key->text : line->effect;
    snprintf(text, 400, "unless %s: %s", key->value, key->text);
    return text;
}

/* The section: the path up to its last dot. */
static const char *section_of(char section[CONFIG_PATH_MAX], const char *path)
{
    int length = (int)(key_leaf(path) - path);
    if (length) snprintf(section, CONFIG_PATH_MAX, "%.*s", length - 1, path);
    else snprintf(section, CONFIG_PATH_MAX, "top level");
    return section;
}

/* before: the line before it; NULL: none. */
static void add_text(cJSON *json, const struct explained *line, const struct explained *before)
{
    static const char *const titles[] = {
        "GIVEN",
        "NOT GIVEN: defaults, and what follows from other keys",
        "NOT GIVEN, and without effect here",
        "NOT GIVEN, and refused unless off",
    };
    const bool whole = line->part == EXPLAIN_GIVEN || line->part == EXPLAIN_NOT_GIVEN;
    const bool first = !before || before->part != line->part;
    const struct difference *row = difference_of_key(line->key->path);
    char section[CONFIG_PATH_MAX], text[400], columns[ROW_ROOM], difference[DIFFERENCE_MAX] = "";
    if (row) difference_say(difference, row);
    write_row(columns, line);
    json_put(json, TEXT(".title", first ? titles[line->part] : ""), TRUTH(".whole", whole), TEXT(".row", columns),
             TEXT(".section", first || !same_section(before, line) ? section_of(section, line->key->path) : ""),
             TEXT(".lead", lead_of(&line->binding)), TEXT(".difference", difference), TEXT(".leaf", key_leaf(line->key->path)),
             TRUTH(".wide", strlen(key_leaf(line->key->path)) > NAME - 2), TEXT(".reason", reason_of(text, line)));
}

static void add_key(cJSON *json, const struct explained *line)
{
    static const char *const classes[] = {
        [CLASS_HONOURED] = "honoured", [CLASS_FIXED] = "refused",  [CLASS_INERT] = "no effect",
        [CLASS_QUIET] = "no effect",   [CLASS_SWITCH] = "refused", [CLASS_OPAQUE] = "no effect"};
    const bool honoured = line->key->class == CLASS_HONOURED;
    json_put(json, TEXT("key", line->key->path), TEXT("class", classes[line->key->class]),
             TRUTH("given", line->part == EXPLAIN_GIVEN));
    if (honoured) cJSON_AddStringToObject(json, "value", line->value);
    else json_put(json, TEXT_SOME("value", line->value));
    json_put(json, TEXT_SOME("from", line->from), TEXT_SOME("spelled", line->spelling));
    if (honoured) json_put(json, TEXT_SOME("default", line->key->value), TRUTH("live", line->key->live));
    if (line->binding.verdict == BINDS || line->binding.verdict == BINDS_NOT)
        json_put(json, TRUTH("binds", line->binding.verdict == BINDS));
    json_put(json, TEXT_SOME("neutral", line->binding.neutral), TEXT_SOME("why", line->why),
             TEXT_SOME("note", line->note), TEXT_SOME("effect", line->effect));
    if (honoured) json_put(json, TEXT_SOME("help", line->key->text));
    const struct difference *row = difference_of_key(line->key->path);
    if (row) json_put(json, TEXT("deepspeed", row->deepspeed), TEXT("deepspeed_source", row->deepspeed_source));
    if (row && row->fsdp2) json_put(json, TEXT("fsdp2", row->fsdp2), TEXT("fsdp2_source", row->fsdp2_source));
}

static const char page[] =
    "{config}: what each key does in this run\nA key binds if a step at its neutral value would be another one.\n"
    "{#keys}{?.title}\n{.title}\n"
    "{?.whole}  key                                       value          from    binds change\n{/}{/}"
    "{?.section} {.section}\n{/}"
    "{?.whole}{.row}\n{?spelled}      {~:8}spelled {spelled}{/}{/}{?note}      {~:6}{note}{/}{/}"
    "{?effect}      {~:6}{effect}{/}{/}"
    "{?why}{?.lead}      {~:8}{.lead}{why}{/}{/}{!.lead}      {~:6}{why}{/}{/}{/}"
    "{?.difference}      {~:6}{.difference}{/}{/}{/}"
    "{!.whole}{?.wide}  {.leaf}\n                                    {/}{!.wide}  {.leaf:-34}{/}{~:36}{.reason}{/}"
    "{?.difference}      {~:6}{.difference}{/}{/}{/}{/}";

int explain_print(FILE *out, bool as_json, const struct config *config, const char *name, struct error *err)
{
    struct setup setup;
    int count, status = setup_init(&setup, config, err);
    if (status) return status;
    struct explained *list = explain_keys(config, &setup, &count);
    setup_release(&setup);
    if (!list) return error_set(err, STATUS_RUN, "no memory to explain %d keys", config_key_count);
    cJSON *facts = json_object(TEXT("config", name)), *keys = cJSON_AddArrayToObject(facts, "keys");
    for (int i = 0; i < count; i++) {
        cJSON *key = json_item(keys);
        add_key(key, &list[i]);
        add_text(key, &list[i], i ? &list[i - 1] : NULL);
    }
    free(list);
    return template_answer(out, as_json, page, facts, err);
}
