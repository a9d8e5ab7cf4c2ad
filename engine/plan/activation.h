/* What forward saves for backward, and what scratch the operations need: one layout, read by the plan (sizes) and by the
 * model's code (offsets), so the two cannot disagree.
 *
 * Every forward use of a unit fills one activation buffer, whose last slot is its output (the next use's input):
 *   embed: x0                          [N, C]           N = B*T rows
 *   block: ln1 mean and rstd, ln1 out, qkv, softmax log-sum-exp, attention out, x after attention, ln2 mean and rstd,
 *          ln2 out, fc out, gelu out, x out
 *   norm:  mean and rstd, out          [N, C]
 *   head:  logits (turned into their gradient in place), losses
 * Attention keeps one log-sum-exp per row and head, never T x T (FlashAttention, Dao et al. 2022). */
#ifndef ENGINE_PLAN_ACTIVATION_H
#define ENGINE_PLAN_ACTIVATION_H

#include "engine/plan/model.h"

/* The compute uses of units in a micro-step, in the order of a forward pass, then backward. */
enum use {
    USE_EMBED_FORWARD, USE_BLOCK_FORWARD, USE_NORM_FORWARD, USE_HEAD_FORWARD,
    USE_HEAD_BACKWARD, USE_NORM_BACKWARD, USE_BLOCK_BACKWARD, USE_EMBED_BACKWARD,
    USES
};

/* SLOT(ID, elements as an expression in N, B, T, C, V, NH; fp32 whatever the model's dtype?) */
#define EMBED_SLOTS(SLOT) SLOT(X, N *C, 0)
#define BLOCK_SLOTS(SLOT)                                                                                       \
    SLOT(LN1_MEAN, N, 1) SLOT(LN1_RSTD, N, 1) SLOT(LN1, N *C, 0) SLOT(QKV, N * 3 * C, 0) SLOT(LSE, N *NH, 1)   \
    SLOT(ATT, N *C, 0) SLOT(MID, N *C, 0) SLOT(LN2_MEAN, N, 1) SLOT(LN2_RSTD, N, 1) SLOT(LN2, N *C, 0)         \
    SLOT(FC, N * 4 * C, 0) SLOT(GELU, N * 4 * C, 0) SLOT(X, N *C, 0)
#define NORM_SLOTS(SLOT) SLOT(MEAN, N, 1) SLOT(RSTD, N, 1) SLOT(X, N *C, 0)
#define HEAD_SLOTS(SLOT) SLOT(LOSS, N, 1) SLOT(LOGITS, N *V, 0)

#define SLOT(ID, elems, fp32) EMBED_##ID,
enum embed_slot { EMBED_SLOTS(SLOT) EMBED_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) BLOCK_##ID,
enum block_slot { BLOCK_SLOTS(SLOT) BLOCK_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) NORM_##ID,
enum norm_slot { NORM_SLOTS(SLOT) NORM_SLOT_COUNT };
#undef SLOT
#define SLOT(ID, elems, fp32) HEAD_##ID,
enum head_slot { HEAD_SLOTS(SLOT) HEAD_SLOT_COUNT };
#undef SLOT

enum { ACTIVATION_SLOTS_MAX = 16, ACTIVATION_ALIGN = 64 };

struct activation_layout {
    int count;
    int64_t offset[ACTIVATION_SLOTS_MAX]; /* bytes, multiples of ACTIVATION_ALIGN */
    int64_t bytes;
};

/* Layout of the buffer that a forward use fills, for B sequences of T tokens. */
void activation_layout(struct activation_layout *layout, const struct model *model, enum use forward_use, int B, int T);

/* Scratch that a use needs while it runs (0 for most), for `threads` compute threads. */
int64_t scratch_bytes(const struct model *model, enum use use, int B, int T, int threads);

#endif
