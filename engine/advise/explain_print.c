/* The page of `zerolab plan --explain`, and the same as JSON. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/explain.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"

enum { INDENT = 6, NAME = 34, VALUE = 13, UNIT = 10, SOURCE = 8, BINDING = 6 };

static void print_sentence(FILE *out, const char *lead, const char *text)
{
    words_print(out, fprintf(out, "%*s%s", INDENT, "", lead), *lead ? INDENT + 2 : INDENT, text);
}

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

/* A name or a value that is too wide takes columns from the ones after it. */
static void print_row(FILE *out, const struct explained *line)
{
    static const char *const verdicts[] = {"n/a", "yes", "no", ""};
    char text[80];
    const char *value = shown_value(text, line);
    const bool honoured = line->key->class == CLASS_HONOURED;
    int used = fprintf(out, "  %s", key_leaf(line->key->path)), end = 2 + NAME + VALUE;
    int gap = end - used - (int)strlen(value);
    used += fprintf(out, "%*s%s", gap > 1 ? gap : 1, "", value);
    const char *unit = honoured ? key_unit(line->key->path) : "";
    const bool one = !strcmp(line->value, "1") && *unit && unit[strlen(unit) - 1] == 's';
    used += fprintf(out, " %.*s", (int)strlen(unit) - one, unit);
    gap = end + UNIT - used;
    used += fprintf(out, "%*s%s", gap > 1 ? gap : 1, "", line->from);
    const char *verdict = verdicts[line->binding.verdict];
    const char *change = !honoured ? "" : line->key->live ? "live" : "restart";
    char rest[32];
    snprintf(rest, sizeof rest, "%-*s%s", BINDING, verdict, change);
    gap = end + UNIT + SOURCE - used;
    for (size_t length = strlen(rest); length && rest[length - 1] == ' ';) rest[--length] = '\0';
    if (*rest) fprintf(out, "%*s%s", gap > 1 ? gap : 1, "", rest);
    fputc('\n', out);
}

static void print_key(FILE *out, const struct explained *line)
{
    const struct binding *binding = &line->binding;
    const char *quirk = knob_quirk(line->key->path);
    print_row(out, line);
    if (line->spelling[0]) print_sentence(out, "spelled ", line->spelling);
    if (line->note[0]) print_sentence(out, "", line->note);
    if (line->effect[0]) print_sentence(out, "", line->effect);
    if (line->why[0])
        print_sentence(out,
                       binding->verdict == BINDS_NOT                   ? "does not bind: "
                       : binding->verdict == BINDS && binding->planned ? "binds; "
                       : binding->verdict == BINDS                     ? "binds: "
                                                                       : "whether it binds cannot be said: ",
                       line->why);
    if (*quirk) print_sentence(out, "DeepSpeed's code: ", quirk);
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

static void print_nothing(FILE *out, const struct explained *line)
{
    const char *quirk = knob_quirk(line->key->path);
    char text[400];
    int column = fprintf(out, "  %s", key_leaf(line->key->path));
    if (column > 2 + NAME - 2) fputc('\n', out), column = 0;
    fprintf(out, "%*s", 2 + NAME - column, "");
    words_print(out, 2 + NAME, 2 + NAME, reason_of(text, line));
    if (*quirk) print_sentence(out, "DeepSpeed's code: ", quirk);
}

/* The section: the path up to its last dot. */
static const char *section_of(char section[CONFIG_PATH_MAX], const char *path)
{
    int length = (int)(key_leaf(path) - path);
    if (length) snprintf(section, CONFIG_PATH_MAX, "%.*s", length - 1, path);
    else snprintf(section, CONFIG_PATH_MAX, "top level");
    return section;
}

static void print_title(FILE *out, enum explain_part part)
{
    static const char *const titles[] = {
        "GIVEN",
        "NOT GIVEN: defaults, and what follows from other keys",
        "NOT GIVEN, and without effect here",
        "NOT GIVEN, and refused unless off",
    };
    fprintf(out, "\n%s\n", titles[part]);
    if (part == EXPLAIN_GIVEN || part == EXPLAIN_NOT_GIVEN)
        fprintf(out, "  %-*s%*s%*s%-*s%-*s%s\n", NAME, "key", VALUE, "value", UNIT, "", SOURCE, "from", BINDING,
                "binds", "change");
}

static void print_part(FILE *out, const struct explained *list, int count, enum explain_part part)
{
    char before[CONFIG_PATH_MAX] = "", section[CONFIG_PATH_MAX];
    int first = 0;
    while (first < count && list[first].part != part) first++;
    if (first < count) print_title(out, part);
    for (int i = first; i < count && list[i].part == part; i++) {
        if (strcmp(section_of(section, list[i].key->path), before) != 0) fprintf(out, " %s\n", section);
        memcpy(before, section, sizeof before);
        if (part == EXPLAIN_GIVEN || part == EXPLAIN_NOT_GIVEN) print_key(out, &list[i]);
        else print_nothing(out, &list[i]);
    }
}

static int print_page(FILE *out, const struct explained *list, int count, const char *name, struct error *err)
{
    (void)err;
    fprintf(out,
            "%s: what each key does in this run\nA key binds if a step at its neutral value would be another one.\n",
            name);
    for (int part = 0; part < EXPLAIN_PARTS; part++) print_part(out, list, count, (enum explain_part)part);
    return STATUS_OK;
}

/* ---- JSON ---- */

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
    json_put(json, TEXT_SOME("deepspeed", knob_quirk(line->key->path)));
}

static int print_json(FILE *out, const struct explained *list, int count, const char *name, struct error *err)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "config", name);
    cJSON *keys = cJSON_AddArrayToObject(json, "keys");
    for (int i = 0; i < count; i++) add_key(json_item(keys), &list[i]);
    return json_print(out, json, err);
}

/* ---- both ---- */

typedef int explained_print(FILE *out, const struct explained *list, int count, const char *name, struct error *err);

static int print(FILE *out, const struct config *config, const char *name, explained_print *form, struct error *err)
{
    struct setup setup;
    int count, status = setup_init(&setup, config, err);
    if (status) return status;
    struct explained *list = explain_keys(config, &setup, &count);
    status = list ? form(out, list, count, name, err)
                  : error_set(err, STATUS_RUN, "no memory to explain %d keys", config_key_count);
    free(list);
    setup_release(&setup);
    return status;
}

int explain_print(FILE *out, const struct config *config, const char *name, struct error *err)
{
    return print(out, config, name, print_page, err);
}

int explain_print_json(FILE *out, const struct config *config, const char *name, struct error *err)
{
    return print(out, config, name, print_json, err);
}
