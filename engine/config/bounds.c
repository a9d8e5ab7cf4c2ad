/* Bounds of products of sizes. The table of keys bounds each size by itself; products of several sizes
 * are bounded here, once, so that plan, engine and views compute with int64_t and need no checks of their own.
 *
 * With L layers, C hidden, F the width of the MLP, H heads, V vocabulary, T sequence length, S tokens of a step over all ranks
 * (train_batch_size x T), R ranks and A micro-steps, the largest sums below are:
 *
 *     tokens of a step          S               bounded by 2^36; of a run by 2^31 (config_check_run): trace records count with 32 bits
 *     tokens of a rank          S / R           bounded by 2^31: kernels count tokens with 32 bits
 *     units                     L x tiles       bounded by 2^13: the plan looks at pairs of units
 *     activations               S L (C + F)     bounded by 2^56. A token has at most 54 C + 12 F bytes in a layer: output, two parts, 4 H
 *                                               of log-sum-exps, H <= C. The textbook's formula counts 66 C. So 66 S L (C + F) is
 *                                               less than 2^63.
 *     attention matrices        S T H L         bounded by 2^59: the textbook counts 5 bytes of each score, which nobody keeps
 *     logits                    S V 4           at most 2^36 x 2^23.3 x 2^2 without a bound of its own
 *     parameters                P               at most 2^60 without a bound of its own: each size has its range
 *     bytes kept                P R             bounded by 2^56. A parameter has at most 8 lasting arrays of 4 bytes and as many of the
 *                                               step. So 64 P R fits 2^62, on all ranks together.
 *     bytes moved               P R A           bounded by 2^58. Of a parameter a rank moves in a micro-step at most four gathers, 16 bytes,
 *                                               and one reduction, 4 bytes, in at most R rounds. So 16 P A + 4 P R A is less than 2^63.
 *
 * Padding adds at most 16 R elements to a unit: 2^33 to P. Operations are counted by the builder of schedules (SCHEDULE_OPS_MAX), and
 * floating-point operations are doubles (plan/footprint.h). */
#include "engine/base/grouped.h"
#include "engine/base/words.h"
#include "engine/config/resolve.h"

#include <stdio.h>

struct factor {
    const char *name; /* a key, or what keys come to */
    int64_t value;
};

enum { FACTORS_MAX = 5 };

struct bound {
    struct factor factors[FACTORS_MAX]; /* as many as have a name */
    int64_t most;
    const char *what; /* is more than that */
};

static bool within(const struct bound *bound)
{
    int64_t product = 1;
    for (int f = 0; f < FACTORS_MAX && bound->factors[f].name; f++)
        if (__builtin_mul_overflow(product, bound->factors[f].value, &product) || product > bound->most) return false;
    return true;
}

/* "a x b x c = 1 x 2 x 3: more than N things; lower one of them" */
static int refuse(const struct bound *bound, struct error *err)
{
    char names[240] = "", values[160] = "", most[32];
    for (int f = 0; f < FACTORS_MAX && bound->factors[f].name; f++) {
        const char *between = f ? " x " : "";
        text_append(names, sizeof names, "%s%s", between, bound->factors[f].name);
        text_append(values, sizeof values, "%s%lld", between, (long long)bound->factors[f].value);
    }
    return error_set(err, STATUS_USAGE, "%s = %s: more than %s %s; lower one of them", names, values,
                     grouped(most, bound->most), bound->what);
}

/* All parameters of the model, or a little more. */
static int64_t parameters_of(const struct config_model *model)
{
    const int64_t C = model->hidden, F = config_ffn(model), K = config_key_width(model);
    const int64_t products = model_traits[model->kind].gated ? 3 : 2, head = model->untied ? model->vocabulary : 0;
    const int64_t block = products * F * C + 2 * C * C + 2 * K * C + F + 9 * C;
    return model->layers * block + (head + (int64_t)model->vocabulary + model->context + 6) * C;
}

int config_check_bounds(const struct config *config, struct error *err)
{
    const struct config_model *model = &config->model;
    const struct factor batch = {"train_batch_size", config->train_batch_size},
                        sequence = {"data.sequence_length", config->data.sequence_length},
                        micro_batch = {"train_micro_batch_size_per_gpu", config->micro_batch_size},
                        steps = {"gradient_accumulation_steps", config->accumulation_steps},
                        layers = {"model.layers", model->layers},
                        parameters = {"parameters of the model", parameters_of(model)},
                        ranks = {"topology.ranks", config->topology.ranks};
    const struct bound bounds[] = {
        {{batch, sequence}, INT64_C(1) << 36, "tokens in a step"},
        {{micro_batch, steps, sequence}, INT32_MAX, "tokens of a rank in a step"},
        {{layers, {"model.mlp_tiles", config->mlp_tiles}}, 1 << 13, "units"},
        {{batch, sequence, layers, {"(model.hidden + model.ffn)", (int64_t)model->hidden + config_ffn(model)}},
         INT64_C(1) << 56,
         "activations in a step"},
        {{batch, sequence, sequence, layers, {"model.heads", model->heads}},
         INT64_C(1) << 59,
         "attention scores in a step"},
        {{parameters, ranks}, INT64_C(1) << 56, "parameters on all ranks"},
        {{parameters, ranks, steps}, INT64_C(1) << 58, "parameters that ranks use in a step"},
    };
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        if (!within(&bounds[b])) return refuse(&bounds[b], err);
    return STATUS_OK;
}
