/* optimizer.type and optimizer.params, as DeepSpeed takes them: a type is a class, its params are that class's arguments, so
 * one that it lacks is an error. Names that DeepSpeed knows and zerolab does not are refused with the reason. */
#include "engine/config/optimizer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/nearest.h"
#include "engine/config/hjson.h"

/* Letters: which of the types below has the parameter. */
static const struct {
    char letter;
    const char *name;
} types[] = {{'W', "AdamW"}, {'A', "Adam"}, {'L', "Lion"}, {'G', "Adagrad"}, {'S', "SGD"}};
enum { TYPES = sizeof types / sizeof *types };

static const struct {
    const char *path, *letters;
} params[] = {
    {"optimizer.params.betas", "WAL"},          {"optimizer.params.eps", "WAG"},
    {"optimizer.params.bias_correction", "WA"}, {"optimizer.params.adam_w_mode", "WA"},
    {"optimizer.params.torch_adam", "WA"},      {"optimizer.params.amsgrad", "WA"},
    {"optimizer.params.momentum", "S"},         {"optimizer.params.dampening", "S"},
    {"optimizer.params.nesterov", "S"},         {"optimizer.params.fp32_optimizer_states", "WALG"},
};

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

/* True for what every type has, and for a type that does not exist. */
static bool type_has(const char *type, const char *path)
{
    for (int t = 0; t < TYPES; t++)
        for (size_t p = 0; p < sizeof params / sizeof *params; p++)
            if (strcasecmp(types[t].name, type) == 0 && strcmp(params[p].path, path) == 0)
                return strchr(params[p].letters, types[t].letter) != NULL;
    return true;
}

bool optimizer_has(const struct config *config, const char *path)
{
    return type_has(config->optimizer.type, path);
}

int optimizer_leave_out(struct config *config, cJSON *section, struct error *err)
{
    const char *type = hjson_string(cJSON_GetObjectItemCaseSensitive(section, "type"));
    cJSON *given = cJSON_GetObjectItemCaseSensitive(section, "params");
    int status = STATUS_OK;
    for (cJSON *item = given ? given->child : NULL, *next; type && item && !status; item = next) {
        char path[CONFIG_PATH_MAX];
        next = item->next;
        snprintf(path, sizeof path, "optimizer.params.%s", item->string);
        if (type_has(type, path)) continue;
        status = config_note(config, err, "%s: left out, %s has no such parameter", path, type);
        cJSON_Delete(cJSON_DetachItemViaPointer(given, item));
    }
    return status;
}

/* Finds a type without regard to case, as DeepSpeed does, and returns its name as the table spells it. */
static int find_type(const char **found, const char *type, struct error *err)
{
    const char *names[TYPES], *near;
    for (int t = 0; t < TYPES; t++) {
        names[t] = types[t].name;
        if (strcasecmp(type, names[t]) == 0) return *found = names[t], STATUS_OK;
    }
    near = nearest_name(type, names, TYPES);
    return error_set(err, STATUS_USAGE,
                     "optimizer.type = \"%s\": no such optimizer; %s%s%sthere are Adam, AdamW, Lion, Adagrad, SGD",
                     type, near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

int optimizer_refuse(const cJSON *tree, struct error *err)
{
    const cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, "optimizer");
    const char *type = hjson_string(cJSON_GetObjectItemCaseSensitive(section, "type")), *found;
    for (size_t r = 0; type && r < sizeof refused / sizeof *refused; r++)
        if (strcasecmp(type, refused[r].name) == 0)
            return error_set(err, STATUS_USAGE,
                             "optimizer.type = \"%s\": %s; there are Adam, AdamW, Lion, Adagrad, SGD", type,
                             refused[r].why);
    return type && strcmp(type, "auto") != 0 ? find_type(&found, type, err) : STATUS_OK;
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

static int notes(struct config_source *source, struct error *err)
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

int optimizer_resolve(struct config_source *source, struct error *err)
{
    struct config_optimizer *optimizer = &source->config->optimizer;
    const char *type;
    int status = find_type(&type, optimizer->type, err);
    if (!status) strcpy(optimizer->type, type);
    for (size_t p = 0; !status && p < sizeof params / sizeof *params; p++)
        if (given(source, params[p].path) && !optimizer_has(source->config, params[p].path))
            status = error_set(err, STATUS_USAGE, "%s: %s has no such parameter", params[p].path, optimizer->type);
    if (status) return status;
    optimizer->rule = rule_of(optimizer);
    if (optimizer->nesterov && (optimizer->momentum <= 0 || optimizer->dampening != 0))
        return error_set(err, STATUS_USAGE,
                         "optimizer.params.nesterov: needs a momentum and no dampening, as in PyTorch");
    status = class_defaults(source, err);
    return status ? status : notes(source, err);
}
