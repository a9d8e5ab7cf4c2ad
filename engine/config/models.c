/* The built-in configurations, assembled into the program so that they work from any folder, and model shapes. The three
 * small ones are ours, at byte vocabulary; the others are GPT-2's as published. */
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

static const struct config_model models[] = {
    /* name, layers, hidden, heads, context, vocabulary */
    {"nano", 4, 128, 4, 64, 256},
    {"teach", 4, 224, 4, 32, 256},
    {"micro", 6, 384, 6, 128, 256},
    {"gpt2", 12, 768, 12, 1024, 50257},
    {"gpt2-medium", 24, 1024, 16, 1024, 50257},
    {"gpt2-large", 36, 1280, 20, 1024, 50257},
    {"gpt2-xl", 48, 1600, 25, 1024, 50257},
};

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
