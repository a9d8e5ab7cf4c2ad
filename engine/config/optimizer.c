/* optimizer.type and scheduler.type with their params, as DeepSpeed takes them: a type is a class, its params are that class's
 * arguments, so one that it lacks is an error. Names that DeepSpeed knows and zerolab does not are refused with the reason. The
 * formulas of schedules are in engine/optim/learning_rate.c. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/nearest.h"
#include "engine/config/hjson.h"
#include "engine/config/resolve.h"

/* ---- which parameters a type has ---- */

/* By section, in the order of enum scheduler; "": there is no scheduler. */
static const char *const types[] = {"AdamW",    "Adam",          "Lion",           "Adagrad",  "SGD",        "",
                                    "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"};
enum { FIRST_SCHEDULER = 5, TYPES = sizeof types / sizeof *types };

static const struct section {
    const char *name, *noun, *there_are;
    int first, end; /* of its types */
    int (*compare)(const char *, const char *);
} optimizer_section = {"optimizer", "optimizer", "Adam, AdamW, Lion, Adagrad, SGD", 0, FIRST_SCHEDULER, strcasecmp},
  scheduler_section = {"scheduler", "schedule", "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest",
                       FIRST_SCHEDULER, TYPES, strcmp};

enum {
    ADAMW = 1,
    ADAM = 2,
    LION = 4,
    ADAGRAD = 8,
    SGD = 16,
    WARMUP = 64,
    DECAY = 128,
    COSINE = 256,
    CYCLE = 512,
    RANGE_TEST = 1024
};
#define PARAM "scheduler.params."
static const struct param {
    const char *path;
    int has, needs; /* which types */
} params[] = {
    {"optimizer.params.betas", ADAMW | ADAM | LION, 0},
    {"optimizer.params.eps", ADAMW | ADAM | ADAGRAD, 0},
    {"optimizer.params.bias_correction", ADAMW | ADAM, 0},
    {"optimizer.params.adam_w_mode", ADAMW | ADAM, 0},
    {"optimizer.params.torch_adam", ADAMW | ADAM, 0},
    {"optimizer.params.amsgrad", ADAMW | ADAM, 0},
    {"optimizer.params.momentum", SGD, 0},
    {"optimizer.params.dampening", SGD, 0},
    {"optimizer.params.nesterov", SGD, 0},
    {"optimizer.params.fp32_optimizer_states", ADAMW | ADAM | LION | ADAGRAD, 0},
    {PARAM "warmup_min_lr", WARMUP | DECAY, 0},
    {PARAM "warmup_max_lr", WARMUP | DECAY, 0},
    {PARAM "warmup_num_steps", WARMUP | DECAY | COSINE, 0},
    {PARAM "warmup_type", WARMUP | DECAY | COSINE, 0},
    {PARAM "total_num_steps", DECAY | COSINE, DECAY | COSINE},
    {PARAM "warmup_min_ratio", COSINE, 0},
    {PARAM "cos_min_ratio", COSINE, 0},
    {PARAM "cycle_min_lr", CYCLE, CYCLE},
    {PARAM "cycle_max_lr", CYCLE, CYCLE},
    {PARAM "decay_lr_rate", CYCLE, 0},
    {PARAM "cycle_first_step_size", CYCLE, 0},
    {PARAM "cycle_second_step_size", CYCLE, 0},
    {PARAM "cycle_first_stair_count", CYCLE, 0},
    {PARAM "cycle_second_stair_count", CYCLE, 0},
    {PARAM "decay_step_size", CYCLE, 0},
    {PARAM "cycle_momentum", CYCLE, 0},
    {PARAM "cycle_min_mom", CYCLE, 0},
    {PARAM "cycle_max_mom", CYCLE, 0},
    {PARAM "decay_mom_rate", CYCLE, 0},
    {PARAM "lr_range_test_min_lr", RANGE_TEST, 0},
    {PARAM "lr_range_test_step_size", RANGE_TEST, 0},
    {PARAM "lr_range_test_step_rate", RANGE_TEST, 0},
    {PARAM "lr_range_test_staircase", RANGE_TEST, 0},
};
enum { PARAMS = sizeof params / sizeof *params };

/* The place of a type in the list; -1: the section has no such type. */
static int place_of(const struct section *section, const char *type)
{
    for (int t = section->first; t < section->end; t++)
        if (section->compare(type, types[t]) == 0) return t;
    return -1;
}

/* True for a parameter that every type has, and for a type that does not exist (-1). */
static bool type_has(int place, const char *path)
{
    for (int p = 0; p < PARAMS; p++)
        if (strcmp(params[p].path, path) == 0) return place < 0 || params[p].has >> place & 1;
    return true;
}

bool config_type_has(const struct config *config, const char *path)
{
    if (strcmp(path, "scheduler.type") == 0) return config->scheduler.kind != SCHEDULER_NONE;
    const bool of_scheduler = strncmp(path, PARAM, strlen(PARAM)) == 0;
    return type_has(of_scheduler ? FIRST_SCHEDULER + (int)config->scheduler.kind
                                 : place_of(&optimizer_section, config->optimizer.type),
                    path);
}

int config_matters(const struct config *config, const char *key, struct error *err)
{
    const enum scheduler kind = config->scheduler.kind;
    char path[CONFIG_PATH_MAX];
    config_path(path, key);
    if (!config_type_has(config, path) && strncmp(path, "optimizer.", 10) == 0)
        return error_set(err, STATUS_USAGE, "%s: %s has no such parameter", path, config->optimizer.type);
    if (!config_type_has(config, path))
        return error_set(err, STATUS_USAGE, "%s: %s", path,
                         kind == SCHEDULER_NONE ? "there is no scheduler" : "the scheduler has no such parameter");
    if (strcmp(path, "optimizer.params.lr") == 0 && kind != SCHEDULER_NONE && kind != SCHEDULER_WARMUP_COSINE)
        return error_set(err, STATUS_USAGE, "%s: %s sets the learning rate; set scheduler.params", path,
                         config->scheduler.type);
    return STATUS_OK;
}

/* ---- types that zerolab does not know ---- */

static const struct {
    const char *name, *why;
} refused[] = {
    {"lamb", "its step needs the norm of each whole tensor, which no rank holds"},
    {"muon", "its step needs each whole matrix, which no rank holds"},
    {"onebitadam", "1-bit compression is not implemented, and DeepSpeed has removed it"},
    {"zerooneadam", "1-bit compression is not implemented, and DeepSpeed has removed it"},
    {"onebitlamb", "1-bit compression is not implemented, and DeepSpeed has removed it"},
    {"muadam", "maximal-update parametrization is not implemented"},
    {"muadamw", "maximal-update parametrization is not implemented"},
    {"musgd", "maximal-update parametrization is not implemented"},
};

static int find_type(const struct section *section, int *place, const char *type, struct error *err)
{
    *place = place_of(section, type);
    if (*place >= 0) return STATUS_OK;
    for (size_t r = 0; section == &optimizer_section && r < sizeof refused / sizeof *refused; r++)
        if (strcasecmp(type, refused[r].name) == 0)
            return error_set(err, STATUS_USAGE, "optimizer.type = \"%s\": %s; there are %s", type, refused[r].why,
                             section->there_are);
    const int first = section->first + !*types[section->first];
    const char *near = nearest_name(type, types + first, section->end - first);
    return error_set(err, STATUS_USAGE, "%s.type = \"%s\": no such %s; %s%s%sthere are %s", section->name, type,
                     section->noun, near ? "did you mean " : "", near ? near : "", near ? "? " : "",
                     section->there_are);
}

static int refuse_type(const struct section *section, const cJSON *tree, struct error *err)
{
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(tree, section->name);
    const char *type = hjson_string(cJSON_GetObjectItemCaseSensitive(given, "type"));
    int place;
    return type && strcmp(type, "auto") != 0 ? find_type(section, &place, type, err) : STATUS_OK;
}

int types_refuse(const cJSON *tree, struct error *err)
{
    const int status = refuse_type(&optimizer_section, tree, err);
    return status ? status : refuse_type(&scheduler_section, tree, err);
}

int optimizer_leave_out(struct config *config, cJSON *section, struct error *err)
{
    const char *type = hjson_string(cJSON_GetObjectItemCaseSensitive(section, "type"));
    cJSON *given = cJSON_GetObjectItemCaseSensitive(section, "params");
    const int place = type ? place_of(&optimizer_section, type) : -1;
    int status = STATUS_OK;
    for (cJSON *item = given ? given->child : NULL, *next; item && place >= 0 && !status; item = next) {
        char path[CONFIG_PATH_MAX];
        next = item->next;
        snprintf(path, sizeof path, "optimizer.params.%s", item->string);
        if (type_has(place, path)) continue;
        status = config_note(config, err, "%s: left out, %s has no such parameter", path, type);
        cJSON_Delete(cJSON_DetachItemViaPointer(given, item));
    }
    return status;
}

/* ---- values that follow from the type ---- */

/* Finds the type, spells it as the list does, and checks that it has the given parameters, and all that it needs. */
static int resolve_type(const struct section *section, const struct config_source *source, char *type, int *place,
                        struct error *err)
{
    int status = find_type(section, place, type, err);
    if (status) return status;
    strcpy(type, types[*place]);
    for (const struct param *param = params; param < params + PARAMS; param++) {
        const bool is_given = given(source, param->path);
        if (strncmp(param->path, section->name, strlen(section->name)) != 0) continue;
        if (is_given && !*type) return error_set(err, STATUS_USAGE, "%s: scheduler.type is not given", param->path);
        if (is_given && !type_has(*place, param->path))
            return error_set(err, STATUS_USAGE, "%s: %s has no such parameter", param->path, type);
        if (param->needs >> *place & 1 && !is_given)
            return error_set(err, STATUS_USAGE, "%s: not given; %s needs it: --set %s=N", param->path, type,
                             param->path);
    }
    return STATUS_OK;
}

/* "Adam" is AdamW unless adam_w_mode is false, and "AdamW" is AdamW whatever adam_w_mode says: DeepSpeed's rule. */
static enum optimizer rule_of(const struct config_optimizer *optimizer)
{
    if (strcmp(optimizer->type, "Lion") == 0) return OPTIMIZER_LION;
    if (strcmp(optimizer->type, "Adagrad") == 0) return OPTIMIZER_ADAGRAD;
    if (strcmp(optimizer->type, "SGD") == 0) return optimizer->momentum > 0 ? OPTIMIZER_MOMENTUM : OPTIMIZER_SGD;
    return strcmp(optimizer->type, "Adam") == 0 && !optimizer->adam_w_mode ? OPTIMIZER_ADAM : OPTIMIZER_ADAMW;
}

/* Sets defaults of a class that differ from those of the table of keys. */
static int class_defaults(struct config_source *source, struct error *err)
{
    struct config_optimizer *optimizer = &source->config->optimizer;
    if (optimizer->rule == OPTIMIZER_ADAGRAD && !given(source, "optimizer.params.lr")) optimizer->learning_rate = 1e-2;
    if (optimizer->rule == OPTIMIZER_ADAGRAD && !given(source, "optimizer.params.eps")) optimizer->epsilon = 1e-10;
    if (optimizer->rule == OPTIMIZER_ADAMW && optimizer->torch_adam &&
        !given(source, "optimizer.params.weight_decay")) {
        optimizer->weight_decay = 1e-2;
        return config_note(
            source->config, err,
            "optimizer.params.weight_decay: 0.01, the default of PyTorch's AdamW, which torch_adam asks for");
    }
    return STATUS_OK;
}

static int note_optimizer(struct config_source *source, struct error *err)
{
    const struct config *config = source->config;
    int status = STATUS_OK;
    if (strcmp(config->optimizer.type, "AdamW") == 0 && !config->optimizer.adam_w_mode)
        status = config_note(source->config, err,
                             "optimizer.params.adam_w_mode: no effect, AdamW decays as AdamW; use type Adam for L2");
    if (!status && strcmp(config->optimizer.type, "SGD") == 0 && config->zero.stage > 0 &&
        !given(source, "zero_allow_untested_optimizer"))
        status =
            config_note(source->config, err,
                        "optimizer.type: with SGD DeepSpeed asks for zero_allow_untested_optimizer at stages 1 to 3; "
                        "here every optimizer is tested at every stage");
    return status;
}

static int resolve_optimizer(struct config_source *source, struct error *err)
{
    struct config_optimizer *optimizer = &source->config->optimizer;
    int place, status = resolve_type(&optimizer_section, source, optimizer->type, &place, err);
    if (status) return status;
    optimizer->rule = rule_of(optimizer);
    if (optimizer->nesterov && (optimizer->momentum <= 0 || optimizer->dampening != 0))
        return error_set(err, STATUS_USAGE,
                         "optimizer.params.nesterov: needs a momentum and no dampening, as in PyTorch");
    status = class_defaults(source, err);
    return status ? status : note_optimizer(source, err);
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
    if (!type_has(FIRST_SCHEDULER + (int)scheduler->kind, PARAM "total_num_steps") || scheduler->steps_unknown ||
        scheduler->total_steps >= scheduler->warmup_steps)
        return STATUS_OK;
    return config_note(config, err, PARAM "total_num_steps: %lld is less than warmup_num_steps, %lld",
                       (long long)scheduler->total_steps, (long long)scheduler->warmup_steps);
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
    if (status) return status;
    return config_note(config, err, PARAM "total_num_steps: \"auto\" is %lld, the steps of this run", (long long)steps);
}

int types_resolve(struct config_source *source, struct error *err)
{
    struct config_scheduler *scheduler = &source->config->scheduler;
    int place, status = resolve_optimizer(source, err);
    if (!status) status = resolve_type(&scheduler_section, source, scheduler->type, &place, err);
    if (status) return status;
    scheduler->kind = (enum scheduler)(place - FIRST_SCHEDULER);
    follow(source);
    status = note_short(source->config, err);
    const enum optimizer rule = source->config->optimizer.rule;
    const bool has_betas = rule != OPTIMIZER_SGD && rule != OPTIMIZER_MOMENTUM && rule != OPTIMIZER_ADAGRAD;
    if (!status && scheduler->kind == SCHEDULER_ONE_CYCLE && scheduler->cycle_momentum && !has_betas)
        status = config_note(source->config, err, PARAM "cycle_momentum: no effect, %s has no betas",
                             source->config->optimizer.type);
    return status;
}
