#include "engine/plan/formula.h"

#include <string.h>

#include "engine/base/arithmetic.h"
#include "engine/plan/gpt2.h"
#include "engine/plan/walk.h"

/* Activation slots are rounded up to whole cache lines, which changes nothing where N is a multiple of 16. */
static const struct formula formulas[] = {
    {"parameters", "", "elements of the unit, padded (stage 3: / ranks)", 'e'},
    {"small tensors", "", "elements at or under the persistence threshold", 'e'},
    {"gradient", "", "e (or grad_accum_dtype's) x elements of the unit, padded (stages 2, 3: / ranks)", 0},
    {"master", "", "elements of the unit, padded (stages 1-3: / ranks)", '4'},
    {"moment 1", "", "elements of the unit, padded (stages 1-3: / ranks)", '4'},
    {"moment 2", "", "elements of the unit, padded (stages 1-3: / ranks)", '4'},
    {"momentum", "", "elements of the unit, padded (stages 1-3: / ranks)", '4'},
    {"sum of squares", "", "elements of the unit, padded (stages 1-3: / ranks)", '4'},
    {"tokens", "2 x 4 N", "tokens and targets", 0},
    {"embedding out", "e N C", "", 0},
    {"block out", "e N C", "the next block's input", 0},
    {"checkpoint", "e N C", "the input from which blocks are made again", 0},
    {"norm out", "e N C", "", 0},
    {"attention activations", "5 e N C + (2 + heads) 4 N", "norm, its statistics, q k v, log-sum-exp, attention", 0},
    {"mlp activations", "10 e N C + 2 x 4 N", "residual, norm, its statistics, fc, gelu", 0},
    {"mlp input", "2 e N C + 2 x 4 N", "residual, norm, its statistics: what the tiles of an MLP read", 0},
    {"hidden activations", "2 e N F", "fc and gelu of one tile", 0},
    {"MLP gradient", "e N C", "of what the tiles of an MLP read", 0},
    {"norm activations", "2 x 4 N", "statistics", 0},
    {"logits", "e N V + 4 N", "logits, then their gradient; losses", 0},
    {"residual gradient", "e N C", "", 0},
    {"scratch", "", "what the operation's kernels ask for", 0},
    {"gathered", "", "elements of the unit without its small tensors", 'e'},
    {"secondary copy", "", "elements of the unit, padded / zero_hpz_partition_size", 'e'},
    {"gradient to send", "", "communication_data_type's x elements of the unit, until its last bucket is reduced", 0},
    {"unreduced sum", "", "bytes of the accumulating type x elements of the unit, over all micro-steps", 0},
    {"reduced gradient", "", "communication_data_type's x elements of the unit's shard, on its way to the host", 0},
    {"gradient to add", "", "the same, come to the host, where it is added", 0},
    {"updated parameters", "", "elements of one update, on their way to the other tier", 'e'},
    {"shard", "", "elements of the unit's shard, come from the host to be gathered", 'e'},
    {"shard from NVMe", "", "elements of the unit's shard, in whole pages, read ahead of its use", 'e'},
    {"states from NVMe", "", "elements of one update, in whole pages: read, updated, written back", '4'},
    {"parameters to write", "", "elements of one update, in whole pages, on their way to NVMe", 'e'},
    {"unreduced gradient", "", "elements of the unit, until its last bucket is reduced", 'e'},
};

/* Where the model is no GPT-2. */
static const struct {
    const char *buffer, *bytes;
} general[] = {
    {"attention activations", "e N (3 C + 2 K) + (s + heads) 4 N"},
    {"mlp activations", "e N (2 C + 2 M + G) + s 4 N"},
    {"mlp input", "2 e N C + s 4 N"},
    {"hidden activations", "e N (2 F + G)"},
    {"norm activations", "s 4 N"},
};

const struct formula *formula_of(const char *buffer)
{
    for (size_t f = 0; f < sizeof formulas / sizeof *formulas; f++)
        if (strcmp(formulas[f].buffer, buffer) == 0) return &formulas[f];
    return NULL;
}

bool formula_general(const struct model *model)
{
    const struct config_model *shape = &model->shape;
    return shape->kind != KIND_GPT2 || config_kv_heads(shape) != shape->heads || config_ffn(shape) != 4 * shape->hidden;
}

const char *formula_bytes(const struct formula *formula, const struct model *model)
{
    for (size_t g = 0; g < sizeof general / sizeof *general && formula_general(model); g++)
        if (strcmp(general[g].buffer, formula->buffer) == 0) return general[g].bytes;
    return formula->bytes;
}

struct formula_sizes formula_sizes_of(const struct model *model, int B, int T)
{
    const struct model_traits *has = &model_traits[model->shape.kind];
    const int64_t F = activation_hidden(model);
    return (struct formula_sizes){dtype_bytes(model->dtype), (int64_t)B * T,
                                  model->shape.hidden,       logits_row(model),
                                  model->shape.heads,        F,
                                  config_key_width(&model->shape),          config_ffn(&model->shape),
                                  has->gated ? F : 0,        has->rms_norm ? 1 : 2};
}

static double size_of(const char *name, void *context)
{
    const struct formula_sizes *sizes = context;
    if (name[1]) return (double)sizes->heads;
    switch (*name) {
    case 'e': return (double)sizes->e;
    case 'N': return (double)sizes->N;
    case 'C': return (double)sizes->C;
    case 'F': return (double)sizes->F;
    case 'K': return (double)sizes->K;
    case 'M': return (double)sizes->M;
    case 'G': return (double)sizes->G;
    case 's': return (double)sizes->s;
    default: return (double)sizes->V;
    }
}

int64_t formula_value(const char *formula, const struct formula_sizes *sizes)
{
    struct formula_sizes copy = *sizes;
    return *formula ? (int64_t)arithmetic_value(formula, size_of, &copy) : 0;
}

void formula_numbers(char *text, size_t room, const char *formula, const struct formula_sizes *sizes)
{
    struct formula_sizes copy = *sizes;
    arithmetic_numbers(text, room, formula, size_of, &copy);
}

static void add(struct activation_terms *terms, const char *what, const char *formula, int64_t bytes)
{
    if (bytes) terms->difference[terms->count++] = (struct activation_term){what, formula, bytes};
}

static int64_t saved_bytes(const struct model *model, enum saved_buffer saved, int B, int T)
{
    struct activation_layout layout;
    architecture_gpt2.layout(&layout, model, (int)saved, B, T);
    return layout.bytes;
}

/* Inputs of blocks that stay. */
static int64_t inputs_kept(const struct model *model, const struct config_zero *knobs)
{
    int64_t kept = 0;
    for (int b = 0; b < model->shape.layers; b++) kept += walk_keeps_output(model, knobs, model->first - 1 + b);
    return kept;
}

void activation_terms_of(struct activation_terms *terms, const struct model *model, const struct config_zero *knobs,
                         int B, int T)
{
    const int64_t L = model->shape.layers, a = model->shape.heads, e = dtype_bytes(model->dtype);
    const int64_t sb = (int64_t)T * B, sbh = sb * model->shape.hidden, scores = a * T * sb;
    const int64_t attention = saved_bytes(model, SAVED_ATTENTION, B, T),
                  mlp = saved_bytes(model, SAVED_MLP, B, T) + model->mlp_tiles * saved_bytes(model, SAVED_HIDDEN, B, T),
                  input = activation_output_bytes(model, B, T);
    const int64_t h = model->shape.hidden, f = config_ffn(&model->shape),
                  shifts = model_traits[model->shape.kind].rms_norm ? 0 : 2;
    const int64_t keys = 2 * (config_key_width(&model->shape) - h), hidden = 2 * (f - 4 * h),
                  gate = model_traits[model->shape.kind].gated ? f : 0;
    const int64_t exact = e * sb * (16 * h + keys + hidden + gate) + 4 * a * sb + (2 + shifts) * 4 * sb;
    *terms = (struct activation_terms){L * (34 * sbh + 5 * scores), L * 34 * sbh, L * 2 * sbh, .kept = 0};
    add(terms, "no attention matrix", "-5 a s s b", -L * 5 * scores);
    add(terms, "but a log-sum-exp per row and head, fp32", "+4 a s b", L * 4 * a * sb);
    add(terms, "no dropout, so no masks", "-2 s b h", -L * 2 * sbh);
    add(terms, "statistics of two norms, fp32", shifts ? "+16 s b" : "+8 s b", L * (2 + shifts) * 4 * sb);
    add(terms, "keys and values of fewer heads", "", L * 2 * sb * keys);
    add(terms, "an MLP of another width than 4 h", "", L * 2 * sb * hidden);
    add(terms, "the gate of the MLP", "", L * 2 * sb * gate);
    add(terms, keys || hidden || gate ? "values in fp32, not in 16 bits" : "16 values in fp32, not in 16 bits",
        keys || hidden || gate ? "" : "+32 s b h", L * (e - 2) * sb * (16 * h + keys + hidden + gate));
    add(terms, "tensors start at multiples of 64 bytes", "", L * (attention + mlp + input - exact));
    if (!walk_keeps_saved(model, knobs, SAVED_ATTENTION)) add(terms, "attention half made again", "", -L * attention);
    if (!walk_keeps_saved(model, knobs, SAVED_MLP)) add(terms, "MLP half made again", "", -L * mlp);
    add(terms, "inputs inside segments made again", "", (inputs_kept(model, knobs) - L) * input);
    terms->kept = terms->stored;
    for (int t = 0; t < terms->count; t++) terms->kept += terms->difference[t].bytes;
}
