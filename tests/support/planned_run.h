/* A run that has been planned and not begun: a setting as a configuration, and what its trace begins with. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/observe/model.h"
#include "engine/plan/schedule_io.h"
#include "engine/plan/setup.h"

enum { SETS_MAX = 16 };
struct setting { const char *sets[SETS_MAX]; };

static int count_of(const struct setting *setting)
{
    int count = 0;
    while (count < SETS_MAX && setting->sets[count]) count++;
    return count;
}

static struct config config_of(const struct setting *setting)
{
    struct config config;
    struct error err = {0};
    if (config_load(&config, "configs/nano.json", setting->sets, count_of(setting), &err)) fail_msg("%s", err.text);
    return config;
}

static void fold_header(struct run_model *model, const struct config *config, const struct setup *setup, const char *given)
{
    char *resolved = config_to_json(config), *json = NULL;
    char units[4096] = "";
    size_t used = 0;
    for (int u = 0; u < setup->model.unit_count; u++)
        used += (size_t)snprintf(units + used, sizeof units - used, "%s{\"name\": \"%s\", \"elems\": %lld}", u ? ", " : "",
                                 setup->model.units[u].name, (long long)setup->model.units[u].elems);
    assert_true(asprintf(&json, "{\"version\": \"t\", \"ranks\": %d, \"model\": {\"units\": [%s]}, \"config\": %s%s%s}",
                         config->topology.ranks, units, resolved, given ? ", \"given\": " : "", given ? given : "") > 0);
    struct trace_record record = {.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .run = {{json, strlen(json)}}};
    run_model_fold(model, &record);
    free(resolved);
    free(json);
}

/* given: the keys that a file or a user gave, as JSON; NULL: the trace does not say. The caller frees the model. */
static struct run_model *planned_run(const struct config *config, const char *given)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct setup setup;
    assert_int_equal(setup_init(&setup, config, NULL), STATUS_OK);
    fold_header(model, config, &setup, given);
    char *ops = schedule_to_json(&setup.schedule);
    struct trace_record record = {.kind = TRACE_SCHEDULE,
                                  .rank = TRACE_RANK_ALL,
                                  .schedule = {1, PURPOSE_TRAIN, (uint8_t)setup.schedule.stage, {ops, strlen(ops)}}};
    run_model_fold(model, &record);
    free(ops);
    setup_release(&setup);
    return model;
}
