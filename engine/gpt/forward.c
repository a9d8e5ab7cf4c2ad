/* Forward, use by use. Biases and residuals are added inside the products, before their one rounding. */
#include "engine/gpt/gpt.h"
#include "engine/gpt/slots.h"
#include "kernels/kernels.h"

int gpt_embed_forward(const struct gpt *gpt, const struct gpt_tensors *embed, const int32_t *tokens, void *activation,
                      struct error *err)
{
    (void)err;
    const struct slots slots = slots_of(gpt, USE_EMBED_FORWARD, activation);
    kernels_embed_forward(gpt->kernels, gpt->model->dtype, slot(&slots, EMBED_X), embed->at[TENSOR_WTE],
                          embed->at[TENSOR_WPE], tokens, (int64_t)gpt->B * gpt->T, gpt->T, gpt->model->shape.hidden);
    return STATUS_OK;
}

/* mid = input + proj(attention(ln1(input))) */
static int attention_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input,
                             const struct slots *slots, void *scratch, struct error *err)
{
    struct kernels *kernels = gpt->kernels;
    const enum dtype dtype = gpt->model->dtype;
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden;
    const struct attention_shape shape = {gpt->B, gpt->T, (int)C, gpt->model->shape.heads};
    kernels_norm_forward(kernels, dtype, slot(slots, BLOCK_LN1), slot(slots, BLOCK_LN1_MEAN),
                         slot(slots, BLOCK_LN1_RSTD), input, block->at[TENSOR_LN1_W], block->at[TENSOR_LN1_B], N, C);
    int status = kernels_linear_forward(kernels, dtype, slot(slots, BLOCK_QKV), slot(slots, BLOCK_LN1),
                                        block->at[TENSOR_QKV_W], block->at[TENSOR_QKV_B], NULL, N, 3 * C, C, err);
    if (status) return status;
    kernels_attention_forward(kernels, dtype, slot(slots, BLOCK_ATT), slot(slots, BLOCK_LSE), slot(slots, BLOCK_QKV),
                              &shape, scratch);
    return kernels_linear_forward(kernels, dtype, slot(slots, BLOCK_MID), slot(slots, BLOCK_ATT),
                                  block->at[TENSOR_ATTPROJ_W], block->at[TENSOR_ATTPROJ_B], input, N, C, C, err);
}

/* x = mid + proj(gelu(fc(ln2(mid)))) */
static int mlp_forward(const struct gpt *gpt, const struct gpt_tensors *block, const struct slots *slots,
                       struct error *err)
{
    struct kernels *kernels = gpt->kernels;
    const enum dtype dtype = gpt->model->dtype;
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden;
    kernels_norm_forward(kernels, dtype, slot(slots, BLOCK_LN2), slot(slots, BLOCK_LN2_MEAN),
                         slot(slots, BLOCK_LN2_RSTD), slot(slots, BLOCK_MID), block->at[TENSOR_LN2_W],
                         block->at[TENSOR_LN2_B], N, C);
    int status = kernels_linear_forward(kernels, dtype, slot(slots, BLOCK_FC), slot(slots, BLOCK_LN2),
                                        block->at[TENSOR_FC_W], block->at[TENSOR_FC_B], NULL, N, 4 * C, C, err);
    if (status) return status;
    kernels_gelu_forward(kernels, dtype, slot(slots, BLOCK_GELU), slot(slots, BLOCK_FC), N * 4 * C);
    return kernels_linear_forward(kernels, dtype, slot(slots, BLOCK_X), slot(slots, BLOCK_GELU),
                                  block->at[TENSOR_FCPROJ_W], block->at[TENSOR_FCPROJ_B], slot(slots, BLOCK_MID), N, C,
                                  4 * C, err);
}

int gpt_block_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input, void *activation,
                      void *scratch, struct error *err)
{
    const struct slots slots = slots_of(gpt, USE_BLOCK_FORWARD, activation);
    int status = attention_forward(gpt, block, input, &slots, scratch, err);
    return status ? status : mlp_forward(gpt, block, &slots, err);
}

int gpt_norm_forward(const struct gpt *gpt, const struct gpt_tensors *norm, const void *input, void *activation,
                     struct error *err)
{
    (void)err;
    const struct slots slots = slots_of(gpt, USE_NORM_FORWARD, activation);
    kernels_norm_forward(gpt->kernels, gpt->model->dtype, slot(&slots, NORM_X), slot(&slots, NORM_MEAN),
                         slot(&slots, NORM_RSTD), input, norm->at[TENSOR_LNF_W], norm->at[TENSOR_LNF_B],
                         (int64_t)gpt->B * gpt->T, gpt->model->shape.hidden);
    return STATUS_OK;
}

int gpt_head_forward(const struct gpt *gpt, const struct gpt_tensors *embed, const void *input, const int32_t *targets,
                     float loss_scale, void *activation, float *mean_loss, struct error *err)
{
    const struct slots slots = slots_of(gpt, USE_HEAD_FORWARD, activation);
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden, V = gpt->model->shape.vocabulary;
    int status = kernels_linear_forward(gpt->kernels, gpt->model->dtype, slot(&slots, HEAD_LOGITS), input,
                                        embed->at[TENSOR_WTE], NULL, NULL, N, V, C, err);
    if (status || !targets) return status;
    float *losses = slot(&slots, HEAD_LOSS);
    kernels_loss(gpt->kernels, gpt->model->dtype, losses, slot(&slots, HEAD_LOGITS), targets, loss_scale / (float)N, N,
                 V);
    double sum = 0;
    for (int64_t n = 0; n < N; n++) sum += losses[n];
    *mean_loss = (float)(sum / (double)N);
    return STATUS_OK;
}
