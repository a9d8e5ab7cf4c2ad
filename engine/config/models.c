/* The built-in configurations, assembled into the program so that they work from any folder, and model shapes. The three
 * small ones are ours, at byte vocabulary. The others are as published: GPT-2 (Radford et al. 2019); GPT-3 (Brown et al. 2020, table
 * 2.1, whose 13b has a hidden size of 5140 that its 40 heads do not divide: 5120 here); LLaMA, LLaMA 2, Llama 3, Mistral, OPT and
 * BLOOM by the config.json of their weights; gpt-1t of ZeRO-Infinity (Rajbhandari et al. 2021, table 1). */
#include <stddef.h>
#include <string.h>

#include "engine/config/config.h"
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
