/* Forward, use by use. Biases and residuals are added inside the products, before their one rounding. */
#include "engine/gpt/gpt.h"
#include "engine/gpt/slots.h"
#include "kernels/kernels.h"

int gpt_embed_forward(const struct gpt *gpt, const struct gpt_tensors *embed, const int32_t *tokens, void *output,
                      struct error *err)
{
    (void)err;
    kernels_embed_forward(gpt->kernels, gpt->model->dtype, output, embed->at[TENSOR_WTE], embed->at[TENSOR_WPE], tokens,
                          (int64_t)gpt->B * gpt->T, gpt->T, gpt->model->shape.hidden);
    return STATUS_OK;
}

/* att = attention(ln1(input)) */
int gpt_attention_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input,
                          const struct gpt_saved *saved, void *scratch, struct error *err)
{
    struct kernels *kernels = gpt->kernels;
    const enum dtype dtype = gpt->model->dtype;
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden;
    const struct slots slots = slots_of(gpt, PART_ATTENTION, saved->part[PART_ATTENTION]);
    const struct attention_shape shape = {gpt->B, gpt->T, (int)C, gpt->model->shape.heads};
    kernels_norm_forward(kernels, dtype, slot(&slots, ATTENTION_LN1), slot(&slots, ATTENTION_LN1_MEAN),
                         slot(&slots, ATTENTION_LN1_RSTD), input, block->at[TENSOR_LN1_W], block->at[TENSOR_LN1_B], N,
                         C);
    int status = kernels_linear_forward(kernels, dtype, slot(&slots, ATTENTION_QKV), slot(&slots, ATTENTION_LN1),
                                        block->at[TENSOR_QKV_W], block->at[TENSOR_QKV_B], NULL, N, 3 * C, C, err);
    if (status) return status;
    kernels_attention_forward(kernels, dtype, slot(&slots, ATTENTION_ATT), slot(&slots, ATTENTION_LSE),
                              slot(&slots, ATTENTION_QKV), &shape, scratch);
    return STATUS_OK;
}

/* mid = input + proj(att) */
static int projection_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input,
                              const struct gpt_saved *saved, struct error *err)
{
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden;
    const struct slots attention = slots_of(gpt, PART_ATTENTION, saved->part[PART_ATTENTION]),
                       mlp = slots_of(gpt, PART_MLP, saved->part[PART_MLP]);
    return kernels_linear_forward(gpt->kernels, gpt->model->dtype, slot(&mlp, MLP_MID), slot(&attention, ATTENTION_ATT),
                                  block->at[TENSOR_ATTPROJ_W], block->at[TENSOR_ATTPROJ_B], input, N, C, C, err);
}

/* ln2(mid) */
static void second_norm_forward(const struct gpt *gpt, const struct gpt_tensors *block, const struct slots *mlp)
{
    kernels_norm_forward(gpt->kernels, gpt->model->dtype, slot(mlp, MLP_LN2), slot(mlp, MLP_LN2_MEAN),
                         slot(mlp, MLP_LN2_RSTD), slot(mlp, MLP_MID), block->at[TENSOR_LN2_W], block->at[TENSOR_LN2_B],
                         (int64_t)gpt->B * gpt->T, gpt->model->shape.hidden);
}

/* output = residual + proj(gelu(fc(ln2))), of an MLP or a tile of one; a tile without the bias adds to what others made. */
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

int gpt_block_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input,
                      const struct gpt_saved *saved, void *output, void *scratch, struct error *err)
{
    const struct slots mlp = slots_of(gpt, PART_MLP, saved->part[PART_MLP]);
    int status = gpt_attention_forward(gpt, block, input, saved, scratch, err);
    if (!status) status = projection_forward(gpt, block, input, saved, err);
    if (status) return status;
    second_norm_forward(gpt, block, &mlp);
    if (model_tiled(gpt->model)) return STATUS_OK;
    return mlp_forward(gpt, block, &mlp, slot(&mlp, MLP_FC), slot(&mlp, MLP_GELU), output, err);
}

int gpt_mlp_forward(const struct gpt *gpt, const struct gpt_tensors *tile, const struct gpt_saved *saved, void *output,
                    struct error *err)
{
    const struct slots mlp = slots_of(gpt, PART_MLP, saved->part[PART_MLP]),
                       hidden = slots_of(gpt, PART_HIDDEN, saved->part[PART_HIDDEN]);
    return mlp_forward(gpt, tile, &mlp, slot(&hidden, HIDDEN_FC), slot(&hidden, HIDDEN_GELU), output, err);
}

int gpt_norm_forward(const struct gpt *gpt, const struct gpt_tensors *norm, const void *input,
                     const struct gpt_saved *saved, void *output, struct error *err)
{
    (void)err;
    const struct slots slots = slots_of(gpt, PART_NORM, saved->part[PART_NORM]);
    kernels_norm_forward(gpt->kernels, gpt->model->dtype, output, slot(&slots, NORM_MEAN), slot(&slots, NORM_RSTD),
                         input, norm->at[TENSOR_LNF_W], norm->at[TENSOR_LNF_B], (int64_t)gpt->B * gpt->T,
                         gpt->model->shape.hidden);
    return STATUS_OK;
}

int gpt_head_forward(const struct gpt *gpt, const struct gpt_tensors *embed, const void *input, const int32_t *targets,
                     float loss_scale, const struct gpt_saved *saved, float *mean_loss, struct error *err)
{
    const struct slots slots = slots_of(gpt, PART_HEAD, saved->part[PART_HEAD]);
    const int64_t N = (int64_t)gpt->B * gpt->T, C = gpt->model->shape.hidden, V = gpt->model->shape.vocabulary,
                  row = logits_row(gpt->model);
    int status = kernels_logits_forward(gpt->kernels, gpt->model->dtype, slot(&slots, HEAD_LOGITS), input,
                                        embed->at[TENSOR_WTE], N, V, C, row, err);
    if (status || !targets) return status;
    float *losses = slot(&slots, HEAD_LOSS);
    kernels_loss(gpt->kernels, gpt->model->dtype, losses, slot(&slots, HEAD_LOGITS), targets, loss_scale / (float)N, N,
                 V, row);
    kernels_mean_to(gpt->kernels, mean_loss, losses, N);
    return STATUS_OK;
}
