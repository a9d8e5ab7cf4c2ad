#include "engine/advise/knobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/present.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"

const char *knob_source_name(enum knob_source source)
{
    static const char *const names[] = {"n/a", "default", "file", "--set", "auto", "derived", "live"};
    return names[source];
}

const char *knob_shown(char text[32], const struct knob *knob)
{
    char *end;
    const bool whole = knob->key->type == KEY_INT || knob->key->type == KEY_INT64;
    const long long number = strtoll(knob->value, &end, 10);
    if (knob->class != KNOB_HONOURED) return knob->value;
    if (!knob->value[0]) return "none";
    return !whole || *end ? knob->value : number == INT64_MAX ? "no limit" : grouped(text, number);
}

/* ---- value and source ---- */

static enum knob_class class_of(const struct config_key *key)
{
    if (key->class == CLASS_HONOURED) return KNOB_HONOURED;
    return key->class == CLASS_FIXED || key->class == CLASS_SWITCH ? KNOB_REFUSED : KNOB_WITHOUT_EFFECT;
}

/* Why a key does nothing, or what would be refused. */
static void say_nothing(struct knob *knob)
{
    const struct config_key *key = knob->key;
    const size_t room = sizeof knob->effect;
    switch (key->class) {
    case CLASS_FIXED: snprintf(knob->effect, room, "refused unless it is %s: %s", key->value, key->text); break;
    case CLASS_SWITCH:
        snprintf(knob->effect, room, "no effect, and refused where its `enabled` is true: %s", key->text);
        break;
    case CLASS_QUIET: snprintf(knob->effect, room, "a detail of a feature that is not used"); break;
    default: snprintf(knob->effect, room, "no effect here: %s", key->text);
    }
}

/* What was not given and is not the default either follows from something else: sizes of a model by name, the batch triad,
 * overlap_comm from the stage. */
void knob_read(struct knob *knob, const struct config_key *key, const struct config *config, const char *from, const char *value)
{
    const enum knob_class class = class_of(key);
    *knob = (struct knob){.key = key, .class = class, .unit = key_unit(key->path), .binding = {.verdict = BINDING_NONE}};
    if (class == KNOB_HONOURED) key_show(key, config, knob->value, sizeof knob->value);
    else if (from && value) snprintf(knob->value, sizeof knob->value, "%s", value);
    knob->source = class != KNOB_HONOURED || key_is_default(key, knob->value) ? SOURCE_DEFAULT : SOURCE_DERIVED;
    if (class != KNOB_HONOURED) say_nothing(knob);
    if (from) knob->source = !strcmp(from, "set") ? SOURCE_SET : !strcmp(from, "auto") ? SOURCE_AUTO : SOURCE_FILE;
}

void knob_bind(struct knob *knob, const struct effect_run *run)
{
    binding_of(&knob->binding, knob->key, run->config, run->setup);
    if (knob->class == KNOB_HONOURED) effect_of(knob->effect, sizeof knob->effect, knob->key, run);
}

struct run { /* what is known of it */
    struct config now, began;
    cJSON *given; /* NULL: unknown */
    struct present_change change[PRESENT_CHANGES_MAX];
    int changes;
};

static void read_live(struct knob *knob, const struct run *run)
{
    char began[sizeof knob->value];
    key_show(knob->key, &run->began, began, sizeof began);
    for (int c = 0; c < run->changes; c++)
        if (!strcmp(run->change[c].key, knob->key->path)) knob->changed_step = run->change[c].step;
    /* Where it was not given, this one follows the stage. */
    const bool follows = !strcmp(knob->key->path, "zero_optimization.overlap_comm") && run->given &&
                         !json_get(run->given, knob->key->path);
    if (knob->changed_step || (knob->key->live && !follows && strcmp(began, knob->value) != 0))
        knob->source = SOURCE_LIVE;
}

/* ---- the list ---- */

static void add_knob(struct knobs *knobs, const struct config_key *key, const struct run *run)
{
    struct knob *knob = &knobs->list[knobs->count++];
    const cJSON *row = json_get(run->given, key->path);
    knob_read(knob, key, &run->now, json_get_text(row, "from"), json_get_text(row, "value"));
    if (!run->given) knob->source = SOURCE_UNKNOWN;
    if (knob->class == KNOB_HONOURED) read_live(knob, run);
}

/* Those of ZeRO come first, then those of the step's schedule, those without a section, and the rest as in the table. */
static int place_of(const struct config_key *key)
{
    if (!strncmp(key->path, "zero_optimization.", 18)) return 0;
    if (!strncmp(key->path, "schedule.", 9)) return 1;
    return strchr(key->path, '.') ? 3 : 2;
}

static void add_all(struct knobs *knobs, const struct run *run)
{
    for (enum knob_class class = KNOB_HONOURED; class <= KNOB_REFUSED; class ++)
        for (int place = 0; place <= 3; place++)
            for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++)
                if (key->class != CLASS_ALIAS && class_of(key) == class && place_of(key) == place)
                    add_knob(knobs, key, run);
}

static void bind_all(struct knobs *knobs, const struct config *config)
{
    struct setup setup;
    if (setup_init(&setup, config, NULL)) return;
    knobs->step = step_counts_of(&setup);
    const struct effect_run run = effect_run_of(config, &setup);
    for (int k = 0; k < knobs->count; k++) knob_bind(&knobs->list[k], &run);
    setup_release(&setup);
}

int knobs_of(struct knobs *knobs, const struct run_model *model, struct error *err)
{
    struct run run;
    if (!model->header.config_json) return error_set(err, STATUS_INPUT, "the trace does not hold its configuration");
    const uint64_t from = present_fingerprint(model);
    if (knobs->made_from == from) return STATUS_OK;
    int status = present_config(&run.now, model, err);
    if (status) return status;
    status = config_load_text(&run.began, model->header.config_json, NULL, 0, err);
    if (status == STATUS_OK) {
        run.given = model->header.given_json ? cJSON_Parse(model->header.given_json) : NULL;
        run.changes = present_changes(model, run.change);
        *knobs = (struct knobs){.made_from = from};
        add_all(knobs, &run);
        bind_all(knobs, &run.now);
        cJSON_Delete(run.given);
        config_release(&run.began);
    }
    config_release(&run.now);
    return status;
}
