#include "engine/launch/spec.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"

/* What the order's JSON holds: a member each, under its name in struct run_spec. A time is written as text, because a JSON number
 * would be rounded. */
static const struct field {
    const char *name;
    enum { FIELD_TEXT, FIELD_LIST, FIELD_COUNT, FIELD_NUMBER, FIELD_TRUTH, FIELD_TIME } kind;
    size_t at;
} fields[] = {
#define FIELD(kind, member) {#member, FIELD_##kind, offsetof(struct run_spec, member)}
    FIELD(TEXT, config_path),
    FIELD(TEXT, config_text),
    FIELD(LIST, sets),
    FIELD(LIST, at),
    FIELD(COUNT, steps),
    FIELD(COUNT, sample_tokens),
    FIELD(TEXT, trace),
    FIELD(COUNT, trace_limit_bytes),
    FIELD(TRUTH, trace_tells),
    FIELD(TEXT, resume),
    FIELD(TRUTH, weights_only),
    FIELD(LIST, own),
    FIELD(TRUTH, interactive),
    FIELD(TRUTH, detached),
    FIELD(TEXT, hosts),
    FIELD(TEXT, agent),
    FIELD(TRUTH, external),
    FIELD(NUMBER, part.number),
    FIELD(COUNT, part.steps_done),
    FIELD(TEXT, part.state),
    FIELD(LIST, part.lines),
    FIELD(TRUTH, part.paused),
    FIELD(TEXT, part.key),
    FIELD(TEXT, part.from),
    FIELD(TEXT, part.wanted),
    FIELD(TEXT, part.failure),
    FIELD(TIME, part.since_ns),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static void put_field(cJSON *json, const char *name, int kind, const void *at)
{
    const struct text_list *list = at;
    const char *const *text = at;
    char time[24];
    switch (kind) {
    case FIELD_TEXT:
        if (*text) cJSON_AddStringToObject(json, name, *text);
        break;
    case FIELD_LIST: cJSON_AddItemToObject(json, name, cJSON_CreateStringArray(list->at, list->count)); break;
    case FIELD_COUNT: cJSON_AddNumberToObject(json, name, (double)*(const int64_t *)at); break;
    case FIELD_NUMBER: cJSON_AddNumberToObject(json, name, *(const int *)at); break;
    case FIELD_TRUTH: cJSON_AddBoolToObject(json, name, *(const bool *)at); break;
    case FIELD_TIME:
        snprintf(time, sizeof time, "%llu", (unsigned long long)*(const uint64_t *)at);
        cJSON_AddStringToObject(json, name, time);
        break;
    }
}

static void get_list(const cJSON *items, struct text_list *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, items)
    {
        if (list->count < TEXT_LIST_MAX && cJSON_IsString(item)) list->at[list->count++] = item->valuestring;
    }
}

static void get_field(const cJSON *item, int kind, void *at)
{
    const char *text = cJSON_GetStringValue(item);
    const double number = cJSON_IsNumber(item) ? item->valuedouble : 0;
    switch (kind) {
    case FIELD_TEXT: *(const char **)at = text; break;
    case FIELD_LIST: get_list(item, at); break;
    case FIELD_COUNT: *(int64_t *)at = (int64_t)number; break;
    case FIELD_NUMBER: *(int *)at = (int)number; break;
    case FIELD_TRUTH: *(bool *)at = cJSON_IsTrue(item); break;
    case FIELD_TIME: *(uint64_t *)at = text ? strtoull(text, NULL, 10) : 0; break;
    }
}

char *spec_text(const struct run_spec *spec)
{
    cJSON *json = cJSON_CreateObject();
    for (const struct field *field = fields; field < fields + FIELDS; field++)
        put_field(json, field->name, field->kind, (const char *)spec + field->at);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    return text;
}

int spec_write(const struct run_spec *spec, const struct rundir *dir, const char *name, struct error *err)
{
    char path[96], *text = spec_text(spec);
    rundir_path(dir, name, path, sizeof path);
    FILE *file = fopen(path, "we");
    bool written = file && text && fputs(text, file) >= 0;
    if (file && fclose(file) != 0) written = false;
    free(text);
    return written ? STATUS_OK : error_set(err, STATUS_RUN, "cannot write %s: %s", path, strerror(errno));
}

int spec_parse(struct run_spec *spec, const char *text, struct error *err)
{
    cJSON *json = cJSON_Parse(text);
    *spec = (struct run_spec){.storage = json};
    if (!json) return error_set(err, STATUS_RUN, "the order to the engine is damaged");
    for (const struct field *field = fields; field < fields + FIELDS; field++)
        get_field(cJSON_GetObjectItem(json, field->name), field->kind, (char *)spec + field->at);
    return STATUS_OK;
}

int spec_read(struct run_spec *spec, const struct rundir *dir, const char *name, struct error *err)
{
    enum { MOST_BYTES = 64 << 20 };
    char path[96], *text = NULL;
    size_t length;
    rundir_path(dir, name, path, sizeof path);
    file_read(&text, &length, path, MOST_BYTES, false, NULL);
    int status = spec_parse(spec, text ? text : "", NULL);
    free(text);
    return status ? error_set(err, status, "cannot read %s; was the run's folder removed?", path) : STATUS_OK;
}

static int load(const struct run_spec *spec, struct config *config, struct error *err)
{
    const char *const *sets = spec->sets.at;
    if (!spec->config_text) return config_load(config, spec->config_path, sets, spec->sets.count, err);
    int status = config_load_text(config, spec->config_text, sets, spec->sets.count, err);
    if (status && spec->config_path)
        return error_prefix(err, "%s%s", spec->config_path, spec->sets.count ? " with --set" : "");
    if (status && !spec->resume) return error_prefix(err, "the default%s", spec->sets.count ? " with --set" : "");
    return status ? error_prefix(err, "the configuration of %.150s", spec->resume) : STATUS_OK;
}

int spec_load_config(const struct run_spec *spec, struct config *config, struct error *err)
{
    int status = load(spec, config, err);
    if (status) return status;
    status = config_check_run(config, err);
    if (!status) status = scheduler_settle(config, spec->steps, err);
    if (status) config_release(config);
    return status;
}

void spec_release(struct run_spec *spec)
{
    cJSON_Delete(spec->storage);
    spec->storage = NULL;
}
