#include "engine/plan/gpt2.h"

#include "kernels/scratch.h"

static const struct tensor_row tensors[TENSOR_IDS] = {
#define TENSOR(ID, name, use, rows, columns, init, decay, cut) {name, USE_##use, INIT_##init, decay, CUT_##cut},
#include "engine/plan/tensors.def"
#undef TENSOR
};
_Static_assert((int)TENSOR_IDS <= UNIT_TENSORS_MAX && (int)SAVED_KINDS <= SAVED_MAX && (int)GPT2_SLOTS <= SAVED_SLOTS_MAX,
               "a model has room for its tensors, saved buffers and slots");

static void tensor_shape(int tensor, const struct config_model *shape, int64_t *rows_out, int64_t *columns_out)
{
    const struct model_traits *has = &model_traits[shape->kind];
    const int64_t C = shape->hidden, V = shape->vocabulary, F = config_ffn(shape), G = has->gated ? F : 0,
                  X = has->positions ? (int64_t)shape->context + has->more_positions : 0, Q = C + 2 * config_key_width(shape),
                  A = has->biases || has->qkv_biases, D = has->biases, S = !has->rms_norm, E = has->embedding_norm,
                  U = shape->untied ? V : 0;
    const int64_t shapes[TENSOR_IDS][2] = {
#define TENSOR(ID, name, use, rows, columns, init, decay, cut) {rows, columns},
#include "engine/plan/tensors.def"
#undef TENSOR
    };
    *rows_out = shapes[tensor][0];
    *columns_out = shapes[tensor][1];
}

/* ---- uses and what they save ---- */

static const struct op_words ops[USES][USE_KINDS] = {
#define USED(use, kind, code, name, help) [USE_##use][OP_##kind] = {code, name, help},
#include "engine/plan/gpt2_ops.def"
#undef USED
};

enum { ATTENTION_BIT = 1 << SAVED_ATTENTION, BLOCK_BITS = ATTENTION_BIT | 1 << SAVED_MLP };

const struct use gpt2_uses[USES] = {
    {USE_EMBED, REPEAT_ONCE, "embed", true, 0, ops[USE_EMBED]},
    {USE_EMBNORM, REPEAT_ONCE, "embnorm", true, 1 << SAVED_NORM, ops[USE_EMBNORM]},
    {USE_BLOCK, REPEAT_BLOCK, "block", true, BLOCK_BITS, ops[USE_BLOCK]},
    {USE_MLP, REPEAT_TILE, "mlp", true, 1 << SAVED_HIDDEN, ops[USE_MLP]},
    {USE_NORM, REPEAT_ONCE, "norm", true, 1 << SAVED_NORM, ops[USE_NORM]},
    {USE_HEAD, REPEAT_TIED, "head", false, 1 << SAVED_HEAD, ops[USE_HEAD]},
    {USE_ATTENTION, REPEAT_HALF, NULL, false, ATTENTION_BIT, ops[USE_ATTENTION]},
};

enum { WITH_FULL = 1 << RECOMPUTE_FULL, WITH_BOTH = WITH_FULL | 1 << RECOMPUTE_ATTENTION };

static const struct saved_row saved_rows[SAVED_KINDS] = {
    [SAVED_ATTENTION] = {"attention activations", "attention activations", WITH_BOTH},
    [SAVED_MLP] = {"mlp activations", "mlp input", WITH_FULL},
    [SAVED_NORM] = {"norm activations", "norm activations", 0},
    [SAVED_HEAD] = {"logits", "logits", 0},
    [SAVED_HIDDEN] = {"hidden activations", "hidden activations", WITH_FULL},
};

int64_t logits_row(const struct model *model)
{
    enum { LINE_ELEMS = 128 }; /* 256 bytes in 16 bits */
    const int64_t V = model->shape.vocabulary;
    return model->backend == BACKEND_CUDA ? (V + LINE_ELEMS - 1) / LINE_ELEMS * LINE_ELEMS : V;
}

int64_t activation_hidden(const struct model *model)
{
    return config_ffn(&model->shape) / model->mlp_tiles;
}

static int64_t gate_width(const struct model *model)
{
    return model_traits[model->shape.kind].gated ? activation_hidden(model) : 0;
}

static void saved_layout(struct activation_layout *layout, const struct model *model, int saved, int B, int T)
{
    const int64_t N = (int64_t)B * T, C = model->shape.hidden, R = logits_row(model), NH = model->shape.heads;
    const int64_t M = model_traits[model->shape.kind].rms_norm ? 0 : N, Q = C + 2 * config_key_width(&model->shape);
    const int64_t width = activation_hidden(model), gate = gate_width(model), H = model_tiled(model) ? 0 : width,
                  F = width - H, HG = model_tiled(model) ? 0 : gate, FG = gate - HG;
    const struct {
        enum saved_buffer saved;
        int64_t elems;
        bool fp32;
    } slots[GPT2_SLOTS] = {
#define SLOT(saved, ID, elems, fp32) {SAVED_##saved, elems, fp32},
#include "engine/plan/gpt2_slots.def"
#undef SLOT
    };
    *layout = (struct activation_layout){0};
    for (int slot = 0; slot < GPT2_SLOTS; slot++) {
        if ((int)slots[slot].saved != saved) continue;
        layout->offset[slot] = layout->bytes;
        layout->bytes += activation_aligned(slots[slot].elems * (slots[slot].fp32 ? 4 : dtype_bytes(model->dtype)));
    }
}

/* ---- scratch: only what the kernels work in, since backward writes activation gradients over activations it has used ---- */

int64_t scratch_qkv_bytes(const struct model *model, int B, int T)
{
    const int64_t elems = (int64_t)B * T * (model->shape.hidden + 2 * config_key_width(&model->shape));
    return model_tiled(model) ? activation_aligned(elems * dtype_bytes(model->dtype)) : 0;
}

static int64_t attention_scratch(const struct model *model, enum op_kind kind, int B, int T, int threads)
{
    const int64_t head_size = model->shape.hidden / model->shape.heads;
    const bool cuda = model->backend == BACKEND_CUDA; /* its kernels share the scratch of the whole call */
    if (kind != OP_BACKWARD) return cuda ? 0 : threads * attention_forward_scratch_bytes(head_size);
    return scratch_qkv_bytes(model, B, T) +
           (cuda ? activation_aligned(attention_backward_scratch_cuda_bytes(B, T, model->shape.heads))
                 : threads * attention_backward_scratch_bytes(T, head_size));
}

static int64_t scratch_bytes(const struct model *model, enum op_kind kind, const struct use *use, int B, int T,
                             int threads)
{
    const int64_t N = (int64_t)B * T;
    if (use->number == USE_BLOCK || use->number == USE_ATTENTION)
        return attention_scratch(model, kind, B, T, threads);
    if (use->number != USE_EMBED || kind != OP_BACKWARD) return 0;
    return activation_aligned(model->backend == BACKEND_CUDA ? embed_scratch_cuda_bytes(N) : embed_scratch_bytes(N));
}

/* ---- floating-point operations ---- */

/* y [N, out] = x [N, in] w^T */
static double product(double N, double out, double in)
{
    return 2 * N * out * in;
}

/* Two products forward, five backward: scores, dv, dp, dq, dk. Row t of T meets t + 1 keys. */
static double attention_flops(const struct model *model, enum op_kind kind, const struct use *use, int B, int T)
{
    if (use->number != USE_BLOCK && use->number != USE_ATTENTION) return 0;
    return (kind == OP_BACKWARD ? 5 : 2) * ((double)B * T * (T + 1.0) * model->shape.hidden);
}

static double flops(const struct model *model, enum op_kind kind, const struct use *use, int B, int T, bool output)
{
    const double N = (double)B * T, C = model->shape.hidden, F = (double)activation_hidden(model),
                 attention = attention_flops(model, kind, use, B, T),
                 qkv = product(N, C + 2 * (double)config_key_width(&model->shape), C), last = product(N, C, F),
                 mlp = product(N, F + (double)gate_width(model), C) + last,
                 block = qkv + product(N, C, C) + (model_tiled(model) ? 0 : mlp), head = product(N, model->shape.vocabulary, C),
                 unmade = kind == OP_RECOMPUTE && !output ? last : 0;
    switch ((enum gpt2_use)use->number) {
    case USE_BLOCK: return (kind == OP_BACKWARD ? 2 * block : block - (model_tiled(model) ? 0 : unmade)) + attention;
    case USE_MLP: return kind == OP_BACKWARD ? 2 * mlp : mlp - unmade;
    case USE_ATTENTION: return qkv + attention;
    case USE_HEAD: return kind == OP_BACKWARD ? 2 * head : head;
    default: return 0;
    }
}

const struct architecture architecture_gpt2 = {"GPT-2",   tensors,    TENSOR_IDS, tensor_shape, gpt2_uses,     USES,
                                  saved_rows, SAVED_KINDS, SAVED_MLP,  saved_layout,  scratch_bytes, flops, attention_flops};
