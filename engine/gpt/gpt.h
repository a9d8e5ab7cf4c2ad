/* GPT-2, forward and backward by hand, one function per use of a unit (Radford et al. 2019: pre-norm blocks, learned
 * positions, biases, GELU in tanh form, output tied to the token embedding). It knows nothing of ranks, stages or where
 * its memory came from: it is handed pointers. Tensors are in model->dtype unless said otherwise; N = B*T rows.
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
 *         where forward's buffers were given up meanwhile, BLOCK forward or ATTENTION forward fills new ones first
 *     EMBED backward                           -> rest of embed's gradient
 *
 * Where MLPs are tiled (model.mlp_tiles), a block is the use of its attention half and of every tile of its MLP, one by one:
 *
 *     BLOCK forward (block l, x), MLP forward (mlp l.0) .. (mlp l.k-1)            -> x
 *     MLP backward (mlp l.k-1) .. (mlp l.0)     -> normed; BLOCK backward (block l) -> residual
 *
 * with the same numbers but for the roundings of the sums over tiles. Results are the same bits on every run at equal shapes,
 * dtype, thread count and instruction set. */
#ifndef ENGINE_GPT_GPT_H
#define ENGINE_GPT_GPT_H

#include "engine/plan/gpt2.h"

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

/* What forward leaves for backward: one buffer per part (gpt2.h). A use touches the parts that are its own. */
struct gpt_saved { void *part[PART_KINDS]; };

/* One use of a unit: what to do, and the pointers that it needs; the others are NULL.
 *
 * Forward fills the parts that are its own, and recomputation fills them again with the same bits. Backward writes gradients of the
 * unit in the model's dtype, or adds them where accumulate is set (micro-steps after the first); the embedding adds to wte what the
 * head left there. */
struct gpt_call {
    enum op_kind kind;
    const struct use *use;
    struct gpt_tensors parameters, gradient;
    bool accumulate;
    const int32_t *tokens;    /* [N], of the embedding */
    const int32_t *targets;   /* [N], of the head; NULL: the logits are left as they are (sampling) */
    float loss_scale;         /* the head's logits become the gradient of this times the mean loss */
    float *mean_loss;         /* over the N rows, summed in double in row order */
    const void *input;        /* [N, C]: the output of the use before */
    struct gpt_saved saved;
    void *output;             /* [N, C]; the first tile overwrites it, others add to it. NULL: it is still there from the first time, or
                                 the tiles make it, and the product that makes it is left out */
    void *residual;           /* [N, C]: gradient of the residual stream, updated in place; the head overwrites it, tiles read it */
    void *normed;             /* [N, C]: gradient of the second norm's output, which tiles make; NULL where MLPs are not tiled */
    bool add;                 /* a tile adds to it, rather than overwrite it */
    void *scratch;
};

typedef int gpt_use(const struct gpt *gpt, const struct gpt_call *call, struct error *err);
gpt_use gpt_run;

/* Where the pieces of a part lie in its buffer. */
struct slots { char *base; struct activation_layout layout; };
struct slots slots_of(const struct gpt *gpt, enum activation_part part, void *saved);
static inline void *slot(const struct slots *slots, int number)
{
    return slots->base + slots->layout.offset[number];
}

/* The logits that a head left for the token after number `position` of the first sequence: [vocabulary], in the model's dtype. */
const void *gpt_logits(const struct gpt *gpt, const struct gpt_saved *head, int position);

/* Initial values of elements [first, first + count) of a unit's flat array (padding: 0), in fp32: a pure function of
 * (seed, tensor, index), so any rank can make any shard. */
void gpt_initial_values(const struct model *model, int unit, uint64_t seed, int64_t first, int64_t count, float *values);

/* By use, in forward.c and backward.c. */
extern gpt_use *const gpt_forward[USES], *const gpt_backward[USES];

#endif
