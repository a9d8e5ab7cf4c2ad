/* GPT-2 as an architecture (Radford et al. 2019): the names of its uses, tensors, saved buffers and slots, for its row in gpt2.c and for
 * engine/gpt, which computes it. One layout is read by the plan (sizes) and by engine/gpt (offsets), so the two cannot disagree.
 *
 * The plan also covers its relatives: LLaMA (Touvron et al. 2023), Qwen2, OPT (Zhang et al. 2022) and BLOOM (2022). They are the same chain
 * of uses with other widths (struct model_traits): norms without a shift, an MLP with a gate, fewer heads of keys and values, no
 * learned positions, a norm behind the embedding, an output layer that is a unit of its own. What they keep follows GPT-2's rules:
 * they save each product's input and output once, no attention matrix; rotated q and k take the place of q and k. engine/gpt does not
 * compute the relatives.
 *
 *   attention: ln1 mean and rstd, ln1 out, qkv, softmax log-sum-exp, attention out
 *   mlp:       x after attention, ln2 mean and rstd, ln2 out, fc out, gelu out; the gate's product where there is one
 *   hidden:    of each tile of a tiled MLP: fc out, gelu out, gate (which the mlp buffer then lacks)
 *   norm:      mean and rstd
 *   head:      losses, logits (turned into their gradient in place)
 *
 * Attention keeps one log-sum-exp per row and head, never T x T (FlashAttention, Dao et al. 2022). */
#pragma once

#include "engine/plan/model.h"

enum gpt2_use { USE_EMBED, USE_EMBNORM, USE_BLOCK, USE_MLP, USE_NORM, USE_HEAD, USE_ATTENTION, USES };

enum tensor_id {
#define TENSOR(ID, name, use, rows, columns, init, decay, cut) TENSOR_##ID,
#include "engine/plan/tensors.def"
#undef TENSOR
    TENSOR_IDS
};

enum saved_buffer { SAVED_ATTENTION, SAVED_MLP, SAVED_NORM, SAVED_HEAD, SAVED_HIDDEN, SAVED_KINDS };

enum gpt2_slot {
#define SLOT(saved, ID, elems, fp32) saved##_##ID,
#include "engine/plan/gpt2_slots.def"
#undef SLOT
    GPT2_SLOTS
};

extern const struct use gpt2_uses[USES];
extern const struct architecture architecture_gpt2;

/* Elements from one row of logits to the next: the vocabulary, on a GPU rounded up to a multiple of 128. Without that, rows of an odd
 * length (GPT-2 has 50,257 tokens) would be misaligned, and products would read them one element at a time. The padding changes no
 * parameter and no computed number. */
int64_t logits_row(const struct model *model);

/* Hidden width of a unit that has an MLP, or a tile of one. */
int64_t activation_hidden(const struct model *model);

/* Bytes of the gradient of q, k and v at the start of the backward scratch of a block with a tiled MLP. 0 if the MLP is not tiled: then
 * the gradient lies in the MLP's saved buffer. */
int64_t scratch_qkv_bytes(const struct model *model, int B, int T);
