/* The sizes in a Hugging Face config.json. What changes the tensors or products of a model is read, or refused by name; what
 * changes only numbers inside (activation functions, scales, epsilon, rotation of positions) is not looked at. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config/config.h"
#include "engine/config/hjson.h"
#include "engine/config/number.h"

/* Where a type has its sizes: names of keys, of which the first that is given counts; NULL: it has none. A name in brackets
 * may be left out. */
static const struct file_type {
    const char *type;
    enum model_kind kind;
    const char *layers, *hidden, *heads, *context, *kv_heads, *ffn;
} types[] = {
#define LAYERS_HIDDEN_HEADS "num_hidden_layers", "hidden_size", "num_attention_heads"
    {"gpt2", KIND_GPT2, "n_layer", "n_embd", "n_head", "n_positions|n_ctx", NULL, "[n_inner]"},
    {"llama", KIND_LLAMA, LAYERS_HIDDEN_HEADS, "max_position_embeddings", "[num_key_value_heads]", "intermediate_size"},
    {"mistral", KIND_LLAMA, LAYERS_HIDDEN_HEADS, "max_position_embeddings", "num_key_value_heads", "intermediate_size"},
    {"qwen2", KIND_QWEN2, LAYERS_HIDDEN_HEADS, "max_position_embeddings", "num_key_value_heads", "intermediate_size"},
    {"opt", KIND_OPT, LAYERS_HIDDEN_HEADS, "max_position_embeddings", NULL, "ffn_dim"},
    {"bloom", KIND_BLOOM, "n_layer|num_hidden_layers", "hidden_size|n_embed", "n_head|num_attention_heads",
     "seq_length", NULL, NULL},
#undef LAYERS_HIDDEN_HEADS
};
enum { TYPES = sizeof types / sizeof *types };

/* Switches with which a model has other tensors. */
static const struct {
    const char *key;
    bool value; /* the one that is planned */
} switches[] = {
    {"add_cross_attention", false},
    {"attention_bias", false},
    {"mlp_bias", false},
    {"enable_bias", true},
    {"layer_norm_elementwise_affine", true},
    {"do_layer_norm_before", true},
    {"_remove_final_layer_norm", false},
    {"is_encoder_decoder", false},
};

static const cJSON *member(const cJSON *json, const char *name, size_t length)
{
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)length, name);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsNull(item) ? NULL : item;
}

static int read_size(int *size, const cJSON *json, const char *names, struct error *err)
{
    const bool optional = names && *names == '[';
    const cJSON *item = NULL;
    const char *name = names + optional;
    char shown[64];
    bool negative;
    uint64_t value;
    if (!names) return STATUS_OK;
    for (const char *at = name; !item; at += strcspn(at, "|") + 1) {
        item = member(json, at, strcspn(at, "|]"));
        if (item) name = at;
        if (!strchr(at, '|')) break;
    }
    const int length = (int)strcspn(name, "|]");
    if (!item) return optional ? STATUS_OK : error_set(err, STATUS_USAGE, "%.*s: not given", length, name);
    const char *number = hjson_number(item);
    if (!number || !number_integer(number, &negative, &value) || negative || value < 1 || value > INT_MAX)
        return error_set(err, STATUS_USAGE, "%.*s = %s: must be an integer from 1 to %d", length, name,
                         hjson_show(item, shown, sizeof shown), INT_MAX);
    return *size = (int)value, STATUS_OK;
}

static int find_type(const struct file_type **type, const cJSON *json, struct error *err)
{
    const char *name = hjson_string(cJSON_GetObjectItemCaseSensitive(json, "model_type"));
    if (!name) return error_set(err, STATUS_USAGE, "model_type: not given; this is no config.json of a model");
    for (int t = 0; t < TYPES; t++)
        if (strcmp(types[t].type, name) == 0) return *type = &types[t], STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "model_type = \"%.60s\": cannot be planned; there are gpt2, llama, mistral, qwen2, opt, bloom",
                     name);
}

static int check_switches(const cJSON *json, struct error *err)
{
    for (size_t s = 0; s < sizeof switches / sizeof *switches; s++) {
        const cJSON *item = member(json, switches[s].key, strlen(switches[s].key));
        if (item && cJSON_IsBool(item) && cJSON_IsTrue(item) != switches[s].value)
            return error_set(err, STATUS_USAGE, "%s = %s: a model with other tensors, which cannot be planned",
                             switches[s].key, cJSON_IsTrue(item) ? "true" : "false");
    }
    return STATUS_OK;
}

/* Widths that are equal in what is planned. */
static int check_widths(const struct config_model *model, const cJSON *json, struct error *err)
{
    int head = 0, embedding = 0;
    int status = read_size(&head, json, "[head_dim]", err);
    if (!status) status = read_size(&embedding, json, "[word_embed_proj_dim]", err);
    if (status) return status;
    if (head && (int64_t)head * model->heads != model->hidden)
        return error_set(err, STATUS_USAGE, "head_dim = %d: heads that are not hidden_size / %d wide cannot be planned",
                         head, model->heads);
    if (embedding && embedding != model->hidden)
        return error_set(err, STATUS_USAGE,
                         "word_embed_proj_dim = %d: an embedding that is not hidden_size, %d, wide cannot be planned",
                         embedding, model->hidden);
    return STATUS_OK;
}

static int read_model(struct config_model *model, const cJSON *json, int *window, struct error *err)
{
    const struct file_type *type = NULL;
    *model = (struct config_model){.name = "custom"};
    *window = 0;
    int status =
        cJSON_IsObject(json) ? find_type(&type, json, err) : error_set(err, STATUS_INPUT, "not a JSON object { ... }");
    if (!status) status = read_size(&model->layers, json, type->layers, err);
    if (!status) status = read_size(&model->hidden, json, type->hidden, err);
    if (!status) status = read_size(&model->heads, json, type->heads, err);
    if (!status) status = read_size(&model->context, json, type->context, err);
    if (!status) status = read_size(&model->vocabulary, json, "vocab_size", err);
    if (!status) status = read_size(&model->kv_heads, json, type->kv_heads, err);
    if (!status) status = read_size(&model->ffn, json, type->ffn, err);
    if (!status) status = check_switches(json, err);
    if (!status) status = check_widths(model, json, err);
    if (status) return status;
    const cJSON *tied = member(json, "tie_word_embeddings", 19), *slides = member(json, "use_sliding_window", 18);
    model->kind = type->kind;
    model->untied = tied ? !cJSON_IsTrue(tied) : !model_traits[type->kind].tied;
    return cJSON_IsFalse(slides) ? STATUS_OK : read_size(window, json, "[sliding_window]", err);
}

int config_model_file(struct config_model *model, const char *path, int *window, struct error *err)
{
    char *text;
    cJSON *json = NULL;
    int status = config_read(&text, path, err);
    if (!status) {
        status = hjson_parse(&json, text, strlen(text), err);
        free(text);
    }
    if (!status) status = read_model(model, json, window, err);
    cJSON_Delete(json);
    return status ? error_prefix(err, "%.300s", path) : STATUS_OK;
}
