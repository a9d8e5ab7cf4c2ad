#include "engine/plan/activation_terms.h"

#include "engine/plan/gpt2.h"
#include "engine/plan/walk.h"

static void add(struct activation_terms *terms, const char *what, const char *formula, int64_t bytes)
{
    if (bytes) terms->difference[terms->count++] = (struct activation_term){what, formula, bytes};
}

static int64_t part_bytes(const struct model *model, enum activation_part part, int B, int T)
{
    struct activation_layout layout;
    architecture_gpt2.layout(&layout, model, (int)part, B, T);
    return layout.bytes;
}

/* Inputs of blocks that stay: outputs at places 0 to L - 1. */
static int64_t inputs_kept(const struct model *model, const struct config_zero *knobs)
{
    int64_t kept = 0;
    for (int place = 0; place < model->shape.layers; place++) kept += walk_keeps_output(model, knobs, place);
    return kept;
}

void activation_terms_of(struct activation_terms *terms, const struct model *model, const struct config_zero *knobs,
                         int B, int T)
{
    const int64_t L = model->shape.layers, a = model->shape.heads, e = dtype_bytes(model->dtype);
    const int64_t sb = (int64_t)T * B, sbh = sb * model->shape.hidden, scores = a * T * sb;
    const int64_t attention = part_bytes(model, PART_ATTENTION, B, T),
                  mlp = part_bytes(model, PART_MLP, B, T) + model->mlp_tiles * part_bytes(model, PART_HIDDEN, B, T),
                  input = activation_output_bytes(model, B, T);
    const int64_t exact = 16 * e * sbh + 4 * a * sb + 16 * sb;
    *terms = (struct activation_terms){L * (34 * sbh + 5 * scores), L * 34 * sbh, L * 2 * sbh, .kept = 0};
    add(terms, "no attention matrix", "-5 a s s b", -L * 5 * scores);
    add(terms, "but a log-sum-exp per row and head, fp32", "+4 a s b", L * 4 * a * sb);
    add(terms, "no dropout, so no masks", "-2 s b h", -L * 2 * sbh);
    add(terms, "statistics of two norms, fp32", "+16 s b", L * 16 * sb);
    add(terms, "16 values in fp32, not in 16 bits", "+32 s b h", L * 16 * (e - 2) * sbh);
    add(terms, "tensors start at multiples of 64 bytes", "", L * (attention + mlp + input - exact));
    if (!walk_keeps_part(model, knobs, PART_ATTENTION)) add(terms, "attention half made again", "", -L * attention);
    if (!walk_keeps_part(model, knobs, PART_MLP)) add(terms, "MLP half made again", "", -L * mlp);
    add(terms, "inputs inside segments made again", "", (inputs_kept(model, knobs) - L) * input);
    terms->kept = terms->stored;
    for (int t = 0; t < terms->count; t++) terms->kept += terms->difference[t].bytes;
}
