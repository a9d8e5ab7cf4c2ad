#include "engine/advise/knobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/present.h"
#include "engine/base/json.h"

const char *knob_source_name(enum knob_source source)
{
    static const char *const names[] = {"n/a", "default", "file", "--set", "auto", "derived", "live"};
    return names[source];
}

/* ---- value and source ---- */

struct run { /* what is known of it */
    struct config now, began;
    cJSON *given; /* NULL: unknown */
    struct present_change change[PRESENT_CHANGES_MAX];
    int changes;
};

static void read_given(struct knob *knob, const cJSON *given)
{
    const cJSON *row = json_get(given, knob->key->path);
    const char *from = json_get_text(row, "from");
    const char *value = json_get_text(row, "value");
    knob->source = !given                  ? SOURCE_UNKNOWN
                   : !from                 ? SOURCE_DEFAULT
                   : !strcmp(from, "set")  ? SOURCE_SET
                   : !strcmp(from, "auto") ? SOURCE_AUTO
                                           : SOURCE_FILE;
    if (value && knob->class != KNOB_HONOURED) snprintf(knob->value, sizeof knob->value, "%s", value);
}

/* What was not given and is not the default either follows from something else: sizes of a model by name, the batch triad,
 * overlap_comm from the stage. */
static void read_live(struct knob *knob, const struct run *run)
{
    char began[sizeof knob->value];
    key_show(knob->key, &run->now, knob->value, sizeof knob->value);
    key_show(knob->key, &run->began, began, sizeof began);
    for (int c = 0; c < run->changes; c++)
        if (!strcmp(run->change[c].key, knob->key->path)) knob->changed_step = run->change[c].step;
    if (knob->changed_step || (knob->key->live && strcmp(began, knob->value) != 0)) knob->source = SOURCE_LIVE;
    else if (knob->source == SOURCE_DEFAULT && !key_is_default(knob->key, knob->value)) knob->source = SOURCE_DERIVED;
}

/* ---- the list ---- */

static enum knob_class class_of(const struct config_key *key)
{
    if (key->class == CLASS_HONOURED) return KNOB_HONOURED;
    return key->class == CLASS_FIXED || key->class == CLASS_SWITCH ? KNOB_REFUSED : KNOB_WITHOUT_EFFECT;
}

static void add_knob(struct knobs *knobs, const struct config_key *key, enum knob_class class, const struct run *run)
{
    struct knob *knob = &knobs->list[knobs->count++];
    *knob = (struct knob){.key = key, .class = class, .unit = key_unit(key->path), .binding = {.verdict = BINDING_NONE}};
    read_given(knob, run->given);
    if (class == KNOB_HONOURED) read_live(knob, run);
}

/* Those of ZeRO come first, then those of the step's schedule, those without a section, and the rest as in the table. */
static int place_of(const struct config_key *key)
{
    if (!strncmp(key->path, "zero_optimization.", 18)) return 0;
    if (!strncmp(key->path, "schedule.", 9)) return 1;
    return strchr(key->path, '.') ? 3 : 2;
}

static void add_class(struct knobs *knobs, enum knob_class class, const struct run *run)
{
    for (int place = 0; place <= 3; place++)
        for (int k = 0; k < config_key_count; k++) {
            const struct config_key *key = &config_keys[k];
            if (key->class != CLASS_ALIAS && class_of(key) == class && place_of(key) == place)
                add_knob(knobs, key, class, run);
        }
}

static void bind_all(struct knobs *knobs, const struct config *config)
{
    struct setup setup;
    if (setup_init(&setup, config, NULL)) return;
    knobs->step = step_counts_of(&setup);
    const struct effect_run run = effect_run_of(config, &setup);
    for (int k = 0; k < knobs->count; k++) {
        struct knob *knob = &knobs->list[k];
        binding_of(&knob->binding, knob->key, config, &setup);
        if (knob->class == KNOB_HONOURED) effect_of(knob->effect, sizeof knob->effect, knob->key, &run);
    }
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
        for (int class = KNOB_HONOURED; class <= KNOB_REFUSED; class ++)
            add_class(knobs, (enum knob_class) class, &run);
        bind_all(knobs, &run.now);
        cJSON_Delete(run.given);
        config_release(&run.began);
    }
    config_release(&run.now);
    return status;
}
