/* Forward, use by use. The matrix products add biases and residuals before they round, so there is one rounding. */
#include "engine/gpt/gpt.h"
#include "kernels/kernels.h"

static int embed_forward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    (void)err;
    kernels_embed_forward(p->kernels, p->dtype, c->output, p->weights->at[TENSOR_WTE], p->weights->at[TENSOR_WPE],
                          c->tokens, p->N, p->gpt->T, p->C);
    return STATUS_OK;
}

/* att = attention(ln1(input)) */
static int attention_forward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    const struct attention_shape shape = {p->gpt->B, p->gpt->T, (int)p->C, p->gpt->model->shape.heads};
    void *ln1 = saved_at(p, SAVED_ATTENTION, ATTENTION_LN1), *qkv = saved_at(p, SAVED_ATTENTION, ATTENTION_QKV);
    kernels_norm_forward(p->kernels, p->dtype, ln1, saved_at(p, SAVED_ATTENTION, ATTENTION_LN1_MEAN),
                         saved_at(p, SAVED_ATTENTION, ATTENTION_LN1_RSTD), c->input, p->weights->at[TENSOR_LN1_W],
                         p->weights->at[TENSOR_LN1_B], p->N, p->C);
    int status = kernels_linear_forward(p->kernels, p->dtype, qkv, ln1, p->weights->at[TENSOR_QKV_W],
                                        p->weights->at[TENSOR_QKV_B], NULL, p->N, 3 * p->C, p->C, 3 * p->C, err);
    if (status) return status;
    kernels_attention_forward(p->kernels, p->dtype, saved_at(p, SAVED_ATTENTION, ATTENTION_ATT),
                              saved_at(p, SAVED_ATTENTION, ATTENTION_LSE), qkv, &shape, c->scratch);
    return STATUS_OK;
}

/* mid = input + proj(att), ln2(mid) */
static int projection_forward(const struct gpt_pass *p, const void *input, struct error *err)
{
    void *mid = saved_at(p, SAVED_MLP, MLP_MID);
    int status = kernels_linear_forward(p->kernels, p->dtype, mid, saved_at(p, SAVED_ATTENTION, ATTENTION_ATT),
                                        p->weights->at[TENSOR_ATTPROJ_W], p->weights->at[TENSOR_ATTPROJ_B], input, p->N,
                                        p->C, p->C, p->C, err);
    if (status) return status;
    kernels_norm_forward(p->kernels, p->dtype, saved_at(p, SAVED_MLP, MLP_LN2), saved_at(p, SAVED_MLP, MLP_LN2_MEAN),
                         saved_at(p, SAVED_MLP, MLP_LN2_RSTD), mid, p->weights->at[TENSOR_LN2_W],
                         p->weights->at[TENSOR_LN2_B], p->N, p->C);
    return STATUS_OK;
}

/* output = residual + proj(gelu(fc(ln2))), of an MLP or its first tile. The other tiles have no bias and add to the output. */
static int mlp_forward(const struct gpt_pass *p, void *fc, void *gelu, void *output, struct error *err)
{
    const void *bias = p->weights->at[TENSOR_FCPROJ_B];
    int status =
        kernels_linear_gelu_forward(p->kernels, p->dtype, gelu, fc, saved_at(p, SAVED_MLP, MLP_LN2),
                                    p->weights->at[TENSOR_FC_W], p->weights->at[TENSOR_FC_B], p->N, p->F, p->C, err);
    if (status || !output) return status;
    return kernels_linear_forward(p->kernels, p->dtype, output, gelu, p->weights->at[TENSOR_FCPROJ_W], bias,
                                  bias ? saved_at(p, SAVED_MLP, MLP_MID) : output, p->N, p->C, p->F, p->C, err);
}

static int block_forward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    int status = attention_forward(p, c, err);
    if (!status) status = projection_forward(p, c->input, err);
    if (status || model_tiled(p->gpt->model)) return status;
    return mlp_forward(p, saved_at(p, SAVED_MLP, MLP_FC), saved_at(p, SAVED_MLP, MLP_GELU), c->output, err);
}

static int tile_forward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    return mlp_forward(p, saved_at(p, SAVED_HIDDEN, HIDDEN_FC), saved_at(p, SAVED_HIDDEN, HIDDEN_GELU), c->output, err);
}

static int norm_forward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    (void)err;
    kernels_norm_forward(p->kernels, p->dtype, c->output, saved_at(p, SAVED_NORM, NORM_MEAN),
                         saved_at(p, SAVED_NORM, NORM_RSTD), c->input, p->weights->at[TENSOR_LNF_W],
                         p->weights->at[TENSOR_LNF_B], p->N, p->C);
    return STATUS_OK;
}

static int head_forward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    const int64_t V = p->gpt->model->shape.vocabulary, row = logits_row(p->gpt->model);
    void *logits = saved_at(p, SAVED_HEAD, HEAD_LOGITS);
    int status = kernels_linear_forward(p->kernels, p->dtype, logits, c->input, p->weights->at[TENSOR_WTE], NULL, NULL,
                                        p->N, V, p->C, row, err);
    if (status || !c->targets) return status;
    float *losses = saved_at(p, SAVED_HEAD, HEAD_LOSS);
    kernels_loss(p->kernels, p->dtype, losses, logits, c->targets, c->loss_scale / (float)p->N, p->N, V, row);
    kernels_mean_to(p->kernels, c->mean_loss, losses, p->N);
    return STATUS_OK;
}

gpt_use *const gpt_forward[USES] = {
    [USE_EMBED] = embed_forward, [USE_BLOCK] = block_forward, [USE_MLP] = tile_forward,
    [USE_NORM] = norm_forward,   [USE_HEAD] = head_forward,   [USE_ATTENTION] = attention_forward,
};
