/* Backward, use by use. A gradient overwrites an activation as soon as nothing needs it any more, so backward takes no memory
 * of its own except scratch: of the attention and embedding kernels, and of tiled blocks. In a block, in this order:
 *
 *     slot   holds       until                      then
 *     GELU   gelu out    gradient of mlp.proj.w     gradient of fc out; gradient of attention out
 *     FC     fc out      gelu backward              gradient of qkv
 *     LN2    ln2 out     gradient of mlp.fc.w       gradient of ln2 out
 *     LN1    ln1 out     gradient of attn.qkv.w     gradient of ln1 out
 *
 * In a tiled MLP each tile has its own GELU and FC, which are given back before the block's backward. So the gradient of ln2 out
 * has its own buffer (`normed`), because every tile needs ln2 out. The gradient of attention out then overwrites `normed`, and
 * the gradient of qkv lies in the scratch. */
#include "engine/gpt/gpt.h"
#include "kernels/kernels.h"

struct linear {
    enum tensor_id weight, bias;
    int64_t out, in;
    bool bias_done; /* the norm's backward that made dy has computed it */
};

/* For y = x w^T + b: gradients of w and b. */
static int linear_weights(const struct gpt_pass *p, const struct linear *linear, const void *dy, const void *x,
                          struct error *err)
{
    if (p->gradient->at[linear->bias] && !linear->bias_done) /* only the first tile has proj's bias */
        kernels_linear_backward_bias(p->kernels, p->dtype, p->gradient->at[linear->bias], p->accumulate, dy, p->N,
                                     linear->out);
    return kernels_linear_backward_weight(p->kernels, p->dtype, p->gradient->at[linear->weight], p->accumulate, dy, x,
                                          p->N, linear->out, linear->in, linear->out, err);
}

/* The same, then the gradient of x, which may overwrite x. */
static int linear_backward(const struct gpt_pass *p, const struct linear *linear, void *dx, const void *dy,
                           const void *x, struct error *err)
{
    int status = linear_weights(p, linear, dy, x, err);
    if (status) return status;
    return kernels_linear_backward_input(p->kernels, p->dtype, dx, false, dy, p->weights->at[linear->weight], p->N,
                                         linear->out, linear->in, linear->out, err);
}

/* Writes, or adds, the gradient of the norm's input x to dresidual; dsum: gradient of the bias in x, or NULL. */
static void norm_backward(const struct gpt_pass *p, enum tensor_id weight, enum tensor_id bias, void *dsum,
                          const void *dy, const void *x, const float *mean, const float *rstd, void *dresidual,
                          bool add)
{
    kernels_norm_backward_both(p->kernels, p->dtype, dresidual, add, p->gradient->at[weight], p->gradient->at[bias],
                               dsum, p->accumulate, dy, x, mean, rstd, p->weights->at[weight], p->N, p->C);
}

/* Backward of an MLP or a tile: the gradient of its input, ln2 out, overwrites dnormed (which may be ln2) or is added to it. gelu
 * becomes the gradient of fc out. */
static int mlp_backward(const struct gpt_pass *p, const void *dresidual, void *gelu, const void *hidden, void *dnormed,
                        bool add, struct error *err)
{
    const int64_t F = p->F;
    const struct linear fc = {TENSOR_FC_W, TENSOR_FC_B, F, p->C, false},
                        proj = {TENSOR_FCPROJ_W, TENSOR_FCPROJ_B, p->C, F, false};
    int status = linear_weights(p, &proj, dresidual, gelu, err);
    if (!status)
        status = kernels_linear_gelu_backward(p->kernels, p->dtype, gelu, dresidual, p->weights->at[TENSOR_FCPROJ_W],
                                              hidden, p->N, p->C, F, err);
    if (!status) status = linear_weights(p, &fc, gelu, saved_at(p, SAVED_MLP, MLP_LN2), err);
    if (status) return status;
    return kernels_linear_backward_input(p->kernels, p->dtype, dnormed, add, gelu, p->weights->at[TENSOR_FC_W], p->N, F,
                                         p->C, F, err);
}

static int attention_backward(const struct gpt_pass *p, const struct attention_shape *shape, const void *input,
                              void *dresidual, void *datt, void *dqkv, void *scratch, struct error *err)
{
    const struct linear qkv = {TENSOR_QKV_W, TENSOR_QKV_B, 3 * p->C, p->C, false},
                        proj = {TENSOR_ATTPROJ_W, TENSOR_ATTPROJ_B, p->C, p->C, true};
    void *att = saved_at(p, SAVED_ATTENTION, ATTENTION_ATT), *ln1 = saved_at(p, SAVED_ATTENTION, ATTENTION_LN1);
    int status = linear_backward(p, &proj, datt, dresidual, att, err);
    if (status) return status;
    kernels_attention_backward(p->kernels, p->dtype, dqkv, datt, att, saved_at(p, SAVED_ATTENTION, ATTENTION_LSE),
                               saved_at(p, SAVED_ATTENTION, ATTENTION_QKV), shape, scratch);
    status = linear_backward(p, &qkv, ln1, dqkv, ln1, err);
    if (status) return status;
    norm_backward(p, TENSOR_LN1_W, TENSOR_LN1_B, NULL, ln1, input, saved_at(p, SAVED_ATTENTION, ATTENTION_LN1_MEAN),
                  saved_at(p, SAVED_ATTENTION, ATTENTION_LN1_RSTD), dresidual, true);
    return STATUS_OK;
}

static int block_backward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    const struct attention_shape shape = {p->gpt->B, p->gpt->T, (int)p->C, p->gpt->model->shape.heads};
    const bool tiled = model_tiled(p->gpt->model);
    char *work = c->scratch;
    void *dnorm = tiled ? c->normed : saved_at(p, SAVED_MLP, MLP_LN2);
    int status = tiled ? STATUS_OK
                       : mlp_backward(p, c->residual, saved_at(p, SAVED_MLP, MLP_GELU), saved_at(p, SAVED_MLP, MLP_FC),
                                      dnorm, false, err);
    if (status) return status;
    norm_backward(p, TENSOR_LN2_W, TENSOR_LN2_B, c->gradient.at[TENSOR_ATTPROJ_B], dnorm,
                  saved_at(p, SAVED_MLP, MLP_MID), saved_at(p, SAVED_MLP, MLP_LN2_MEAN),
                  saved_at(p, SAVED_MLP, MLP_LN2_RSTD), c->residual, true);
    void *datt = tiled ? c->normed : saved_at(p, SAVED_MLP, MLP_GELU),
         *dqkv = tiled ? work : saved_at(p, SAVED_MLP, MLP_FC);
    return attention_backward(p, &shape, c->input, c->residual, datt, dqkv,
                              work + scratch_qkv_bytes(p->gpt->model, p->gpt->B, p->gpt->T), err);
}

static int tile_backward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    return mlp_backward(p, c->residual, saved_at(p, SAVED_HIDDEN, HIDDEN_GELU), saved_at(p, SAVED_HIDDEN, HIDDEN_FC),
                        c->normed, c->add, err);
}

static int final_norm_backward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    (void)err;
    norm_backward(p, TENSOR_LNF_W, TENSOR_LNF_B, NULL, c->residual, c->input, saved_at(p, SAVED_NORM, NORM_MEAN),
                  saved_at(p, SAVED_NORM, NORM_RSTD), c->residual, false);
    return STATUS_OK;
}

static int head_backward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    const int64_t V = p->gpt->model->shape.vocabulary, row = logits_row(p->gpt->model);
    const void *dlogits = saved_at(p, SAVED_HEAD, HEAD_LOGITS);
    int status = kernels_linear_backward_weight(p->kernels, p->dtype, c->gradient.at[TENSOR_WTE], c->accumulate,
                                                dlogits, c->input, p->N, V, p->C, row, err);
    if (status) return status;
    return kernels_linear_backward_input(p->kernels, p->dtype, c->residual, false, dlogits, c->parameters.at[TENSOR_WTE],
                                         p->N, V, p->C, row, err);
}

static int embed_backward(const struct gpt_pass *p, const struct gpt_call *c, struct error *err)
{
    (void)err;
    kernels_embed_backward_tokens(p->kernels, p->dtype, c->gradient.at[TENSOR_WTE], c->residual, c->tokens, p->N, p->C,
                                  c->scratch);
    kernels_embed_backward_positions(p->kernels, p->dtype, c->gradient.at[TENSOR_WPE], c->accumulate, c->residual,
                                     p->gpt->model->shape.context, p->N, p->gpt->T, p->C);
    return STATUS_OK;
}

gpt_use *const gpt_backward[USES] = {
    [USE_EMBED] = embed_backward,     [USE_BLOCK] = block_backward, [USE_MLP] = tile_backward,
    [USE_NORM] = final_norm_backward, [USE_HEAD] = head_backward,
};
