#include "engine/launch/spec.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_text(cJSON *json, const char *name, const char *text)
{
    if (text) cJSON_AddStringToObject(json, name, text);
}

static void put_list(cJSON *json, const char *name, const struct text_list *list)
{
    cJSON_AddItemToObject(json, name, cJSON_CreateStringArray(list->at, list->count));
}

static const char *get_text(const cJSON *json, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(json, name));
}

static void get_list(const cJSON *json, const char *name, struct text_list *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(json, name))
    {
        if (list->count < TEXT_LIST_MAX && cJSON_IsString(item)) list->at[list->count++] = item->valuestring;
    }
}

static int64_t get_count(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(json, name);
    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : 0;
}

static void put_part(cJSON *json, const struct run_spec *spec)
{
    char since[24];
    cJSON *part = cJSON_AddObjectToObject(json, "part");
    snprintf(since, sizeof since, "%llu", (unsigned long long)spec->part.since_ns);
    cJSON_AddNumberToObject(part, "number", spec->part.number);
    cJSON_AddNumberToObject(part, "steps_done", (double)spec->part.steps_done);
    put_text(part, "state", spec->part.state);
    put_list(part, "lines", &spec->part.lines);
    cJSON_AddBoolToObject(part, "paused", spec->part.paused);
    put_text(part, "key", spec->part.key);
    put_text(part, "from", spec->part.from);
    put_text(part, "wanted", spec->part.wanted);
    put_text(part, "failure", spec->part.failure);
    put_text(part, "since_ns", since); /* as text: a JSON number would be rounded */
}

static void get_part(const cJSON *part, struct run_spec *spec)
{
    const char *since = get_text(part, "since_ns");
    spec->part.number = (int)get_count(part, "number");
    spec->part.steps_done = get_count(part, "steps_done");
    spec->part.state = get_text(part, "state");
    get_list(part, "lines", &spec->part.lines);
    spec->part.paused = cJSON_IsTrue(cJSON_GetObjectItem(part, "paused"));
    spec->part.key = get_text(part, "key");
    spec->part.from = get_text(part, "from");
    spec->part.wanted = get_text(part, "wanted");
    spec->part.failure = get_text(part, "failure");
    spec->part.since_ns = since ? strtoull(since, NULL, 10) : 0;
}

char *spec_text(const struct run_spec *spec)
{
    cJSON *json = cJSON_CreateObject();
    put_text(json, "config", spec->config_path);
    put_text(json, "config_text", spec->config_text);
    put_list(json, "sets", &spec->sets);
    put_list(json, "at", &spec->at);
    cJSON_AddNumberToObject(json, "steps", (double)spec->steps);
    cJSON_AddNumberToObject(json, "sample_tokens", (double)spec->sample_tokens);
    put_text(json, "trace", spec->trace);
    cJSON_AddNumberToObject(json, "trace_limit_bytes", (double)spec->trace_limit_bytes);
    cJSON_AddBoolToObject(json, "trace_tells", spec->trace_tells);
    put_text(json, "resume", spec->resume);
    cJSON_AddBoolToObject(json, "weights_only", spec->weights_only);
    put_list(json, "own", &spec->own);
    cJSON_AddBoolToObject(json, "interactive", spec->interactive);
    cJSON_AddBoolToObject(json, "detached", spec->detached);
    put_text(json, "hosts", spec->hosts);
    put_text(json, "agent", spec->agent);
    cJSON_AddBoolToObject(json, "external", spec->external);
    put_part(json, spec);
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

static char *read_all(const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    if (file && getdelim(&text, &room, '\0', file) < 0) free(text), text = NULL;
    if (file) fclose(file);
    return text;
}

int spec_parse(struct run_spec *spec, const char *text, struct error *err)
{
    cJSON *json = cJSON_Parse(text);
    *spec = (struct run_spec){.storage = json};
    if (!json) return error_set(err, STATUS_RUN, "the order to the engine is damaged");
    spec->config_path = get_text(json, "config");
    spec->config_text = get_text(json, "config_text");
    get_list(json, "sets", &spec->sets);
    get_list(json, "at", &spec->at);
    spec->steps = get_count(json, "steps");
    spec->sample_tokens = get_count(json, "sample_tokens");
    spec->trace = get_text(json, "trace");
    spec->trace_limit_bytes = get_count(json, "trace_limit_bytes");
    spec->trace_tells = cJSON_IsTrue(cJSON_GetObjectItem(json, "trace_tells"));
    spec->resume = get_text(json, "resume");
    spec->weights_only = cJSON_IsTrue(cJSON_GetObjectItem(json, "weights_only"));
    get_list(json, "own", &spec->own);
    spec->interactive = cJSON_IsTrue(cJSON_GetObjectItem(json, "interactive"));
    spec->detached = cJSON_IsTrue(cJSON_GetObjectItem(json, "detached"));
    spec->hosts = get_text(json, "hosts");
    spec->agent = get_text(json, "agent");
    spec->external = cJSON_IsTrue(cJSON_GetObjectItem(json, "external"));
    get_part(cJSON_GetObjectItem(json, "part"), spec);
    return STATUS_OK;
}

int spec_read(struct run_spec *spec, const struct rundir *dir, const char *name, struct error *err)
{
    char path[96];
    rundir_path(dir, name, path, sizeof path);
    char *text = read_all(path);
    int status = spec_parse(spec, text ? text : "", NULL);
    free(text);
    return status ? error_set(err, status, "cannot read %s; was the run's folder removed?", path) : STATUS_OK;
}

int spec_load_config(const struct run_spec *spec, struct config *config, struct error *err)
{
    const char *const *sets = spec->sets.at;
    if (!spec->config_text) return config_load(config, spec->config_path, sets, spec->sets.count, err);
    int status = config_load_text(config, spec->config_text, sets, spec->sets.count, err);
    if (status && spec->config_path)
        return error_prefix(err, "%s%s", spec->config_path, spec->sets.count ? " with --set" : "");
    if (status && !spec->resume) return error_prefix(err, "the default%s", spec->sets.count ? " with --set" : "");
    return status ? error_prefix(err, "the configuration of %.150s", spec->resume) : STATUS_OK;
}

void spec_release(struct run_spec *spec)
{
    cJSON_Delete(spec->storage);
    spec->storage = NULL;
}
