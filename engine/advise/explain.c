/* The page of `zerolab plan --explain`, and the same as JSON: the facts on each key, then their printing. */
#include "engine/advise/knobs.h"

#include <stdlib.h>
#include <string.h>

#include "engine/advise/differences.h"
#include "engine/base/grouped.h"
#include "engine/base/template.h"
#include "engine/base/words.h"

/* ---- what DeepSpeed and FSDP2 do otherwise (differences.h) ---- */

const struct difference differences[] = {
#define DIFFERENCE(name, subject, key, here, deepspeed, deepspeed_source, fsdp2, fsdp2_source)                         \
    {name, subject, key, here, deepspeed, deepspeed_source, fsdp2, fsdp2_source},
#define QUIRK(key, deepspeed, source) {NULL, NULL, key, NULL, deepspeed, source, NULL, NULL},
#include "engine/advise/differences.def"
};
const int difference_count = sizeof differences / sizeof *differences;

const struct difference *difference_named(const char *name)
{
    for (int d = 0; d < difference_count; d++)
        if (differences[d].name && !strcmp(differences[d].name, name)) return &differences[d];
    return NULL;
}

const struct difference *difference_of_key(const char *path)
{
    for (int d = 0; d < difference_count; d++)
        if (differences[d].key && !strcmp(differences[d].key, path)) return &differences[d];
    return NULL;
}

/* A source without its folders. */
static const char *line_of(const char *source)
{
    const char *slash = strrchr(source, '/');
    return slash ? slash + 1 : source;
}

void difference_say(char text[DIFFERENCE_MAX], const struct difference *row)
{
    *text = '\0';
    if (row->here) text_append(text, DIFFERENCE_MAX, "zerolab %s. ", row->here);
    text_append(text, DIFFERENCE_MAX, "DeepSpeed %s (%s).", row->deepspeed, line_of(row->deepspeed_source));
    if (row->fsdp2) text_append(text, DIFFERENCE_MAX, " FSDP2 %s (%s).", row->fsdp2, line_of(row->fsdp2_source));
}

/* ---- a key ---- */

static bool find_given(struct config_given *given, const struct config *config, const char *path)
{
    const char *at = config->given;
    while (config_given_next(&at, given))
        if (!strcmp(given->path, path)) return true;
    return false;
}

static enum explain_part part_of(const struct knob *knob, const struct config *config, bool is_given)
{
    if (is_given) return EXPLAIN_GIVEN;
    if (knob->class == KNOB_REFUSED) return EXPLAIN_REFUSED;
    const bool in_force = knob->class == KNOB_HONOURED && binding_in_force(config, knob->key->path);
    return in_force ? EXPLAIN_NOT_GIVEN : EXPLAIN_WITHOUT_EFFECT;
}

/* The notes from reading the file about an honoured key: lines "path: text". */
static void read_note(struct explained *line, const struct config *config)
{
    const char *path = line->knob.key->path;
    const size_t length = strlen(path);
    for (const char *at = config->notes; at && *at; at += strcspn(at, "\n") + (strchr(at, '\n') != NULL))
        if (!strncmp(at, path, length) && at[length] == ':')
            text_append(line->note, sizeof line->note, "%s%.*s", *line->note ? "; " : "",
                        (int)strcspn(at, "\n") - (int)length - 2, at + length + 2);
}

/* The effect if there is no sentence for this run. */
static void say_help(struct knob *knob)
{
    const char *help = knob->key->text + (strncmp(knob->key->text, "... ", 4) == 0 ? 4 : 0);
    const bool off = knob->key->type == KEY_BOOL && !strcmp(knob->value, "false");
    snprintf(knob->effect, sizeof knob->effect, "%s%s", off ? "off; true: " : "", help);
}

/* ---- the list ---- */

static struct explained explain_key(const struct config_key *key, const struct effect_run *run)
{
    struct explained line = {.note = ""};
    struct knob *knob = &line.knob;
    struct config_given given;
    const bool is_given = find_given(&given, run->config, key->path);
    knob_read(knob, key, run->config, is_given ? given.from : NULL, given.value);
    if (is_given && strcmp(given.spelling, key->path) != 0) snprintf(line.spelling, sizeof line.spelling, "%s", given.spelling);
    line.part = part_of(knob, run->config, is_given);
    if (knob->class != KNOB_HONOURED) return line;
    knob_bind(knob, run);
    read_note(&line, run->config);
    binding_why(line.why, sizeof line.why, &knob->binding, &run->step, write_bytes);
    if (!knob->effect[0] && !line.why[0]) say_help(knob);
    return line;
}

static bool same_section(const struct explained *a, const struct explained *b)
{
    const char *path = a->knob.key->path, *other = b->knob.key->path;
    const size_t length = (size_t)(key_leaf(path) - path);
    return length == (size_t)(key_leaf(other) - other) && !strncmp(path, other, length);
}

/* Parts follow each other, in each part sections in the order of their first keys, and in each section keys as in the table. */
static int place_of(const struct explained *list, int count, const struct explained *line)
{
    int end = 0, section_end = 0;
    for (; end < count && list[end].part <= line->part; end++)
        if (list[end].part == line->part && same_section(&list[end], line)) section_end = end + 1;
    return section_end ? section_end : end;
}

struct explained *explain_keys(const struct config *config, const struct setup *setup, int *count)
{
    const struct effect_run run = effect_run_of(config, setup);
    struct explained *list = calloc((size_t)config_key_count, sizeof *list);
    *count = 0;
    for (int k = 0; list && k < config_key_count; k++) {
        if (config_keys[k].class == CLASS_ALIAS) continue;
        const struct explained line = explain_key(&config_keys[k], &run);
        const int at = place_of(list, *count, &line);
        memmove(list + at + 1, list + at, (size_t)((*count)++ - at) * sizeof *list);
        list[at] = line;
    }
    return list;
}

/* ---- what is printed: JSON, and for text only what begins with a dot ---- */

enum { NAME = 34, VALUE = 13, UNIT = 10, SOURCE = 8, BINDING = 6, ROW_ROOM = 400 };

/* Not of a key without effect that nobody gave. */
static const char *source_of(const struct explained *line)
{
    return line->part == EXPLAIN_GIVEN || line->knob.class == KNOB_HONOURED ? knob_source_name(line->knob.source) : "";
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
    const struct knob *knob = &line->knob;
    const bool honoured = knob->class == KNOB_HONOURED;
    const char *unit = honoured ? knob->unit : "", *change = knob->key->live ? "live" : "restart";
    const bool one = !strcmp(knob->value, "1") && *unit && unit[strlen(unit) - 1] == 's';
    const int end = 2 + NAME + VALUE;
    char text[32];
    const char *value = knob_shown(text, knob);
    snprintf(row, ROW_ROOM, "  %s", key_leaf(knob->key->path));
    put_at(row, end - (int)strlen(value), value);
    text_append(row, ROW_ROOM, " %.*s", (int)strlen(unit) - one, unit);
    put_at(row, end + UNIT, source_of(line));
    if (*verdicts[knob->binding.verdict]) put_at(row, end + UNIT + SOURCE, verdicts[knob->binding.verdict]);
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
    const struct config_key *key = line->knob.key;
    if (key->class == CLASS_HONOURED) return line->why;
    if (key->class != CLASS_FIXED || !strcmp(key->value, "off")) return *key->text ? key->text : line->knob.effect;
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
    const struct difference *row = difference_of_key(line->knob.key->path);
    char section[CONFIG_PATH_MAX], text[400], columns[ROW_ROOM], difference[DIFFERENCE_MAX] = "";
    if (row) difference_say(difference, row);
    write_row(columns, line);
    json_put(json, TEXT(".title", first ? titles[line->part] : ""), TRUTH(".whole", whole), TEXT(".row", columns),
             TEXT(".section", first || !same_section(before, line) ? section_of(section, line->knob.key->path) : ""),
             TEXT(".lead", lead_of(&line->knob.binding)), TEXT(".difference", difference), TEXT(".leaf", key_leaf(line->knob.key->path)),
             TRUTH(".wide", strlen(key_leaf(line->knob.key->path)) > NAME - 2), TEXT(".reason", reason_of(text, line)));
}

static void add_key(cJSON *json, const struct explained *line)
{
    static const char *const classes[] = {"honoured", "no effect", "refused"};
    const struct knob *knob = &line->knob;
    const struct binding *binding = &knob->binding;
    const bool honoured = knob->class == KNOB_HONOURED;
    json_put(json, TEXT("key", knob->key->path), TEXT("class", classes[knob->class]),
             TRUTH("given", line->part == EXPLAIN_GIVEN));
    if (honoured) cJSON_AddStringToObject(json, "value", knob->value);
    else json_put(json, TEXT_SOME("value", knob->value));
    json_put(json, TEXT_SOME("from", source_of(line)), TEXT_SOME("spelled", line->spelling));
    if (honoured) json_put(json, TEXT_SOME("default", knob->key->value), TRUTH("live", knob->key->live));
    if (binding->verdict == BINDS || binding->verdict == BINDS_NOT)
        json_put(json, TRUTH("binds", binding->verdict == BINDS));
    json_put(json, TEXT_SOME("neutral", binding->neutral), TEXT_SOME("why", line->why),
             TEXT_SOME("note", line->note), TEXT_SOME("effect", knob->effect));
    if (honoured) json_put(json, TEXT_SOME("help", knob->key->text));
    const struct difference *row = difference_of_key(knob->key->path);
    if (row) json_put(json, TEXT("deepspeed", row->deepspeed), TEXT("deepspeed_source", row->deepspeed_source));
    if (row && row->fsdp2) json_put(json, TEXT("fsdp2", row->fsdp2), TEXT("fsdp2_source", row->fsdp2_source));
}

static const char page[] =
    "{config}: what each key does in this run\nA key binds if its neutral value would change the step.\n"
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
