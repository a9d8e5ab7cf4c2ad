/* The built-in configurations, assembled into the program so that they work from any folder, and model shapes. The three
 * small ones are ours, at byte vocabulary. The others are as published: GPT-2 (Radford et al. 2019); GPT-3 (Brown et al. 2020, table
 * 2.1, whose 13b has a hidden size of 5140 that its 40 heads do not divide: 5120 here); LLaMA, LLaMA 2, Llama 3, Mistral, OPT and
 * BLOOM by the config.json of their weights; gpt-1t of ZeRO-Infinity (Rajbhandari et al. 2021, table 1). */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config/config.h"
#include "engine/config/hjson.h"
#include "engine/config/number.h"
#include "engine/config/resolve.h"

__asm__(".pushsection .rodata\n"
        ".global config_default, config_nano\n"
        "config_default: .incbin \"configs/teach.json\"\n"
        ".byte 0\n"
        "config_nano: .incbin \"configs/nano.json\"\n"
        ".byte 0\n"
        ".popsection");

#define GPT(...)                                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__, KIND_GPT2, 0, 0, false                                                                            \
    }
#define LLAMA(name, layers, hidden, heads, context, vocabulary, kv_heads, ffn)                                         \
    {                                                                                                                  \
        name, layers, hidden, heads, context, vocabulary, KIND_LLAMA, kv_heads, ffn, true                              \
    }
static const struct config_model models[] = {
    /* name, layers, hidden, heads, context, vocabulary; heads of keys and values, width of the MLP (0: as config.h says) */
    GPT("nano", 4, 128, 4, 64, 256),
    GPT("teach", 4, 224, 4, 32, 256),
    GPT("micro", 6, 384, 6, 128, 256),
    GPT("gpt2", 12, 768, 12, 1024, 50257),
    GPT("gpt2-medium", 24, 1024, 16, 1024, 50257),
    GPT("gpt2-large", 36, 1280, 20, 1024, 50257),
    GPT("gpt2-xl", 48, 1600, 25, 1024, 50257),
    GPT("gpt3-125m", 12, 768, 12, 2048, 50257),
    GPT("gpt3-350m", 24, 1024, 16, 2048, 50257),
    GPT("gpt3-760m", 24, 1536, 16, 2048, 50257),
    GPT("gpt3-1.3b", 24, 2048, 16, 2048, 50257),
    GPT("gpt3-2.7b", 32, 2560, 32, 2048, 50257),
    GPT("gpt3-6.7b", 32, 4096, 32, 2048, 50257),
    GPT("gpt3-13b", 40, 5120, 40, 2048, 50257),
    GPT("gpt3-175b", 96, 12288, 96, 2048, 50257),
    GPT("gpt-1t", 128, 25600, 256, 1024, 50257),
    LLAMA("llama-7b", 32, 4096, 32, 2048, 32000, 0, 0),
    LLAMA("llama-13b", 40, 5120, 40, 2048, 32000, 0, 0),
    LLAMA("llama-30b", 60, 6656, 52, 2048, 32000, 0, 0),
    LLAMA("llama-65b", 80, 8192, 64, 2048, 32000, 0, 0),
    LLAMA("llama-2-7b", 32, 4096, 32, 4096, 32000, 0, 0),
    LLAMA("llama-2-13b", 40, 5120, 40, 4096, 32000, 0, 0),
    LLAMA("llama-2-70b", 80, 8192, 64, 4096, 32000, 8, 28672),
    LLAMA("llama-3-8b", 32, 4096, 32, 8192, 128256, 8, 14336),
    LLAMA("llama-3-70b", 80, 8192, 64, 8192, 128256, 8, 28672),
    LLAMA("mistral-7b", 32, 4096, 32, 32768, 32000, 8, 14336),
    {"opt-66b", 64, 9216, 72, 2048, 50272, KIND_OPT, 0, 0, false},
    {"opt-175b", 96, 12288, 96, 2048, 50272, KIND_OPT, 0, 0, false},
    {"bloom-176b", 70, 14336, 112, 2048, 250880, KIND_BLOOM, 0, 0, false},
};
#undef GPT
#undef LLAMA

const struct model_traits model_traits[MODEL_KINDS] = {
    [KIND_GPT2] = {"gpt2", .tied = true, .biases = true, .positions = true},
    [KIND_LLAMA] = {"llama", .rms_norm = true, .gated = true},
    [KIND_QWEN2] = {"qwen2", .rms_norm = true, .gated = true, .qkv_biases = true},
    [KIND_OPT] = {"opt", .tied = true, .biases = true, .positions = true, .more_positions = 2},
    [KIND_BLOOM] = {"bloom", .tied = true, .biases = true, .embedding_norm = true},
};

int config_kv_heads(const struct config_model *model)
{
    return model->kv_heads ? model->kv_heads : model->heads;
}

int64_t config_key_width(const struct config_model *model)
{
    return model->kv_heads && model->heads ? (int64_t)model->hidden / model->heads * model->kv_heads : model->hidden;
}

int config_ffn(const struct config_model *model)
{
    enum { MULTIPLE = 256 };
    if (model->ffn) return model->ffn;
    if (!model_traits[model->kind].gated) return 4 * model->hidden;
    return (8 * model->hidden / 3 + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

const struct config_model *config_model_at(int number)
{
    return number < (int)(sizeof models / sizeof *models) ? &models[number] : NULL;
}

const struct config_model *config_model_named(const char *name)
{
    const struct config_model *model;
    for (int m = 0; (model = config_model_at(m)); m++)
        if (strcmp(model->name, name) == 0) return model;
    return NULL;
}

/* ---- the sizes in a Hugging Face config.json. What changes the tensors or products of a model is read, or refused by name; what changes
 * only numbers inside (activation functions, scales, epsilon, rotation of positions) is not looked at ---- */

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
