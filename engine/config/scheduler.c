/* scheduler.type and scheduler.params: DeepSpeed's five schedules. As with optimizers a type is a class and its params are
 * that class's arguments. The formulas are in engine/optim/learning_rate.c. */
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/config/hjson.h"
#include "engine/config/optimizer.h"

static const char *const names[SCHEDULERS] = {"",         "WarmupLR",   "WarmupDecayLR", "WarmupCosineLR",
                                              "OneCycle", "LRRangeTest"};

enum {
    W = 1 << SCHEDULER_WARMUP,
    D = 1 << SCHEDULER_WARMUP_DECAY,
    C = 1 << SCHEDULER_WARMUP_COSINE,
    O = 1 << SCHEDULER_ONE_CYCLE,
    R = 1 << SCHEDULER_LR_RANGE_TEST
};

#define PARAM "scheduler.params."
static const struct {
    const char *path;
    int has, needs; /* by which schedules */
} params[] = {
    {PARAM "warmup_min_lr", W | D, 0},
    {PARAM "warmup_max_lr", W | D, 0},
    {PARAM "warmup_num_steps", W | D | C, 0},
    {PARAM "warmup_type", W | D | C, 0},
    {PARAM "total_num_steps", D | C, D | C},
    {PARAM "warmup_min_ratio", C, 0},
    {PARAM "cos_min_ratio", C, 0},
    {PARAM "cycle_min_lr", O, O},
    {PARAM "cycle_max_lr", O, O},
    {PARAM "decay_lr_rate", O, 0},
    {PARAM "cycle_first_step_size", O, 0},
    {PARAM "cycle_second_step_size", O, 0},
    {PARAM "cycle_first_stair_count", O, 0},
    {PARAM "cycle_second_stair_count", O, 0},
    {PARAM "decay_step_size", O, 0},
    {PARAM "cycle_momentum", O, 0},
    {PARAM "cycle_min_mom", O, 0},
    {PARAM "cycle_max_mom", O, 0},
    {PARAM "decay_mom_rate", O, 0},
    {PARAM "lr_range_test_min_lr", R, 0},
    {PARAM "lr_range_test_step_size", R, 0},
    {PARAM "lr_range_test_step_rate", R, 0},
    {PARAM "lr_range_test_staircase", R, 0},
};
enum { PARAMS = sizeof params / sizeof *params };

bool scheduler_has(const struct config *config, const char *path)
{
    if (strcmp(path, "scheduler.type") == 0) return config->scheduler.kind != SCHEDULER_NONE;
    for (int p = 0; p < PARAMS; p++)
        if (strcmp(params[p].path, path) == 0) return params[p].has >> config->scheduler.kind & 1;
    return true;
}

int config_matters(const struct config *config, const char *key, struct error *err)
{
    const enum scheduler kind = config->scheduler.kind;
    char path[CONFIG_PATH_MAX];
    config_path(path, key);
    if (!optimizer_has(config, path))
        return error_set(err, STATUS_USAGE, "%s: %s has no such parameter", path, config->optimizer.type);
    if (!scheduler_has(config, path))
        return error_set(err, STATUS_USAGE, "%s: %s", path,
                         kind == SCHEDULER_NONE ? "there is no scheduler" : "the scheduler has no such parameter");
    if (strcmp(path, "optimizer.params.lr") == 0 && kind != SCHEDULER_NONE && kind != SCHEDULER_WARMUP_COSINE)
        return error_set(err, STATUS_USAGE, "%s: %s sets the learning rate; set scheduler.params", path, names[kind]);
    return STATUS_OK;
}

static int find_kind(enum scheduler *found, const char *type, struct error *err)
{
    for (int kind = 0; kind < SCHEDULERS; kind++)
        if (strcmp(type, names[kind]) == 0) return *found = (enum scheduler)kind, STATUS_OK;
    const char *near = nearest_name(type, names + 1, SCHEDULERS - 1);
    return error_set(err, STATUS_USAGE,
                     "scheduler.type = \"%s\": no such schedule; %s%s%sthere are WarmupLR, WarmupDecayLR, "
                     "WarmupCosineLR, OneCycle, LRRangeTest",
                     type, near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

int scheduler_refuse(const cJSON *tree, struct error *err)
{
    const cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, "scheduler");
    const char *type = hjson_string(cJSON_GetObjectItemCaseSensitive(section, "type"));
    enum scheduler found;
    return type && strcmp(type, "auto") != 0 ? find_kind(&found, type, err) : STATUS_OK;
}

static int check_params(const struct config_source *source, struct error *err)
{
    const struct config_scheduler *scheduler = &source->config->scheduler;
    for (int p = 0; p < PARAMS; p++) {
        const char *path = params[p].path;
        if (given(source, path) && scheduler->kind == SCHEDULER_NONE)
            return error_set(err, STATUS_USAGE, "%s: scheduler.type is not given", path);
        if (given(source, path) && !scheduler_has(source->config, path))
            return error_set(err, STATUS_USAGE, "%s: %s has no such parameter", path, scheduler->type);
        if (params[p].needs >> scheduler->kind & 1 && !given(source, path))
            return error_set(err, STATUS_USAGE, "%s: not given; %s needs it: --set %s=N", path, scheduler->type, path);
    }
    return STATUS_OK;
}

/* Python's None: what another value says. */
static void follow(const struct config_source *source)
{
    struct config_scheduler *scheduler = &source->config->scheduler;
    if (!given(source, PARAM "warmup_max_lr"))
        scheduler->warmup_max_lr =
            scheduler->kind == SCHEDULER_WARMUP_DECAY ? 1e-3 : source->config->optimizer.learning_rate;
    if (!given(source, PARAM "cycle_second_step_size")) scheduler->cycle_second_steps = scheduler->cycle_first_steps;
    if (!given(source, PARAM "cycle_second_stair_count"))
        scheduler->cycle_second_stairs = scheduler->cycle_first_stairs;
}

static int note_short(struct config *config, struct error *err)
{
    const struct config_scheduler *scheduler = &config->scheduler;
    if (!scheduler_has(config, PARAM "total_num_steps") || scheduler->kind == SCHEDULER_NONE || scheduler->steps_unknown ||
        scheduler->total_steps >= scheduler->warmup_steps)
        return STATUS_OK;
    return config_note(config, err, PARAM "total_num_steps: %lld is less than warmup_num_steps, %lld",
                       (long long)scheduler->total_steps, (long long)scheduler->warmup_steps);
}

static int notes(struct config_source *source, struct error *err)
{
    const struct config_scheduler *scheduler = &source->config->scheduler;
    const enum optimizer rule = source->config->optimizer.rule;
    int status = note_short(source->config, err);
    if (!status && scheduler->kind == SCHEDULER_ONE_CYCLE && scheduler->cycle_momentum &&
        (rule == OPTIMIZER_SGD || rule == OPTIMIZER_MOMENTUM || rule == OPTIMIZER_ADAGRAD))
        status = config_note(source->config, err, PARAM "cycle_momentum: no effect, %s has no betas",
                             source->config->optimizer.type);
    return status;
}

int scheduler_settle(struct config *config, int64_t steps, struct error *err)
{
    if (!config->scheduler.steps_unknown) return STATUS_OK;
    if (steps <= 0)
        return error_set(err, STATUS_USAGE,
                         PARAM "total_num_steps: \"auto\" is the trainer's number of steps; give --steps N, or --set " PARAM
                         "total_num_steps=N");
    config->scheduler.total_steps = steps;
    config->scheduler.steps_unknown = false;
    int status = note_short(config, err);
    return status ? status : config_note(config, err, PARAM "total_num_steps: \"auto\" is %lld, the steps of this run", (long long)steps);
}

int scheduler_resolve(struct config_source *source, struct error *err)
{
    struct config_scheduler *scheduler = &source->config->scheduler;
    int status = find_kind(&scheduler->kind, scheduler->type, err);
    if (!status) status = check_params(source, err);
    if (status) return status;
    follow(source);
    return notes(source, err);
}
