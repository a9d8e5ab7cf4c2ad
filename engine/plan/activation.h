/* What forward saves for backward, and what scratch the operations need: one layout, read by the plan (sizes) and by the
 * model's code (offsets), so the two cannot disagree.
 *
 * Every forward use of a unit has an output, the next use's input, of [N, C] (N = B*T rows); the head has none. What else
 * backward needs is saved in parts, each a buffer, because recomputation lets go of one part and keeps another:
 *
 *   attention: ln1 mean and rstd, ln1 out, qkv, softmax log-sum-exp, attention out
 *   mlp:       x after attention, ln2 mean and rstd, ln2 out, fc out, gelu out
 *   hidden:    of each tile of a tiled MLP: fc out, gelu out (which the mlp part then lacks)
 *   norm:      mean and rstd
 *   head:      losses, logits (turned into their gradient in place)
 *
 * Attention keeps one log-sum-exp per row and head, never T x T (FlashAttention, Dao et al. 2022). */
#ifndef ENGINE_PLAN_ACTIVATION_H
#define ENGINE_PLAN_ACTIVATION_H

#include "engine/plan/model.h"

/* The compute uses of units in a micro-step, in the order of a forward pass, then backward. The last three stand before a
 * block's backward where forward did not keep all that it needs. Those of MLP are of a tile: there are none where MLPs are not tiled. */
enum use {
    USE_EMBED_FORWARD, USE_BLOCK_FORWARD, USE_MLP_FORWARD, USE_NORM_FORWARD, USE_HEAD_FORWARD,
    USE_HEAD_BACKWARD, USE_NORM_BACKWARD, USE_MLP_BACKWARD, USE_BLOCK_BACKWARD, USE_EMBED_BACKWARD,
    USE_BLOCK_RECOMPUTE, USE_ATTENTION_RECOMPUTE, USE_MLP_RECOMPUTE,
    USES
};

enum activation_part { PART_ATTENTION, PART_MLP, PART_NORM, PART_HEAD, PART_HIDDEN, PART_KINDS };

/* SLOT(ID, elements as an expression in N, B, T, C, R (a row of logits), NH, H and F: the hidden width of an MLP that is
 * part of its block, and of a tile; one of them is 0; fp32 whatever the model's dtype?) */
#define ATTENTION_SLOTS(SLOT)                                                                                   \
    SLOT(LN1_MEAN, N, 1) SLOT(LN1_RSTD, N, 1) SLOT(LN1, N *C, 0) SLOT(QKV, N * 3 * C, 0) SLOT(LSE, N *NH, 1)   \
    SLOT(ATT, N *C, 0)
#define MLP_SLOTS(SLOT)                                                                                         \
    SLOT(MID, N *C, 0) SLOT(LN2_MEAN, N, 1) SLOT(LN2_RSTD, N, 1) SLOT(LN2, N *C, 0) SLOT(FC, N *H, 0)          \
    SLOT(GELU, N *H, 0)
#define NORM_SLOTS(SLOT) SLOT(MEAN, N, 1) SLOT(RSTD, N, 1)
#define HEAD_SLOTS(SLOT) SLOT(LOSS, N, 1) SLOT(LOGITS, N *R, 0)
#define HIDDEN_SLOTS(SLOT) SLOT(FC, N *F, 0) SLOT(GELU, N *F, 0)

#define SLOT(ID, elems, fp32) ATTENTION_##ID,
enum attention_slot { ATTENTION_SLOTS(SLOT) ATTENTION_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) MLP_##ID,
enum mlp_slot { MLP_SLOTS(SLOT) MLP_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) NORM_##ID,
enum norm_slot { NORM_SLOTS(SLOT) NORM_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) HEAD_##ID,
enum head_slot { HEAD_SLOTS(SLOT) HEAD_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) HIDDEN_##ID,
enum hidden_slot { HIDDEN_SLOTS(SLOT) HIDDEN_SLOT_COUNT };
#undef SLOT

enum { ACTIVATION_SLOTS_MAX = 16, ACTIVATION_ALIGN = 64 };

struct activation_layout {
    int count;
    int64_t offset[ACTIVATION_SLOTS_MAX]; /* bytes, multiples of ACTIVATION_ALIGN */
    int64_t bytes;
};

/* Elements from one row of logits to the next: the vocabulary, on a GPU rounded up to whole lines of its caches. Rows of an odd length
 * (GPT-2 has 50,257 tokens) begin off every border, and products with them would have to go one element at a time; no parameter
 * and no number that is computed changes by it. */
int64_t logits_row(const struct model *model);

/* Layout of the buffer that holds a part, for B sequences of T tokens. */
void activation_layout(struct activation_layout *layout, const struct model *model, enum activation_part part, int B, int T);

/* Hidden width of a unit that has an MLP, or a tile of one. */
int64_t activation_hidden(const struct model *model);

/* Of a use's output. */
int64_t activation_output_bytes(const struct model *model, int B, int T);

/* Of what a tiled block's backward works in besides: the gradient of q, k and v, which elsewhere finds room in the MLP's. It stands at
 * the beginning of the scratch. */
int64_t scratch_qkv_bytes(const struct model *model, int B, int T);

/* Scratch that a use needs while it runs (0 for most), for `threads` compute threads. */
int64_t scratch_bytes(const struct model *model, enum use use, int B, int T, int threads);

#endif
