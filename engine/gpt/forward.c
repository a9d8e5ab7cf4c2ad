/* Forward, use by use. The matrix products add biases and residuals before they round, so there is one rounding. */
#include "engine/gpt/gpt.h"
#include "kernels/kernels.h"

static int embed_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    (void)err;
    kernels_embed_forward(gpt->kernels, gpt->model->dtype, c->output, c->parameters.at[TENSOR_WTE],
                          c->parameters.at[TENSOR_WPE], c->tokens, (int64_t)gpt->B * gpt->T, gpt->T,
                          gpt->model->shape.hidden);
    return STATUS_OK;
}

/* att = attention(ln1(input)) */
static int attention_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    struct kernels *kernels = gpt->kernels;
    const enum dtype dtype = gpt->model->dtype;
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden;
    const struct slots slots = slots_of(gpt, SAVED_ATTENTION, c->saved.buffer[SAVED_ATTENTION]);
    const struct attention_shape shape = {gpt->B, gpt->T, (int)C, gpt->model->shape.heads};
    kernels_norm_forward(kernels, dtype, slot(&slots, ATTENTION_LN1), slot(&slots, ATTENTION_LN1_MEAN),
                         slot(&slots, ATTENTION_LN1_RSTD), c->input, c->parameters.at[TENSOR_LN1_W],
                         c->parameters.at[TENSOR_LN1_B], N, C);
    int status =
        kernels_linear_forward(kernels, dtype, slot(&slots, ATTENTION_QKV), slot(&slots, ATTENTION_LN1),
                               c->parameters.at[TENSOR_QKV_W], c->parameters.at[TENSOR_QKV_B], NULL, N, 3 * C, C, err);
    if (status) return status;
    kernels_attention_forward(kernels, dtype, slot(&slots, ATTENTION_ATT), slot(&slots, ATTENTION_LSE),
                              slot(&slots, ATTENTION_QKV), &shape, c->scratch);
    return STATUS_OK;
}

/* mid = input + proj(att) */
static int projection_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden;
    const struct slots attention = slots_of(gpt, SAVED_ATTENTION, c->saved.buffer[SAVED_ATTENTION]),
                       mlp = slots_of(gpt, SAVED_MLP, c->saved.buffer[SAVED_MLP]);
    return kernels_linear_forward(gpt->kernels, gpt->model->dtype, slot(&mlp, MLP_MID), slot(&attention, ATTENTION_ATT),
                                  c->parameters.at[TENSOR_ATTPROJ_W], c->parameters.at[TENSOR_ATTPROJ_B], c->input, N,
                                  C, C, err);
}

/* ln2(mid) */
static void second_norm_forward(const struct gpt *gpt, const struct gpt_tensors *block, const struct slots *mlp)
{
    kernels_norm_forward(gpt->kernels, gpt->model->dtype, slot(mlp, MLP_LN2), slot(mlp, MLP_LN2_MEAN),
                         slot(mlp, MLP_LN2_RSTD), slot(mlp, MLP_MID), block->at[TENSOR_LN2_W], block->at[TENSOR_LN2_B],
                         (int64_t)gpt->B * gpt->T, gpt->model->shape.hidden);
}

/* output = residual + proj(gelu(fc(ln2))), of an MLP or its first tile. The other tiles have no bias and add to the output. */
static int mlp_forward(const struct gpt *gpt, const struct gpt_tensors *weights, const struct slots *mlp, void *fc,
                       void *gelu, void *output, struct error *err)
{
    const enum dtype dtype = gpt->model->dtype;
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden, F = activation_hidden(gpt->model);
    const void *bias = weights->at[TENSOR_FCPROJ_B];
    int status = kernels_linear_gelu_forward(gpt->kernels, dtype, gelu, fc, slot(mlp, MLP_LN2),
                                             weights->at[TENSOR_FC_W], weights->at[TENSOR_FC_B], N, F, C, err);
    if (status || !output) return status;
    return kernels_linear_forward(gpt->kernels, dtype, output, gelu, weights->at[TENSOR_FCPROJ_W], bias,
                                  bias ? slot(mlp, MLP_MID) : output, N, C, F, err);
}

static int block_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    const struct slots mlp = slots_of(gpt, SAVED_MLP, c->saved.buffer[SAVED_MLP]);
    int status = attention_forward(gpt, c, err);
    if (!status) status = projection_forward(gpt, c, err);
    if (status) return status;
    second_norm_forward(gpt, &c->parameters, &mlp);
    if (model_tiled(gpt->model)) return STATUS_OK;
    return mlp_forward(gpt, &c->parameters, &mlp, slot(&mlp, MLP_FC), slot(&mlp, MLP_GELU), c->output, err);
}

static int tile_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    const struct slots mlp = slots_of(gpt, SAVED_MLP, c->saved.buffer[SAVED_MLP]),
                       hidden = slots_of(gpt, SAVED_HIDDEN, c->saved.buffer[SAVED_HIDDEN]);
    return mlp_forward(gpt, &c->parameters, &mlp, slot(&hidden, HIDDEN_FC), slot(&hidden, HIDDEN_GELU), c->output, err);
}

static int norm_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    (void)err;
    const struct slots slots = slots_of(gpt, SAVED_NORM, c->saved.buffer[SAVED_NORM]);
    kernels_norm_forward(gpt->kernels, gpt->model->dtype, c->output, slot(&slots, NORM_MEAN), slot(&slots, NORM_RSTD),
                         c->input, c->parameters.at[TENSOR_LNF_W], c->parameters.at[TENSOR_LNF_B],
                         (int64_t)gpt->B * gpt->T, gpt->model->shape.hidden);
    return STATUS_OK;
}

static int head_forward(const struct gpt *gpt, const struct gpt_call *c, struct error *err)
{
    const struct slots slots = slots_of(gpt, SAVED_HEAD, c->saved.buffer[SAVED_HEAD]);
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden, V = gpt->model->shape.vocabulary,
                  row = logits_row(gpt->model);
    int status = kernels_logits_forward(gpt->kernels, gpt->model->dtype, slot(&slots, HEAD_LOGITS), c->input,
                                        c->parameters.at[TENSOR_WTE], N, V, C, row, err);
    if (status || !c->targets) return status;
    float *losses = slot(&slots, HEAD_LOSS);
    kernels_loss(gpt->kernels, gpt->model->dtype, losses, slot(&slots, HEAD_LOGITS), c->targets,
                 c->loss_scale / (float)N, N, V, row);
    kernels_mean_to(gpt->kernels, c->mean_loss, losses, N);
    return STATUS_OK;
}

gpt_use *const gpt_forward[USES] = {
    [USE_EMBED] = embed_forward, [USE_BLOCK] = block_forward, [USE_MLP] = tile_forward,
    [USE_NORM] = norm_forward,   [USE_HEAD] = head_forward,   [USE_ATTENTION] = attention_forward,
};
