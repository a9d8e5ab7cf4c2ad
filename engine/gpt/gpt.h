/* GPT-2, forward and backward by hand, one function per use of a unit (Radford et al. 2019: pre-norm blocks, learned
 * positions, biases, GELU in tanh form, output tied to the token embedding). It knows nothing of ranks, stages or where
 * its memory came from: it is handed pointers. Tensors are in model->dtype unless said otherwise; N = B*T rows.
 *
 * One micro-step, in the order of the calls:
 *
 *     gpt_embed_forward   (embed, tokens)          -> x0
 *     gpt_block_forward   (block l, x)             -> x          l = 0 .. L-1
 *     gpt_norm_forward    (norm, x)                -> x
 *     gpt_head_forward    (embed, x, targets)      -> losses; logits become their own gradient
 *     gpt_head_backward   (embed)                  -> dresidual, part of embed's gradient
 *     gpt_norm_backward   (norm)                   -> dresidual in place, norm's gradient
 *     gpt_block_backward  (block l)                -> dresidual in place, block's gradient      l = L-1 .. 0
 *         where forward's buffers were given up meanwhile, gpt_block_forward fills new ones first, with the same bits
 *     gpt_embed_backward                           -> rest of embed's gradient
 *
 * Where MLPs are tiled (model.mlp_tiles), a block is the use of its attention half and of every tile of its MLP, one by one:
 *
 *     gpt_block_forward (block l, x), gpt_mlp_forward (mlp l.0) .. (mlp l.k-1)            -> x
 *     gpt_mlp_backward (mlp l.k-1) .. (mlp l.0)     -> dnormed; gpt_block_backward (block l) -> dresidual
 *
 * with the same numbers but for the roundings of the sums over tiles. Results are the same bits on every run at equal shapes, dtype, thread count and instruction set. */
#ifndef ENGINE_GPT_GPT_H
#define ENGINE_GPT_GPT_H

#include "engine/plan/activation.h"
#include "engine/plan/model.h"

struct kernels; /* kernels/kernels.h: threads, cached primitives; one per rank */

struct gpt {
    const struct model *model;
    struct kernels *kernels;
    int B, T;
};

/* Pointers to a unit's tensors (or to their gradients), by tensor_id; NULL: it has no such. */
struct gpt_tensors { void *at[TENSOR_IDS]; };

/* Fills `tensors` for a unit whose flat array lies at `flat` up to element `split`, and from there on at `tail` (where
 * small tensors are kept gathered apart; split = unit->elems: all in `flat`). */
void gpt_tensors_of(struct gpt_tensors *tensors, const struct unit *unit, enum dtype dtype, void *flat, int64_t split, void *tail);

/* What forward leaves for backward: one buffer per part (activation.h). A use touches the parts that are its own. */
struct gpt_saved { void *part[PART_KINDS]; };

/* Forward. `input` is the output of the use before. */
int gpt_embed_forward(const struct gpt *gpt, const struct gpt_tensors *embed, const int32_t *tokens, void *output, struct error *err);
/* output NULL: it is still there from the first time (recomputation), and the product that makes it is left out. Where
 * MLPs are tiled, output is NULL: the tiles make it. */
int gpt_block_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input, const struct gpt_saved *saved, void *output,
                      void *scratch, struct error *err);
/* One tile: reads PART_MLP of its block, fills PART_HIDDEN; the first tile overwrites output, the others add to it. output NULL: as
 * above. */
int gpt_mlp_forward(const struct gpt *gpt, const struct gpt_tensors *mlp, const struct gpt_saved *saved, void *output, struct error *err);
/* Fills PART_ATTENTION alone, as gpt_block_forward does. */
int gpt_attention_forward(const struct gpt *gpt, const struct gpt_tensors *block, const void *input, const struct gpt_saved *saved,
                          void *scratch, struct error *err);
int gpt_norm_forward(const struct gpt *gpt, const struct gpt_tensors *norm, const void *input, const struct gpt_saved *saved, void *output,
                     struct error *err);

/* Losses per row (fp32), and the gradient of `loss_scale` x their mean over rows, written over the logits. targets NULL:
 * the logits are left as they are (sampling). *mean_loss is the mean over the N rows, summed in double in row order. */
int gpt_head_forward(const struct gpt *gpt, const struct gpt_tensors *embed, const void *input, const int32_t *targets, float loss_scale,
                     const struct gpt_saved *saved, float *mean_loss, struct error *err);

/* Backward. `gradient` points to gradients of the unit in the model's dtype, overwritten, or added to where accumulate is
 * set (micro-steps after the first). dresidual [N, C] is the gradient of the residual stream, updated in place;
 * gpt_head_backward overwrites it. `input` is what the forward use got. */
int gpt_head_backward(const struct gpt *gpt, const struct gpt_tensors *embed, const struct gpt_tensors *gradient, bool accumulate,
                      const void *input, const struct gpt_saved *saved, void *dresidual, void *scratch, struct error *err);
int gpt_norm_backward(const struct gpt *gpt, const struct gpt_tensors *norm, const struct gpt_tensors *gradient, bool accumulate,
                      const void *input, const struct gpt_saved *saved, void *dresidual, void *scratch, struct error *err);
/* dnormed [N, C]: of the second norm's output, which the tiles of the MLP have made; NULL where it is not tiled. Overwritten. */
int gpt_block_backward(const struct gpt *gpt, const struct gpt_tensors *block, const struct gpt_tensors *gradient, bool accumulate,
                       const void *input, const struct gpt_saved *saved, void *dresidual, void *dnormed, void *scratch, struct error *err);
/* One tile: dresidual is only read; dnormed overwritten, or added to where `add` is set. */
int gpt_mlp_backward(const struct gpt *gpt, const struct gpt_tensors *mlp, const struct gpt_tensors *gradient, bool accumulate,
                     const struct gpt_saved *saved, const void *dresidual, void *dnormed, bool add, struct error *err);
/* Adds to wte what head_backward left there (so it never overwrites it), writes or adds wpe. */
int gpt_embed_backward(const struct gpt *gpt, const struct gpt_tensors *gradient, bool accumulate, const int32_t *tokens,
                       const void *dresidual, void *scratch, struct error *err);

/* Initial values of elements [first, first + count) of a unit's flat array (padding: 0), in fp32: a pure function of
 * (seed, tensor, index), so any rank can make any shard. */
void gpt_initial_values(const struct model *model, int unit, uint64_t seed, int64_t first, int64_t count, float *values);

#endif
