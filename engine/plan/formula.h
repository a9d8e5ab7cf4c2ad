/* The formula for the bytes of each kind of buffer: in symbols, with numbers, and its value. People read the formulas in
 * `zerolab plan` and in the view "why"; a test compares every one with the bytes of the plan.
 *
 * A formula (engine/base/arithmetic.h) is a sum of products: "5 e N C + (2 + heads) 4 N". e: bytes of an element; N: rows of a
 * micro-batch, B x T; C: hidden; V: elements of a row of logits (the vocabulary, on a GPU with padding: logits_row()); F: hidden
 * width of a tile of an MLP; heads. For a model other than GPT-2 also K: width of the keys; M and G: width of an MLP and of its gate; s:
 * statistics of a norm. */
#pragma once

#include "engine/plan/model.h"

struct formula {
    const char *buffer, *bytes, *note; /* bytes: a formula; "": the note says in words what it counts */
    char each; /* bytes of what the note counts: 'e', those of an element, or a digit; 0: the note has them */
};

const struct formula *formula_of(const char *buffer); /* NULL: none */
bool formula_general(const struct model *model); /* whether the model is another than GPT-2 */
const char *formula_bytes(const struct formula *formula, const struct model *model); /* the formula for this model */

struct formula_sizes { int64_t e, N, C, V, heads, F, K, M, G, s; };
struct formula_sizes formula_sizes_of(const struct model *model, int B, int T);

int64_t formula_value(const char *formula, const struct formula_sizes *sizes);

/* "5×4×256×128 + (2+4)×4×256" */
void formula_numbers(char *text, size_t room, const char *formula, const struct formula_sizes *sizes);

/* ---- activation terms ---- */

/* The activations of the blocks, compared with the formula of Korthikanti et al. 2022 (section 4): a layer keeps
 * sbh(34 + 5as/h) bytes in 16-bit training with dropout and a stored attention matrix. Ours differ by named terms, and the
 * terms add up to the byte. s = T, b = B, h = C, a = heads. */
struct activation_term { const char *what, *formula; int64_t bytes; }; /* over all blocks */

enum { ACTIVATION_TERMS_MAX = 16 };

struct activation_terms {
    int64_t stored, flash, inputs; /* the formula; the same without the attention matrix (34sbh); layer inputs only (2sbh) */
    int count;
    struct activation_term difference[ACTIVATION_TERMS_MAX]; /* these terms added to `stored` give `kept` */
    int64_t kept;                  /* bytes that zerolab keeps from the blocks' forward to their backward */
};

void activation_terms_of(struct activation_terms *terms, const struct model *model, const struct config_zero *knobs, int B, int T);
