/* GPT-2 as an architecture (Radford et al. 2019): the names of its uses, tensors, parts and slots, for its row in gpt2.c and for
 * engine/gpt, which computes it. One layout is read by the plan (sizes) and by engine/gpt (offsets), so the two cannot disagree.
 *
 *   attention: ln1 mean and rstd, ln1 out, qkv, softmax log-sum-exp, attention out
 *   mlp:       x after attention, ln2 mean and rstd, ln2 out, fc out, gelu out
 *   hidden:    of each tile of a tiled MLP: fc out, gelu out (which the mlp part then lacks)
 *   norm:      mean and rstd
 *   head:      losses, logits (turned into their gradient in place)
 *
 * Attention keeps one log-sum-exp per row and head, never T x T (FlashAttention, Dao et al. 2022). */
#ifndef ENGINE_PLAN_GPT2_H
#define ENGINE_PLAN_GPT2_H

#include "engine/plan/model.h"

enum gpt2_use { USE_EMBED, USE_BLOCK, USE_MLP, USE_NORM, USE_HEAD, USE_ATTENTION, USES };

enum tensor_id {
#define TENSOR(ID, name, use, rows, columns, init, decay, cut) TENSOR_##ID,
#include "engine/plan/tensors.def"
#undef TENSOR
    TENSOR_IDS
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

extern const struct use gpt2_uses[USES];
extern const struct architecture architecture_gpt2;

/* Elements from one row of logits to the next: the vocabulary, on a GPU rounded up to whole lines of its caches. Rows of an odd length
 * (GPT-2 has 50,257 tokens) begin off every border, and products with them would have to go one element at a time; no parameter
 * and no number that is computed changes by it. */
int64_t logits_row(const struct model *model);

/* Hidden width of a unit that has an MLP, or a tile of one. */
int64_t activation_hidden(const struct model *model);

/* Of what a tiled block's backward works in besides: the gradient of q, k and v, which elsewhere finds room in the MLP's. It stands at
 * the beginning of the scratch. */
int64_t scratch_qkv_bytes(const struct model *model, int B, int T);

#endif
