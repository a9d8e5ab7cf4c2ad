/* GPT-2, forward and backward by hand, one function per use of a unit (Radford et al. 2019: pre-norm blocks, learned
 * positions, biases, GELU in tanh form, output tied to the token embedding). It takes pointers and knows nothing of ranks,
 * stages or memory tiers. Tensors are in model->dtype unless said otherwise; N = B*T rows.
 *
 * One micro-step, in the order of the calls (USE_ in gpt2.h):
 *
 *     EMBED forward   (embed, tokens)          -> x0
 *     BLOCK forward   (block l, x)             -> x          l = 0 .. L-1
 *     NORM forward    (norm, x)                -> x
 *     HEAD forward    (embed, x, targets)      -> losses; logits become their own gradient
 *     HEAD backward   (embed)                  -> residual, part of embed's gradient
 *     NORM backward   (norm)                   -> residual in place, norm's gradient
 *     BLOCK backward  (block l)                -> residual in place, block's gradient      l = L-1 .. 0
 *         with recomputation, BLOCK forward or ATTENTION forward first fills new buffers of saved activations
 *     EMBED backward                           -> rest of embed's gradient
 *
 * With tiled MLPs (model.mlp_tiles), a block is one use for its attention half and one use for each tile of its MLP:
 *
 *     BLOCK forward (block l, x), MLP forward (mlp l.0) .. (mlp l.k-1)            -> x
 *     MLP backward (mlp l.k-1) .. (mlp l.0)     -> normed; BLOCK backward (block l) -> residual
 *
 * Only the rounding of sums over tiles differs then. Every run gives the same bits at equal shapes, dtype, thread count and
 * instruction set. */
#pragma once

#include "engine/plan/gpt2.h"

struct kernels; /* kernels/kernels.h: threads, cached primitives; a rank has one, or two: for the device and for host memory */

struct gpt {
    const struct model *model;
    struct kernels *kernels;
    int B, T;
};

/* Pointers to a unit's tensors (or to their gradients), by tensor_id; NULL: the unit has no such tensor. */
struct gpt_tensors { void *at[TENSOR_IDS]; };

/* Fills `tensors` for a unit: elements before `split` lie at `flat`, the others at `tail` (small tensors that stay gathered;
 * split = unit->elems: all elements lie at `flat`). */
void gpt_tensors_of(struct gpt_tensors *tensors, const struct unit *unit, enum dtype dtype, void *flat, int64_t split, void *tail);

/* Activations that forward saves for backward: the buffers of gpt2.h. Each use fills its own buffers. */
struct gpt_saved { void *buffer[SAVED_KINDS]; };

/* One use of a unit and the pointers that it needs; the others are NULL. The caller owns all buffers.
 *
 * Forward fills the use's own buffers, and recomputation fills them again with the same bits. Backward writes the unit's gradients in
 * the model's dtype, or adds them if accumulate is set (micro-steps after the first). EMBED backward always adds to the gradient
 * of wte, which HEAD backward has written. */
struct gpt_call {
    enum op_kind kind;
    const struct use *use;
    struct gpt_tensors parameters, gradient;
    bool accumulate;
    const int32_t *tokens;    /* [N], input of EMBED */
    const int32_t *targets;   /* [N], of HEAD; NULL: logits stay logits, and there is no loss (sampling) */
    float loss_scale;         /* HEAD forward turns the logits into the gradient of loss_scale * mean loss */
    float *mean_loss;         /* out: mean over the N rows, summed in double in row order */
    const void *input;        /* [N, C]: the output of the use before */
    struct gpt_saved saved;
    void *output;             /* [N, C]; the first tile overwrites it, others add to it. NULL: it is not computed, because it still
                                 exists (recomputation) or the tiles make it */
    void *residual;           /* [N, C]: gradient of the residual stream, updated in place; the head overwrites it, tiles read it */
    void *normed;             /* [N, C]: gradient of the second norm's output, made by tiles; NULL where MLPs are not tiled */
    bool add;                 /* a tile adds to `normed`; false: it overwrites it */
    void *scratch;            /* architecture.scratch_bytes() of this use; NULL: it needs none */
};

int gpt_run(const struct gpt *gpt, const struct gpt_call *call, struct error *err);

/* The logits in HEAD's buffer for the token after token `position` of the first sequence: [vocabulary], in the model's dtype. */
const void *gpt_logits(const struct gpt *gpt, const struct gpt_saved *head, int position);

/* Initial values of elements [first, first + count) of a unit's flat array (padding: 0), in fp32: a pure function of
 * (seed, tensor, index), so any rank can make any shard. */
void gpt_initial_values(const struct model *model, int unit, uint64_t seed, int64_t first, int64_t count, float *values);

/* What every function of a use needs, made by gpt_run(). */
struct gpt_pass {
    const struct gpt *gpt;
    struct kernels *kernels;
    enum dtype dtype;
    const struct gpt_tensors *weights, *gradient;
    bool accumulate;
    int64_t N, C, F; /* F: hidden width of the MLP, or of a tile */
    struct { char *base; struct activation_layout layout; } saved[SAVED_KINDS];
};

static inline void *saved_at(const struct gpt_pass *p, enum saved_buffer saved, int slot)
{
    return p->saved[saved].base + p->saved[saved].layout.offset[slot];
}

/* The functions of all uses, indexed by the use's number (USE_ in gpt2.h); forward.c and backward.c define them. */
typedef int gpt_use(const struct gpt_pass *pass, const struct gpt_call *call, struct error *err);
extern gpt_use *const gpt_forward[USES], *const gpt_backward[USES];
